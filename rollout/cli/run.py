"""`rollout run`: from a config file to trajectories."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollout.cli import options as o
from rollout.cli.exit_codes import EXIT_FAILED, EXIT_PROBLEMS, EXIT_UNFINISHED
from rollout.cli.signals import Signals, listening

if TYPE_CHECKING:
    from rich.console import Console

    from rollout.config import Config
    from rollout.pipelines.run_options import RunOptions

log = logging.getLogger(__name__)


def run(
    config: o.ConfigPath,
    dataset: o.DatasetNames = None,
    limit: o.Limit = None,
    samples: o.Samples = None,
    agent_model: o.AgentModel = None,
    user_model: o.UserModel = None,
    strategy: o.Strategy = None,
    output: o.OutputFolder = None,
    set_: o.Settings = None,
    cluster: o.ClusterAddress = None,
    resume: o.Resume = None,
    verbose: o.Verbose = False,
    no_colors: o.NoColors = False,
    dry_run: o.DryRun = False,
    view: Annotated[bool, typer.Option("--view", help="Show the run in a browser while it goes on.")] = False,
) -> None:
    """Roll out the datasets of a config.

    The shipped example, with no key and no network:

        rollout run default

    What would run, and what is missing:

        rollout run configs/example_new.yml --dry-run

    One dataset, from where it stopped, printed as it happens:

        rollout run configs/example_new.yml -d CustomerService --resume --verbose

    Five tasks with your model, four attempts at each, in a folder of their own:

        rollout run configs/default.yml --limit 5 --samples 4 --agent-model openai/my-model --output trial

    Any other key of the YAML:

        rollout run configs/default.yml --set max_workers=8 --set 'datasets.*.agent.temperature=0.2'

    The same on the Ray cluster that this machine belongs to:

        rollout run configs/example_new.yml --cluster auto
    """
    options = _options(dataset, limit, samples, agent_model, user_model, strategy, output, set_, cluster)
    sys.exit(run_config(config, options, resume, verbose, no_colors, dry_run, view))


def run_by_option(
    config: Annotated[
        Path, typer.Option("--config", "-c", metavar="FILE", help="The YAML configuration.", show_default=False)
    ],
    dataset: o.DatasetNames = None,
    limit: o.Limit = None,
    samples: o.Samples = None,
    agent_model: o.AgentModel = None,
    user_model: o.UserModel = None,
    strategy: o.Strategy = None,
    output: o.OutputFolder = None,
    set_: o.Settings = None,
    cluster: o.ClusterAddress = None,
    resume: o.Resume = None,
    verbose: o.Verbose = False,
    no_colors: o.NoColors = False,
    dry_run: o.DryRun = False,
) -> None:
    """Roll out the datasets of a config: `rollout run CONFIG` in AgentSkiller's spelling."""
    options = _options(dataset, limit, samples, agent_model, user_model, strategy, output, set_, cluster)
    sys.exit(run_config(config, options, resume, verbose, no_colors, dry_run))


def _options(
    dataset: list[str] | None,
    limit: int | None,
    samples: int | None,
    agent_model: str | None,
    user_model: str | None,
    strategy: str | None,
    output: Path | None,
    set_: list[str] | None,
    cluster: str | None,
) -> RunOptions:
    from rollout.pipelines.run_options import RunOptions

    return RunOptions(
        datasets=tuple(dataset or ()),
        limit=limit,
        samples=samples,
        agent_model=agent_model,
        user_model=user_model,
        strategy=strategy,
        output=output,
        settings=tuple(set_ or ()),
        cluster=cluster,
    )


def run_config(
    path: Path,
    options: RunOptions,
    resume: bool | None = None,
    verbose: bool = False,
    no_colors: bool = False,
    dry_run: bool = False,
    view: bool = False,
) -> int:
    """Run a configuration file; returns the exit code."""
    from rollout.pipelines.run_options import load_changed

    config, names = load_changed(path, options)
    if verbose:
        config = config.model_copy(update={"verbose": True})
    wanted = config.resume if resume is None else resume
    again = " ".join(filter(None, [f"rollout run {path}", options.words(), "--resume"]))
    return run_checked(config, names, resume=wanted, again=again, no_colors=no_colors, dry_run=dry_run, view=view)


def run_checked(
    config: Config,
    names: list[str],
    *,
    resume: bool,
    again: str,
    no_colors: bool = False,
    dry_run: bool = False,
    is_brief: bool = False,
    view: bool = False,
) -> int:
    """Check or run a configuration that was read, with its `run_dir` set; returns the exit code.

    `again` is the command that goes on with this run, shown at the end. `is_brief` shows no table of what came out,
    unless something is left to do. `view` shows the run in a browser while it goes on.
    """
    if dry_run:
        from rollout.cli.check import check_whole
        from rollout.terminal.checks import show_checks
        from rollout.terminal.console import make_console

        found = check_whole(config, names, resume=resume)
        show_checks(make_console(no_colors), found)
        return EXIT_PROBLEMS if found.problem_count else 0
    if view:
        from rollout.cli.viewing import refuse_missing_extra

        refuse_missing_extra("rollout run --view")
    with listening() as signals:
        return signals.run(_roll_out(config, names, resume, again, no_colors, is_brief, view, signals))


async def _roll_out(
    config: Config,
    names: list[str],
    resume: bool,
    again: str,
    no_colors: bool,
    is_brief: bool,
    view: bool,
    signals: Signals,
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

    async with (
        open_shown_run(config, config.run_dir, datasets=names, resume=resume, warn=warn, console=console) as opened,
        _shown(console, config.run_dir, view),
    ):
        with signals.pausing(opened.engine, config.timeouts.grace, log.warning):
            await opened.engine.run()
    assert opened.summary is not None
    total = opened.summary.total
    if not is_brief or total.unfinished or total.failed:
        show_summary(console, opened, again, paused=opened.engine.control.reason)
    if signals.exit_code is not None:
        return signals.exit_code
    # A resumed run that was paused has not tried all again that failed before.
    if total.unfinished or (total.failed and opened.engine.control.reason is not None):
        return EXIT_UNFINISHED
    return EXIT_FAILED if total.failed else 0


@contextlib.asynccontextmanager
async def _shown(console: Console, run_dir: Path, view: bool) -> AsyncIterator[None]:
    """Show a run in a browser inside the block, if that is wanted. The server is a process of its own, so that the run
    is not slowed down; it ends with the run."""
    if not view:
        yield
        return
    from rollout.cli.viewing import view_beside

    async with view_beside(console, run_dir):
        yield
