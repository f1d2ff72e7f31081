"""`rollout recover`: save what is readable of a damaged run as a new run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollout.cli import options as o

if TYPE_CHECKING:
    from rich.console import Console

    from rollout.store.recovery.pruning import Recovered

SHOWN_IDS = 20


def recover(
    run: o.RunName,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="NEW", help="The new run directory. Default: RUN-recovered."),
    ] = None,
    no_colors: o.NoColors = False,
) -> None:
    """Save what is readable of a damaged run as a new run, which can be resumed and exported. RUN is not changed.

        rollout recover runs/default

    Whole trajectories are kept; attempts that were not finished are kept up to their last readable message.
    """
    from rollout.pipelines.runs.listing import find_named_run
    from rollout.store.recovery.recover import recover as recover_run
    from rollout.terminal.console import make_console

    console = make_console(no_colors)
    place = find_named_run(Path(run)) or Path(run)
    target = output or place.with_name(f"{place.resolve().name}-recovered")
    found = recover_run(place, target)
    _show(console, found)


def _show(console: Console, found: Recovered) -> None:
    from rich.table import Table

    from rollout.store.recovery.pruning import lost_ids

    table = Table(title="recovered", title_justify="left", title_style="bold")
    for column in ("dataset", "finished", "failed", "unfinished", "lost", "not kept"):
        table.add_column(column, overflow="fold", justify="left" if column == "dataset" else "right")
    names = dict.fromkeys([*found.outputs, *(entry.dataset for entry in (*found.lost, *found.dropped))])
    for name in names:
        counts = (found.finished[name], found.failed[name], found.unfinished[name])
        lost, dropped = (
            [entry for entry in entries if entry.dataset == name] for entries in (found.lost, found.dropped)
        )
        table.add_row(name, *map(str, counts), str(len(lost)), str(len(dropped)))
    console.print(table)
    told: list[str] = []
    for title, entries in (("lost", found.lost), ("unfinished, not kept", found.dropped)):
        for dataset, why in dict.fromkeys((entry.dataset, entry.why) for entry in entries):
            alike = [entry for entry in entries if (entry.dataset, entry.why) == (dataset, why)]
            told.append(f"{title}: {dataset}: {len(alike)} because {why}: {lost_ids(alike, SHOWN_IDS)}")
    if found.lost_blobs:
        names_of_blobs = ", ".join(found.lost_blobs[:SHOWN_IDS])
        told.append(f"{len(found.lost_blobs)} blobs are damaged and were left out: {names_of_blobs}")
    if found.missing_prompts:
        names_of_prompts = ", ".join(found.missing_prompts[:SHOWN_IDS])
        told.append(
            f"{len(found.missing_prompts)} prompts are missing in blobs/: {names_of_prompts}. Exports need them; "
            "put the files back, or resume the new run, which writes the prompts of its configuration again"
        )
    if found.marks.is_damaged:
        told.append(f"marks.db is damaged: {found.marks.count} marks of people could be read and were copied")
    elif found.marks.count:
        several = "1 mark of people was" if found.marks.count == 1 else f"{found.marks.count} marks of people were"
        told.append(f"{several} copied")
    if not found.has_run_file:
        told.append("run.json could not be read: give commands that need the configuration --config")
    told += [f"trajectories: {path}" for path in found.outputs.values()]
    told.append(f"run: {found.target}")
    told.append("to go on with it, set these in the configuration, then run it with --resume:")
    told.append(f"  run_dir: {found.target}")
    told += [f"  datasets.{name}.output_path: {path}" for name, path in found.outputs.items()]
    for line in told:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
