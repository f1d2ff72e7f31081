"""`rollout run`: from a config file to trajectories."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from rollout.cli.signals import Signals, listening
from rollout.config import Config, load_config
from rollout.config.cluster import Cluster
from rollout.core.errors import ConfigError, RolloutError
from rollout.core.spelling import suggest

log = logging.getLogger(__name__)
EXIT_PROBLEMS = 2
EXIT_FAILED = 1
EXIT_UNFINISHED = 3


DatasetOption = Annotated[
    list[str] | None, typer.Option("--dataset", "-d", metavar="NAME", help="Only this dataset. May be repeated.")
]
ResumeOption = Annotated[
    bool | None,
    typer.Option(
        "--resume/--no-resume",
        "-r",
        help="Go on where the last run stopped, or move it aside and start a new run. Default: what the config says.",
    ),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Print the conversations as they happen.")]
StrategyOption = Annotated[
    str | None,
    typer.Option(
        "--strategy", metavar="NAME", help="Explore every task by this strategy, with its default parameters."
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Spread the run over a Ray cluster: auto (the one of this machine), local (one of its own), ray://…",
    ),
]
NoColorsOption = Annotated[bool, typer.Option("--no-colors", help="No colours, no live display.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Check all that can be wrong, print what would run, run nothing.")
]


def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The YAML configuration.", show_default=False)],
    dataset: DatasetOption = None,
    strategy: StrategyOption = None,
    cluster: ClusterOption = None,
    resume: ResumeOption = None,
    verbose: VerboseOption = False,
    no_colors: NoColorsOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Roll out the datasets of a config.

    The embedded example, with no key and no network:

        rollout run configs/default.yml

    What would run, and what is missing:

        rollout run configs/example_new.yml --dry-run

    One dataset, from where it stopped, printed as it happens:

        rollout run configs/example_new.yml -d CustomerService --resume --verbose

    The same on the Ray cluster that this machine belongs to:

        rollout run configs/example_new.yml --cluster auto
    """
    sys.exit(run_config(config, dataset, resume, verbose, no_colors, dry_run, strategy, cluster))


def run_by_option(
    config: Annotated[Path, typer.Option("--config", "-c", help="The YAML configuration.", show_default=False)],
    dataset: DatasetOption = None,
    cluster: ClusterOption = None,
    resume: ResumeOption = None,
    verbose: VerboseOption = False,
    no_colors: NoColorsOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Roll out the datasets of a config: `rollout run CONFIG` in AgentSkiller's spelling."""
    sys.exit(run_config(config, dataset, resume, verbose, no_colors, dry_run, cluster=cluster))


def run_config(
    path: Path,
    names: list[str] | None = None,
    resume: bool | None = None,
    verbose: bool = False,
    no_colors: bool = False,
    dry_run: bool = False,
    strategy: str | None = None,
    cluster: str | None = None,
) -> int:
    """Run a configuration file; returns the exit code. `run.py` calls this too."""
    from rollout.terminal.console import make_console, show_error

    console = make_console(no_colors)
    try:
        from rollout.pipelines.discover import with_discovered
        from rollout.pipelines.run import run_dir_of

        config = with_discovered(load_config(path))
        names = choose_datasets(config, names, path)
        if strategy is not None:
            config = _with_strategy(config, strategy)
        config = with_cluster(config, cluster)
        if config.run_dir is None:
            config = config.model_copy(update={"run_dir": run_dir_of(config, path)})
        if verbose:
            config = config.model_copy(update={"verbose": True})
        wanted = config.resume if resume is None else resume
        only = "".join(f" --dataset {name}" for name in names) if len(names) < len(config.datasets) else ""
        only += f" --strategy {strategy}" if strategy is not None else ""
        only += f" --cluster {cluster}" if cluster is not None else ""
        again = f"rollout run {path}{only} --resume"
        return run_checked(config, names, resume=wanted, again=again, no_colors=no_colors, dry_run=dry_run)
    except RolloutError as error:
        show_error(console, error)
        return EXIT_PROBLEMS


def run_checked(
    config: Config,
    names: list[str],
    *,
    resume: bool,
    again: str,
    no_colors: bool = False,
    dry_run: bool = False,
    is_brief: bool = False,
) -> int:
    """Check or run a configuration that was read, with its `run_dir` set; returns the exit code.

    `again` is the command that goes on with this run, shown at the end. `is_brief` shows no table of what came out,
    unless something is left to do.
    """
    if dry_run:
        from rollout.cli.check import check_config, show_check
        from rollout.terminal.console import make_console

        return show_check(make_console(no_colors), check_config(config, names))
    with listening() as signals:
        return signals.run(_roll_out(config, names, resume, again, no_colors, is_brief, signals))


def _with_strategy(config: Config, name: str) -> Config:
    """The configuration with one strategy everywhere; the limits that a dataset sets stay."""
    from rollout.pipelines.wiring import with_other_strategy

    datasets = {}
    for key, dataset in config.datasets.items():
        choice = dataset.strategy.model_copy(update={"name": name, "params": {}})
        datasets[key] = with_other_strategy(dataset, choice)
    return config.model_copy(update={"datasets": datasets})


def with_cluster(config: Config, address: str | None) -> Config:
    """The configuration on the cluster at an address; what it says of clusters otherwise stays."""
    if address is None:
        return config
    cluster = (config.cluster or Cluster()).model_copy(update={"address": address})
    return config.model_copy(update={"cluster": cluster})


def choose_datasets(config: Config, names: list[str] | None, path: Path) -> list[str]:
    """The datasets that are wanted: those that are named, or all."""
    if not config.datasets:
        raise ConfigError(f"{path}: datasets: there are none; expected at least one")
    unknown = [name for name in names or () if name not in config.datasets]
    if unknown:
        hint = suggest(unknown[0], config.datasets)
        raise ConfigError(f"{path}: no dataset {', '.join(map(repr, unknown))}; {hint}")
    return list(dict.fromkeys(names)) if names else list(config.datasets)


async def _roll_out(
    config: Config, names: list[str], resume: bool, again: str, no_colors: bool, is_brief: bool, signals: Signals
) -> int:
    from rollout.terminal.console import make_console
    from rollout.terminal.log_lines import set_up_logging
    from rollout.terminal.shown_run import open_shown_run
    from rollout.terminal.summary import show_summary

    console = make_console(no_colors)
    assert config.run_dir is not None
    set_up_logging(config.log_level, config.log_file, console)

    def warn(problem: str) -> None:
        console.print(f"warning {problem}", highlight=False, soft_wrap=True)

    async with open_shown_run(
        config, config.run_dir, datasets=names, resume=resume, warn=warn, console=console
    ) as opened:
        with signals.pausing(opened.engine, config.timeouts.grace, log.warning):
            await opened.engine.run()
    assert opened.summary is not None
    total = opened.summary.total
    if not is_brief or total.unfinished or total.failed:
        show_summary(console, opened, again, paused=opened.engine.control.reason)
    if signals.exit_code is not None:
        return signals.exit_code
    if total.unfinished:
        return EXIT_UNFINISHED
    return EXIT_FAILED if total.failed else 0
