"""Queries of trajectories: filters, full text, and order, as SQL on the index.

The table, its neighbours, the review queue and exports all take the same query. Words of `q` must all be found in an
attempt, each as the beginning of a word, or as a part of its id or of that of its task; "several words" in quotation
marks are found as they are, and -word must not be found. Everything that comes from a request reaches SQLite as a
parameter.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from rollout.trajectories.person_marks import PERSON_SCORE
from rollout.viewer.errors import RequestRefused
from rollout.viewer.index.rows import searchable
from rollout.viewer.index.schema import BY_PEOPLE, PLACE_BITS

MOST_ROWS = 1_000
LEAST_PREFIX = 3
"""Letters. Fewer are found as a word only: as a beginning they would be nearly everywhere."""
MOST_TERMS = 40
"""Words of a search. SQLite takes no statement that is nested more deeply."""
PLACES = (1 << PLACE_BITS) - 1
SORTS = {
    "finished": "finished", "dataset": "dataset", "id": "id", "task": "task_id", "task_id": "task_id",
    "author": "author", "status": "status", "stop_reason": "stop_reason", "success": "success", "scored": "scored",
    "reward": "reward", "turns": "turns", "steps": "steps", "tool_calls": "tool_calls", "tool_errors": "tool_errors",
    "tokens": "tokens", "cost": "cost", "seconds": "seconds", "model": "model", "rank": "rank", "first": "first",
    "error": "error_text",
}  # fmt: skip
"""What can be sorted by, besides `score:NAME`, with the column of each."""
UNKNOWN_MAY_BE = frozenset({"author", "reward", "model", "rank", "error"})
"""What is not known of every attempt; those come last in either order."""
COMPARISONS = {"lt": "<", "le": "<=", "eq": "=", "ne": "!=", "ge": ">=", "gt": ">"}
_TERM = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')


class TableFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which trajectories are wanted. Of several values for one name any may hold; all names must."""

    q: str = ""
    """Words to be found in messages, reasoning, calls and their arguments."""
    dataset: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    stop_reason: tuple[str, ...] = ()
    success: Literal["1", "0", "true", "false", "none"] | None = None
    """`1`: scored and solved; `0`: scored and not solved; `none`: not scored."""
    score: tuple[str, ...] = ()
    """NAME:lt:0.5, with lt, le, eq, ne, ge or gt, or NAME:none for one without a value. All must hold."""
    min_reward: float | None = None
    max_reward: float | None = None
    mark: tuple[str, ...] = ()
    """A kind of people's marks, a remark that was made while attempts were live, `any` or `none` of people's."""
    label: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    tool_error: tuple[str, ...] = ()
    """A tool that answered a call of the attempt with an error."""
    model: tuple[str, ...] = ()
    author: tuple[str, ...] = ()
    """Who made or asked for an attempt, or marked it."""
    cause: str | None = None
    """The `key` of a cause of failure."""
    filter: tuple[str, ...] = ()
    """A filter that found something, or `none`."""
    task: str | None = None
    by: Literal["run", "person", "all"] = "all"


class TrajectoryQuery(TableFilter, frozen=True, kw_only=True):
    """Which trajectories are wanted, in which order."""

    sort: str = "finished"
    desc: bool = True


class TableQuery(TrajectoryQuery, frozen=True, kw_only=True):
    """Which part of the table is wanted."""

    offset: int = 0
    limit: int = 100


class Term(msgspec.Struct, frozen=True):
    """A word or phrase that is searched for."""

    text: str
    is_prefix: bool
    is_unwanted: bool

    @property
    def match(self) -> str:
        """It as the full-text index takes it."""
        quoted = searchable(self.text).replace('"', '""')
        return f'"{quoted}"{"*" if self.is_prefix else ""}'


def parse_terms(text: str) -> list[Term]:
    """The terms of a search."""
    found = []
    for minus, phrase, word in _TERM.findall(text.replace("\0", " ")):
        said = phrase or word
        letters = [char for char in said if char.isalnum()]
        if letters:
            found.append(Term(said, not phrase and len(letters) >= LEAST_PREFIX, bool(minus)))
    return found


