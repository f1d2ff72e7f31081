"""Rows of the journal's tables: their columns, and inserting many of them at once."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import msgspec

from rollout.store.record import Finished
from rollout.trajectories.sums import Sums

COLUMNS = {
    "trees": ("id", "dataset", "task", "opening"),
    "episodes": ("id", "tree", "trajectory", "attempt", "seed", "started"),
    "branches": ("episode", "parent", "place", "reason"),
    "beginnings": ("episode", "owner", "place", "tokens"),
    "placed": ("episode", "rank"),
    "token_pieces": ("name", "ids"),
    "nodes": ("episode", "place", "body"),
    "grown": ("tree",),
    "trajectories": (
        "dataset", "id", "episode", "status", "stop_reason", "success", *Sums.__struct_fields__, "reward", "finished",
        "head", "line", "place", "length",
    ),
}  # fmt: skip
"""The columns of each table, in the order of the values in a `Row`. The fields of `Sums` have the names of theirs."""
ROWS_PER_STATEMENT = 64
Row = tuple[Any, ...]
_encoder = msgspec.msgpack.Encoder()


def trajectory_row(done: Finished, place: int | None, *, keeps_line: bool) -> Row:
    """The row of a finished trajectory. `place`: the offset of its line in the output file, None if it has none there.
    `keeps_line`: whether the row holds the line itself, because the nodes are not kept."""
    head = done.head
    return (
        done.dataset, head.id, done.episode, head.status, head.stop_reason, head.success,
        *msgspec.structs.astuple(done.sums), done.reward, time.time(),
        _encoder.encode(head), done.line if keeps_line else None, place, None if place is None else len(done.line),
    )  # fmt: skip


def insert_rows(database: sqlite3.Connection, table: str, rows: list[Row]) -> None:
    """Insert many rows with one statement: a thread then takes the interpreter's lock once, not once for each row."""
    columns = COLUMNS[table]
    into = f"INSERT OR REPLACE INTO {table}({','.join(columns)}) VALUES "
    one = "(" + ",".join("?" * len(columns)) + ")"
    start = 0
    size = ROWS_PER_STATEMENT
    while start < len(rows):
        while size > len(rows) - start:
            size //= 2
        chunk = rows[start : start + size]
        database.execute(into + ",".join([one] * size), [cell for row in chunk for cell in row])
        start += size
