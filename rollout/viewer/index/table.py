"""The table of trajectories: pages of a query, neighbours in it, and the review queue."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from typing import Any, Literal

from rollout.viewer.answers.rows import (
    Key,
    Neighbours,
    Queue,
    QueuedKey,
    RowError,
    RowMark,
    TrajectoryList,
    TrajectoryRow,
)
from rollout.viewer.errors import RequestRefused
from rollout.viewer.index.queries import MOST_ROWS, TableMatches, TableQuery, TrajectoryQuery, make_query, parse_terms
from rollout.viewer.index.rows import shown_error
from rollout.viewer.index.snippets import Snippet, find_snippet
from rollout.viewer.open_runs import OpenRun

_COLUMNS = (
    "dataset", "id", "task_id", "author", "status", "stop_reason", "success", "scored", "reward", "turns", "steps",
    "tool_calls", "tool_errors", "tokens", "cost", "seconds", "finished", "model", "rank", "first", "error_kind",
    "error_text",
)  # fmt: skip
MOST_OFFSET = 1 << 40
QueueKind = Literal["sample", "disagree", "unmarked"]
_DISAGREE = (
    "n IN (SELECT n FROM scores WHERE decides AND value IS NOT NULL GROUP BY n "
    "HAVING max(value >= 1) != min(value >= 1)) OR EXISTS (SELECT 1 FROM marks m WHERE m.dataset = attempts.dataset "
    "AND m.id = attempts.id AND m.kind = 'verdict' AND m.message IS NULL AND attempts.scored "
    "AND (m.value >= 1) != attempts.success)"
)
_UNMARKED = "NOT EXISTS (SELECT 1 FROM marks m WHERE m.dataset = attempts.dataset AND m.id = attempts.id)"


def read_table(run: OpenRun, query: TableQuery) -> TrajectoryList:
    """A page of the table. Raises RequestRefused."""
    if not 0 <= query.offset <= MOST_OFFSET or not 0 <= query.limit <= MOST_ROWS:
        raise RequestRefused(
            400, f"offset and limit: expected at least 0, at most {MOST_ROWS} rows, and an offset up to {MOST_OFFSET}"
        )
    run.index.freshen()
    with run.index.reading() as connection:
        found = make_query(connection, query)
        total = found.count(connection)
        rows = _rows_of(connection, found.numbers(connection, query.limit, query.offset)) if query.limit else []
        marks = _marks_of(connection, [(row[0], row[1]) for row in rows])
    wanted = [term for term in parse_terms(query.q) if not term.is_unwanted]
    shown = []
    for row in rows:
        snippet = find_snippet(run, row[0], row[1], wanted) if wanted else None
        shown.append(_as_row(dict(zip(_COLUMNS, row, strict=True)), marks.get((row[0], row[1]), ()), snippet))
    return TrajectoryList(total, query.offset, tuple(shown))


def find_neighbours(run: OpenRun, dataset: str, trajectory: str, query: TrajectoryQuery) -> Neighbours:
    """The trajectories before and after one in the order of a query. Raises RequestRefused."""
    run.index.freshen()
    with run.index.reading() as connection:
        numbers = make_query(connection, query).numbers(connection)
        row = connection.execute(
            "SELECT n FROM attempts WHERE dataset = ? AND id = ?", (dataset, trajectory)
        ).fetchone()
        try:
            place = numbers.index(row[0]) if row is not None else None
        except ValueError:
            place = None
        if place is None:
            return Neighbours(None, None, None, len(numbers))
        before = _key_of(connection, numbers[place - 1]) if place else None
        after = _key_of(connection, numbers[place + 1]) if place + 1 < len(numbers) else None
        return Neighbours(before, after, place, len(numbers))


def make_queue(run: OpenRun, kind: QueueKind, most: int, query: TrajectoryQuery, seed: int = 0) -> Queue:
    """Trajectories of a query to review. The same seed draws the same ones. Raises RequestRefused."""
    if not 0 < most <= MOST_ROWS:
        raise RequestRefused(400, f"n: expected 1 to {MOST_ROWS}")
    run.index.freshen()
    with run.index.reading() as connection:
        found = make_query(connection, query)
        if kind != "sample":
            condition = f"({_DISAGREE if kind == 'disagree' else _UNMARKED})"
            where = f"{found.where} AND {condition}" if found.where else f"WHERE {condition}"
            found = TableMatches(where, found.values, found.order, found.ordered_by)
        numbers = found.numbers(connection)
        if kind == "sample":
            numbers = random.Random(seed).sample(numbers, min(most, len(numbers)))
        why = {"sample": "drawn", "unmarked": "not marked yet", "disagree": ""}[kind]
        keys = []
        for n in numbers[:most]:
            key = _key_of(connection, n)
            keys.append(QueuedKey(key.dataset, key.id, why or _disagreement(connection, n, key)))
    return Queue(tuple(keys))


def _disagreement(connection: sqlite3.Connection, n: int, key: Key) -> str:
    values: list[tuple[str, float]] = connection.execute(
        "SELECT name, value FROM scores WHERE n = ? AND decides AND value IS NOT NULL ORDER BY name", (n,)
    ).fetchall()
    values += connection.execute(
        "SELECT author, value FROM marks WHERE dataset = ? AND id = ? AND kind = 'verdict' AND value IS NOT NULL",
        (key.dataset, key.id),
    ).fetchall()
    return ", ".join(f"{name} {value:g}" for name, value in values)


def _rows_of(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
    """The columns of these attempts, in this order. What is sorted holds only numbers, however deep a page lies."""
    sql = f"SELECT n, {', '.join(_COLUMNS)} FROM attempts WHERE n IN (SELECT value FROM json_each(?))"
    found = {n: tuple(row) for n, *row in connection.execute(sql, (str(list(numbers)),))}
    return [found[n] for n in numbers]


def _key_of(connection: sqlite3.Connection, n: int) -> Key:
    return Key(*connection.execute("SELECT dataset, id FROM attempts WHERE n = ?", (n,)).fetchone())


def _marks_of(connection: sqlite3.Connection, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], list[RowMark]]:
    found: dict[tuple[str, str], list[RowMark]] = {}
    for key in keys:
        for kind, value, text in connection.execute(
            "SELECT kind, value, text FROM marks WHERE dataset = ? AND id = ? ORDER BY number", key
        ):
            shown = text if kind == "label" else f"{value:g}" if value is not None else None
            found.setdefault(key, []).append(RowMark(kind, shown))
    return found


def _as_row(values: dict[str, Any], marks: Sequence[RowMark], snippet: Snippet | None) -> TrajectoryRow:
    kind, text = values.pop("error_kind"), values.pop("error_text")
    values["success"], values["scored"] = bool(values["success"]), bool(values["scored"])
    return TrajectoryRow(
        **values,
        error=None if kind is None else RowError(kind, shown_error(text)),
        marks=tuple(marks),
        snippet=None if snippet is None else snippet.parts,
        hit=None if snippet is None else snippet.message,
    )
