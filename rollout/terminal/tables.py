"""Tables that fit the terminal, whatever the number of datasets."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

NOTHING = ("0", "–")
NAME_WIDTH = 25
NARROW_NAME = 20
"""The width of a name's column where borders are left out to make a table fit."""
SIDE_BY_SIDE = 3


def side_by_side(console: Console, title: str, columns: dict[str, dict[str, str]]) -> Table:
    """The same rows for several datasets, so that they fit the terminal: few datasets stand side by side; many stand
    one below the other, each in a line of its own or, where that is too wide, in a block."""
    table = Table(title=title, title_justify="left", title_style="bold")
    rows = list(next(iter(columns.values())))
    if len(columns) <= SIDE_BY_SIDE:
        table.add_column("")
        for name in columns:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(row, *(cells[row] for cells in columns.values()))
        return table
    # What is the same everywhere is printed once.
    told = [row for row in rows if len({cells[row] for cells in columns.values()}) > 1]
    alike = {row: cells[row] for cells in columns.values() for row in rows if row not in told}
    said = ", ".join(f"{row} {value}" for row, value in alike.items() if value not in NOTHING)
    table.caption, table.caption_justify = (f"everywhere: {said}" if said else None), "left"
    table.add_column("dataset", overflow="fold", min_width=min(NAME_WIDTH, max(map(len, columns))))
    widths = [max(len(part) for part in (*row.split(), *(cells[row] for cells in columns.values()))) for row in told]
    has_borders = sum(widths) + 3 * len(told) + NAME_WIDTH + 4 <= console.width
    if has_borders or sum(widths) + 2 * len(told) + NARROW_NAME + 4 <= console.width:
        if not has_borders:
            table.box, table.pad_edge, table.padding = SIMPLE_HEAD, False, (0, 1, 0, 0)
            table.columns[0].min_width = NARROW_NAME
        for row in told:
            table.add_column(row.replace(" ", "\n"), overflow="fold")
        for name, cells in columns.items():
            table.add_row(name, *(cells[row] for row in told))
        return table
    table.add_column("")
    table.add_column("")
    for name, cells in columns.items():
        for place, row in enumerate(told):
            table.add_row("" if place else name, row, cells[row], end_section=row == told[-1])
    return table
