"""`rollout score`: score a finished run again, without rolling out."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollout.cli import options as o
from rollout.cli.signals import listening
from rollout.core.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from rollout.config.schema import Config
    from rollout.pipelines.score import ScoreTable

SHOWN_REASONS = 5
REASON_LENGTH = 140


def score(
    run: o.RunName,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Only these trajectories or tasks.")
    ] = None,
    dataset: o.DatasetNames = None,
    write: Annotated[bool, typer.Option("--write", help="Write the scores to RUN/scores.jsonl.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write them to this file instead; its folder is made."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", metavar="FILE", help="Instead of the run's saved config: other scoring, or keys."
        ),
    ] = None,
    as_json: o.AsJson = False,
    no_colors: o.NoColors = False,
) -> None:
    """Score a finished run again: its calls are replayed on fresh worlds, nothing is asked of its models.

    What came out of a run:

        rollout score runs/default

    With the marks kept beside the trajectories, a JSON line for each:

        rollout score runs/default --write

    One attempt of it:

        rollout score runs/default order-17

    By other rules, or by another judge, as a changed config has them:

        rollout score runs/default --config configs/judged.yml --output judged/scores.jsonl

    Exit codes: 0, scored; 2, something must be fixed first (no such run or dataset, the configuration, a file).
    """
    from rollout.pipelines.runs.listing import locate_run
    from rollout.store.run_dir import SCORES
    from rollout.terminal.console import make_console

    console = make_console(no_colors)
    place = locate_run(run)
    target = output or (place / SCORES if write else None)
    if ids and target is not None:
        raise ConfigError("--write and --output: the scores of a whole dataset are written; leave out the ids")
    with listening() as signals:
        signals.run(_score(console, place, dataset, ids or [], target, config, as_json))


async def _score(
    console: Console,
    run: Path,
    names: list[str] | None,
    ids: list[str],
    target: Path | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    from rollout.pipelines.saved_config import saved_config
    from rollout.pipelines.score import ScoreTable, changed_tasks, open_scoring, rescore
    from rollout.store.files.score_file import replacing_scores
    from rollout.store.reading.reader import open_reader
    from rollout.store.run_dir import RUN_FILE
    from rollout.terminal.console import SafeConsole, show_warning
    from rollout.terminal.log_lines import set_up_logging

    config = _read_config(config_path) if config_path is not None else saved_config(run)
    # Standard output is the document's alone.
    set_up_logging(config.log_level, None, SafeConsole(stderr=True) if as_json else console)
    with open_reader(run) as reader:
        held = reader.datasets()
        unknown = [name for name in names or () if name not in held]
        if unknown:
            raise ConfigError(f"{run}: has no dataset {', '.join(unknown)}; there are: {', '.join(held)}")
        wanted: dict[str, set[str]] = {}
        for given in ids:
            if not (keys := reader.find_keys(given, names or ())):
                raise ConfigError(f"{run}: no trajectory and no task has the id {given!r} or one that begins so")
            for key in keys:
                wanted.setdefault(key.dataset, set()).add(key.id)
        chosen = list(wanted) or names or held
        unnamed = [name for name in chosen if name not in config.datasets]
        if unnamed:
            raise ConfigError(f"{config_path or run / RUN_FILE}: has no dataset {', '.join(unnamed)}")
        tables = {name: ScoreTable() for name in chosen}
        async with contextlib.AsyncExitStack() as stack:
            file = None if target is None else stack.enter_context(replacing_scores(target, chosen))
            scorings = await stack.enter_async_context(open_scoring(config, chosen))
            for name in changed_tasks(run, scorings):
                text = f"{name}: its tasks have changed since the run; they are scored as they are now"
                if as_json:
                    show_warning(text)
                else:
                    console.print(f"warning {text}", highlight=False, markup=False, soft_wrap=True)
            for scoring in scorings:
                async for one in rescore(reader, scoring, wanted.get(scoring.name)):
                    tables[scoring.name].add(one)
                    if file is not None:
                        file.write_line(one.line())
    if as_json:
        from rollout.terminal.console import print_json

        print_json({"scores": target, "datasets": {name: table.to_json() for name, table in tables.items()}})
        return
    _show(console, tables)
    if target is not None:
        console.print(f"scores: {target}", highlight=False, markup=False, soft_wrap=True)


def _read_config(path: Path) -> Config:
    from rollout.config.load import load_config
    from rollout.pipelines.wiring.discover import with_discovered

    return with_discovered(load_config(path))


def _show(console: Console, tables: dict[str, ScoreTable]) -> None:
    from rollout.terminal.summary import show_pass_k
    from rollout.terminal.tables import side_by_side

    if not tables:
        return
    console.print(side_by_side(console, "scored again", {name: _cells(table) for name, table in tables.items()}))
    console.print(_scorers(tables))
    show_pass_k(console, {name: table.pass_k() for name, table in tables.items()})
    for name, table in tables.items():
        carried = ", ".join(scorer for scorer, sums in table.scorers.items() if sums.carried)
        if carried:
            text = f"{name}: {carried} as recorded: it needs the live world, which is not opened again"
            console.print(text, highlight=False, markup=False, soft_wrap=True)
        if table.cost:
            console.print(f"{name}: the judge cost ${table.cost:.4f}", highlight=False)
        for reason, number in table.unscored.most_common(SHOWN_REASONS):
            short = reason if len(reason) <= REASON_LENGTH else reason[: REASON_LENGTH - 1] + "…"
            console.print(f"{name}: unscored {number}: {short}", highlight=False, markup=False, soft_wrap=True)
        rest = len(table.unscored) - SHOWN_REASONS
        if rest > 0:
            console.print(f"{name}: and {rest} other reasons", highlight=False)


def _cells(table: ScoreTable) -> dict[str, str]:
    return {
        "scored": str(table.scored),
        "solved": f"{table.solved} ({table.solved / table.scored:.1%})" if table.scored else "–",
        "unscored": str(table.trajectories - table.scored),
        "differs from the record": str(table.changed),
    }


def _scorers(tables: dict[str, ScoreTable]) -> Table:
    """What each scorer found, on the average."""
    from rich.table import Table

    shown = Table(title="scorers", title_justify="left", title_style="bold")
    for column in ("dataset", "scorer", "checked", "mean", "partial", "decides"):
        shown.add_column(column, overflow="fold")
    for name, table in tables.items():
        for scorer, sums in table.scorers.items():
            mean = f"{sums.value / sums.checked:.3f}" if sums.checked else "–"
            partial = f"{sums.partial / sums.partials:.3f}" if sums.partials else "–"
            share = f"{sums.checked} of {sums.checked + sums.unchecked}" if sums.unchecked else str(sums.checked)
            shown.add_row(name, scorer, share, mean, partial, _how_often(sums.decided, sums.checked + sums.unchecked))
    return shown


def _how_often(count: int, total: int) -> str:
    if count in (0, total):
        return "yes" if count else "no"
    return f"in {count} of {total}"