class TableMatches(msgspec.Struct, frozen=True):
    """A query as the parts of an SQL statement over `attempts`."""

    where: str
    values: tuple[Any, ...]
    order: str
    ordered_by: tuple[Any, ...]

    def select(self, columns: str, tail: str = "") -> tuple[str, tuple[Any, ...]]:
        """The statement that selects these columns in order."""
        return f"SELECT {columns} FROM attempts {self.where} {self.order} {tail}", (*self.values, *self.ordered_by)

    def count(self, connection: sqlite3.Connection) -> int:
        """How many attempts it has."""
        (total,) = connection.execute(f"SELECT count(*) FROM attempts {self.where}", self.values).fetchone()
        return int(total)

    def numbers(self, connection: sqlite3.Connection, limit: int = -1, offset: int = 0) -> list[int]:
        """The numbers of all of them, or of some, in order."""
        sql, values = self.select("attempts.n", "LIMIT ? OFFSET ?")
        return [n for (n,) in connection.execute(sql, (*values, limit, offset))]


def make_query(connection: sqlite3.Connection, query: TrajectoryQuery) -> TableMatches:
    """A query as SQL. Raises RequestRefused for a value that means nothing."""
    parts = _Parts()
    for column, values in (
        ("dataset", query.dataset),
        ("status", query.status),
        ("stop_reason", query.stop_reason),
        ("model", query.model),
    ):
        if values:
            parts.add(_one_of(column, values), *values)
    if query.success is not None:
        conditions = {"none": "NOT scored", "1": "scored AND success", "0": "scored AND NOT success"}
        parts.add(conditions[{"true": "1", "false": "0"}.get(query.success, query.success)])
    for text in query.score:
        _add_score(parts, text)
    if query.min_reward is not None:
        parts.add("reward >= ?", query.min_reward)
    if query.max_reward is not None:
        parts.add("reward <= ?", query.max_reward)
    if query.task is not None:
        parts.add("task_id = ?", query.task)
    if query.cause is not None:
        parts.add("cause = ?", query.cause)
    if query.by != "all":
        parts.add(f"n {'>=' if query.by == 'person' else '<'} {BY_PEOPLE}")
    if query.tool:
        parts.add(f"n IN (SELECT n FROM tools WHERE {_one_of('tool', query.tool)})", *query.tool)
    if query.tool_error:
        failed = f"{_one_of('tool', query.tool_error)} AND own_errors"
        parts.add(f"n IN (SELECT n FROM tools WHERE {failed})", *query.tool_error)
    _add_marks(parts, query)
    if query.q:
        _add_text(connection, parts, query.q)
    order, ordered_by = _order(query)
    return TableMatches(
        f"WHERE {' AND '.join(parts.conditions)}" if parts.conditions else "", tuple(parts.values), order, ordered_by
    )


class _Parts:
    def __init__(self) -> None:
        self.conditions: list[str] = []
        self.values: list[Any] = []

    def add(self, condition: str, *values: Any) -> None:
        self.conditions.append(f"({condition})")
        self.values += values


def _one_of(column: str, values: Sequence[str]) -> str:
    return f"{column} IN ({', '.join('?' * len(values))})"


def _any_of(parts: _Parts, values: Sequence[str], condition: Callable[[str], tuple[str, tuple[Any, ...]]]) -> None:
    if values:
        made = [condition(value) for value in values]
        parts.add(" OR ".join(text for text, _ in made), *(each for _, given in made for each in given))


_VERDICT = (
    "(SELECT avg(m.value) FROM marks m WHERE m.dataset = attempts.dataset AND m.id = attempts.id "
    "AND m.kind = 'verdict' AND m.message IS NULL)"
)
"""The score `person` of an attempt (`rollout.trajectories.person_marks.person_score`)."""
_MARKED = "EXISTS (SELECT 1 FROM marks m WHERE m.dataset = attempts.dataset AND m.id = attempts.id{})"
_FILTERED = "EXISTS (SELECT 1 FROM filters f WHERE f.dataset = attempts.dataset AND f.id = attempts.id{})"


