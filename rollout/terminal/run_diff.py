"""Two runs side by side on the terminal, and the tasks whose outcome changed."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollout.pipelines.runs.diff import Attempts, Flip, RunDiff
from rollout.terminal.figures import per_cent, shortened

SHOWN_IDS = 6


def show_diff(console: Console, names: tuple[str, str], diff: RunDiff, *, most: int | None) -> None:
    """Print what changed from the first run to the second. `most`: how many tasks of each kind are shown; None for
    all."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    sides = (diff.first, diff.second)
    table.add_row("attempts at shared tasks", *(f"{side.attempts:,}" for side in sides))
    table.add_row("solved", *map(_solved, sides))
    table.add_row("mean reward", *("–" if side.reward is None else f"{side.reward:.3f}" for side in sides))
    only = (len(diff.only_first), len(diff.only_second))
    table.add_row("tasks only here", *(str(number) if number else "–" for number in only))
    console.print(table)
    counted = Text.assemble(
        f"{diff.shared:,} tasks in both: {diff.same:,} the same, ",
        (f"{diff.lost:,} lost", "red" if diff.lost else ""),
        ", ",
        (f"{diff.gained:,} gained", "green" if diff.gained else ""),
    )
    if unscored := diff.shared - diff.compared:
        counted.append(f", {unscored:,} not scored in both")
    console.print(counted, highlight=False)
    for change, title, style in (
        ("lost", "lost: solved less often in the second", "bold red"),
        ("gained", "gained: solved more often in the second", "bold green"),
    ):
        flips = [flip for flip in diff.flips if flip.change == change]
        if flips:
            console.print()
            console.print(Text(title, style))
            _show_flips(console, flips if most is None else flips[:most])
            if most is not None and len(flips) > most:
                console.print(f"  … {len(flips) - most} more; --all shows them", style="dim", highlight=False)
    for name, tasks in zip(names, (diff.only_first, diff.only_second), strict=True):
        if tasks:
            console.print()
            shown = ", ".join(task for _, task in tasks[:SHOWN_IDS])
            rest = f" and {len(tasks) - SHOWN_IDS} more" if len(tasks) > SHOWN_IDS else ""
            console.print(f"only in {name}: {shown}{rest}", highlight=False)


def _show_flips(console: Console, flips: Sequence[Flip]) -> None:
    for flip in flips:
        shares = f"{_share(flip.first)} → {_share(flip.second)}"
        console.print(Text.assemble(f"  {flip.task_id}  {shares}", (f"  {flip.dataset}", "dim")), highlight=False)
        parting = flip.parting
        if parting is None:
            continue
        ids = parting.first_id, parting.second_id
        where = "" if ids[0] == ids[1] == flip.task_id else f" ({ids[0]} and {ids[1]})"
        console.print(Text(f"    parts at step {parting.step}{where}:", "dim"), highlight=False)
        for sign, said in (("1", parting.first), ("2", parting.second)):
            line = shortened(f"      {sign} {said}", console.width)
            console.print(Text(line), highlight=False, no_wrap=True, overflow="ellipsis")


def _solved(side: Attempts) -> str:
    return f"{side.solved:,} of {side.scored:,} ({per_cent(side.share)})" if side.scored else "–"


def _share(side: Attempts) -> str:
    return f"{side.solved}/{side.scored}"
