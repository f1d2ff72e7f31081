"""The table at the end of `rollout label` and `rollout export`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollout.pipelines.export import ExportTally


def show_tally(console: Console, title: str, tally: ExportTally) -> int:
    """Print what was read, kept and left out, and where it is; returns the exit code: 1 where something is to be
    fixed."""
    console.print(Text(title, "bold"))
    table = Table(show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right")
    table.add_row("read", str(tally.read))
    table.add_row("kept", str(tally.kept))
    for reason, number in sorted(tally.dropped.items()):
        table.add_row(f"left out: {reason}", str(number))
    for note, number in sorted(tally.notes.items()):
        table.add_row(note, str(number))
    console.print(table)
    for path, number in tally.files.items():
        text = f"{path}: {number} records" + ("" if number else " (no task fell into this split)")
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    if tally.builtin:
        text = (
            f"{tally.builtin} trajectories were made by builtin/oracle, which is no language model: they show the "
            "format; do not train on them"
        )
        console.print(Text.assemble(("warning ", "yellow"), text), highlight=False, soft_wrap=True)
    for run_dir in tally.outdated:
        text = f"{run_dir}: people marked trajectories after `rollout filter`; filter again if that is to count"
        console.print(Text.assemble(("warning ", "yellow"), text), highlight=False, soft_wrap=True)
    for problem in tally.problems:
        console.print(Text.assemble(("problem ", "bold red"), problem), soft_wrap=True, highlight=False)
    return 1 if tally.problems else 0