def _add_marks(parts: _Parts, query: TrajectoryQuery) -> None:
    def marked(value: str) -> tuple[str, tuple[Any, ...]]:
        if value in ("any", "none"):
            return ("NOT " if value == "none" else "") + _MARKED.format(""), ()
        live = "n IN (SELECT n FROM live_marks WHERE mark = ?)"
        return f"{_MARKED.format(' AND m.kind = ?')} OR {live}", (value, value)

    def labelled(value: str) -> tuple[str, tuple[Any, ...]]:
        return _MARKED.format(" AND m.kind = 'label' AND m.text = ?"), (value,)

    def written(value: str) -> tuple[str, tuple[Any, ...]]:
        return f"author = ? OR {_MARKED.format(' AND m.author = ?')}", (value, value)

    def filtered(value: str) -> tuple[str, tuple[Any, ...]]:
        if value == "none":
            return "NOT " + _FILTERED.format(""), ()
        return _FILTERED.format(" AND f.filter = ?"), (value,)

    _any_of(parts, query.mark, marked)
    _any_of(parts, query.label, labelled)
    _any_of(parts, query.author, written)
    _any_of(parts, query.filter, filtered)


def _add_score(parts: _Parts, text: str) -> None:
    name, _, value = text.rpartition(":")
    if name and value == "none":
        parts.add("n IN (SELECT n FROM scores WHERE name = ? AND value IS NULL)", name)
        return
    name, _, comparison = name.rpartition(":")
    try:
        number = float(value)
    except ValueError:
        number = None
    if not name or comparison not in COMPARISONS or number is None:
        known = ", ".join(COMPARISONS)
        raise RequestRefused(400, f"score: {text[:100]!r} is not NAME:lt:0.5 (with one of {known}) and not NAME:none")
    sign = COMPARISONS[comparison]
    condition, values = f"n IN (SELECT n FROM scores WHERE name = ? AND value {sign} ?)", [name, number]
    if name == PERSON_SCORE:
        condition, values = f"{condition} OR {_VERDICT} {sign} ?", [*values, number]
    parts.add(condition, *values)


def _add_text(connection: sqlite3.Connection, parts: _Parts, text: str) -> None:
    terms = parse_terms(text)
    if len(terms) > MOST_TERMS:
        raise RequestRefused(400, f"q: expected at most {MOST_TERMS} words or phrases, got {len(terms)}")
    if not terms and text.strip():
        # Signs alone are no words, so nothing has them.
        parts.add("0")
    (has_lineage,) = connection.execute("SELECT EXISTS (SELECT 1 FROM lineage)").fetchone()
    for term in terms:
        own = f"n IN (SELECT rowid >> {PLACE_BITS} FROM docs WHERE docs MATCH ?)"
        shared = (
            "n IN (SELECT l.n FROM (SELECT rowid AS place FROM docs WHERE docs MATCH ?) d JOIN lineage l "
            f"ON l.owner = d.place >> {PLACE_BITS} AND l.place >= (d.place & {PLACES}))"
        )
        condition = f"{own} OR {shared}" if has_lineage else own
        values = [term.match] * (2 if has_lineage else 1)
        if term.is_unwanted:
            condition = f"NOT ({condition})"
        elif term.is_prefix or len(term.text) >= LEAST_PREFIX:
            condition += " OR instr(lower(id), ?) OR instr(lower(task_id), ?)"
            values += [term.text.lower()] * 2
        parts.add(condition, *values)


def _order(query: TrajectoryQuery) -> tuple[str, tuple[Any, ...]]:
    direction = "DESC" if query.desc else "ASC"
    name, _, score = query.sort.partition(":")
    if name == "score" and score:
        column = "(SELECT value FROM scores s WHERE s.name = ? AND s.n = attempts.n)"
        if score == PERSON_SCORE:
            column = f"coalesce({_VERDICT}, {column})"
        return f"ORDER BY {column} {direction} NULLS LAST, n {direction}", (score,)
    if query.sort not in SORTS:
        raise RequestRefused(400, f"sort: there is no {query.sort[:50]!r}; there are {', '.join(SORTS)} and score:NAME")
    column = SORTS[query.sort]
    nulls = " NULLS LAST" if query.sort in UNKNOWN_MAY_BE else ""
    return f"ORDER BY {column} {direction}{nulls}, n {direction}", ()
