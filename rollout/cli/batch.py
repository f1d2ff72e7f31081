"""`rollout single` and `rollout cross`: roll out whole dataset folders, with AgentSkiller's flags and defaults.

Both find what there is below a folder, make one configuration of it (each domain a dataset, one run directory for all)
and hand it to the same engine as `rollout run`, so `--max-workers` is live conversations over all domains together.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from rollout.compat.batch import Batch, Merge, dataset_name
from rollout.config import Config, load_registry
from rollout.config.load import validate
from rollout.config.settings import change_tree
from rollout.core.errors import ConfigError, RolloutError
from rollout.environments.domains.domain import SHIPPED
from rollout.tasks.discovery import Combination, Kind, choose_combinations, default_base

All = Annotated[bool, typer.Option("--all", help="Everything that is found.")]
List = Annotated[bool, typer.Option("--list", help="Show what is found, and what is missing for it.")]
Generate = Annotated[bool, typer.Option("--generate-configs", help="Write a config for review by hand; run nothing.")]
ModelsConfig = Annotated[
    Path, typer.Option(metavar="FILE", help="The registry of models. The default is left out if it is missing.")
]
ConfigOutput = Annotated[Path, typer.Option(metavar="DIR", help="The folder for --generate-configs.")]
MaxTurns = Annotated[int, typer.Option(metavar="N", min=1, help="User messages in a conversation, at most.")]
AgentTemperature = Annotated[float, typer.Option(metavar="X", min=0)]
UserTemperature = Annotated[float, typer.Option(metavar="X", min=0)]
NoThinking = Annotated[bool, typer.Option("--no-thinking", help="Do not ask the agent's model to think.")]
OutputFolder = Annotated[
    Path,
    typer.Option("--output-dir", "--output", "-o", metavar="DIR", help="The folder of the run and its trajectories."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only the summary.")]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Same seed, same run.")]
Domains = Annotated[list[str] | None, typer.Option("--domains", metavar="NAME...", help="These, one or several.")]
BasePath = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="The dataset folder. Default: rollout/tools/datasets here, else the shipped domains."
    ),
]
QueryDir = Annotated[Path | None, typer.Option(metavar="DIR", help="Instead of <base-path>/queries.")]
PolicyDir = Annotated[Path | None, typer.Option(metavar="DIR", help="Instead of <base-path>/policies.")]


def run_batch(
    batch: Batch,
    chosen: Sequence[Combination],
    *,
    is_all: bool,
    resume: bool,
    quiet: bool,
    verbose: bool,
    dry_run: bool,
    limit: int | None,
    settings: Sequence[str],
) -> int:
    """Roll these out; returns the exit code. Where all are wanted, those that cannot run are left out and reported."""
    from rollout.cli.exit_codes import EXIT_FAILED
    from rollout.cli.run import run_checked

    runnable, left_out = batch.runnable(chosen)
    if left_out and not is_all:
        raise ConfigError(next(iter(left_out.values())))
    _show_left_out(left_out)
    document = batch.config(runnable)
    for dataset in document["datasets"].values():
        if limit is not None:
            dataset["limit"] = limit
    document = change_tree(document, settings)
    registry = document.pop("models_config_file", None)
    config = validate(document, Config, str(batch.base_path))
    if registry is not None:
        config = config.model_copy(update={"models": load_registry(Path(registry))})
    config = config.model_copy(update={"verbose": verbose and not quiet})
    names = list(config.datasets)
    broken = _broken_datasets(config, names) if is_all and not dry_run else set[str]()
    again = " ".join(["rollout", *sys.argv[1:]]) if sys.argv[0].endswith("rollout") else " ".join(sys.argv)
    names = [name for name in names if name not in broken] or names
    code = run_checked(config, names, resume=resume, again=again, no_colors=quiet, dry_run=dry_run)
    return code or (EXIT_FAILED if broken else 0)


def _broken_datasets(config: Config, names: list[str]) -> set[str]:
    """The domains whose servers or tools cannot be loaded, each reported with its reason."""
    from rollout.cli.check import check_config

    found = {report.name: report.broken for report in check_config(config, names) if report.broken}
    _show_left_out({name: "; ".join(reasons) for name, reasons in found.items()})
    return set(found)


def _show_left_out(left_out: Mapping[str, str]) -> None:
    from rollout.terminal.console import show_warning

    for name, reason in left_out.items():
        show_warning(f"{name} is left out: {reason}")


def _broken_servers(batch: Batch, found: Sequence[Combination]) -> dict[str, list[str]]:
    """The combinations that are complete and whose servers cannot be loaded or constructed, with the reasons."""
    from rollout.cli.check import broken_servers

    complete = batch.complete(found)
    config = Config.model_validate(batch.config(complete))
    reasons = broken_servers(config, list(config.datasets))
    return {one.name: reasons[key] for one in complete if (key := dataset_name(one)) in reasons}


def _table(batch: Batch, found: Sequence[Combination], broken: Collection[str], *, verbose: bool) -> Table:
    """What there is, and what is missing or broken."""
    table = Table(title=str(batch.base_path), title_justify="left", title_style="bold")
    rows = [batch.describe(one, is_broken=one.name in broken, verbose=verbose) for one in found]
    for column in rows[0] if rows else ("domain",):
        is_number = column in ("tools", "queries")
        table.add_column(column, overflow="fold", justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*row.values())
    return table


def perform(
    kind: Kind,
    *,
    all_: bool,
    list_: bool,
    generate_configs: bool,
    domains: Sequence[str] | None,
    base_path: Path | None,
    output_dir: Path,
    config_output_dir: Path,
    resume: bool | None,
    quiet: bool,
    verbose: bool,
    dry_run: bool,
    set_: Sequence[str] | None = None,
    min_domains: int = 1,
    require_policy: bool = False,
    max_combinations: int | None = None,
    limit: int | None = None,
    merge_queries: bool = False,
    force: bool = False,
    **settings: Any,
) -> int:
    """What both commands do with their options; returns the exit code. The rest of the options are `Batch`'s."""
    from rollout.terminal.console import make_console, show_error

    console = make_console(quiet)
    try:
        batch = Batch(kind, base_path or default_base(SHIPPED, kind), output_dir, **settings)
        if merge_queries:
            for line in Merge(force).perform(batch.find()):
                console.print(line, highlight=False, soft_wrap=True)
            return 0
        if not (all_ or list_ or generate_configs or domains):
            raise ConfigError("say what to do: --all, --domains NAME..., --list or --generate-configs")
        found = batch.find(min_domains=min_domains, require_policy=require_policy)
        if list_:
            broken = _broken_servers(batch, found)
            console.print(_table(batch, found, broken, verbose=verbose))
            for name, reasons in broken.items():
                for reason in reasons:
                    show_error(console, ConfigError(f"{name}: {reason}"))
            return 2 if broken else 0
        chosen = choose_combinations(found, domains, batch.kind) if domains else found
        chosen = chosen[:max_combinations]
        if not chosen:
            raise ConfigError(f"{batch.base_path / 'queries'}: nothing to roll out")
        if generate_configs:
            _show_left_out(batch.runnable(chosen)[1])
            console.print(f"wrote {batch.write_config(chosen, config_output_dir)}", highlight=False, soft_wrap=True)
            return 0
        return run_batch(
            batch,
            chosen,
            is_all=all_,
            resume=resume is not False,
            quiet=quiet,
            verbose=verbose,
            dry_run=dry_run,
            limit=limit,
            settings=set_ or (),
        )
    except RolloutError as error:
        show_error(console, error)
        return 2
