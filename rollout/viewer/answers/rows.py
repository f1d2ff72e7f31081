"""Answers about lists of trajectories: the table, neighbours in it, the review queue."""

from __future__ import annotations

import msgspec


class RowMark(msgspec.Struct, frozen=True):
    """A mark of a person, as a row shows it."""

    kind: str
    value: str | None
    """The label, or the verdict; None for other marks."""


class RowError(msgspec.Struct, frozen=True):
    """Why an attempt failed."""

    kind: str
    text: str
    """Its beginning."""


class SnippetPart(msgspec.Struct, frozen=True):
    """A piece of the text around what a search found."""

    text: str
    hit: bool


class TrajectoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A trajectory in the table."""

    dataset: str
    id: str
    task_id: str
    author: str | None
    """The person who made or asked for it; None for the run's own."""
    status: str
    stop_reason: str
    success: bool
    scored: bool
    reward: float | None
    turns: int
    steps: int
    tool_calls: int
    tool_errors: int
    tokens: int
    cost: float
    seconds: float
    finished: float
    model: str | None
    rank: int | None
    error: RowError | None
    marks: tuple[RowMark, ...]
    snippet: tuple[SnippetPart, ...] | None
    """Where the text of a query was found; None without one."""
    hit: int | None
    """The message in which it was found."""
    first: str
    """How the first message begins."""


class TrajectoryList(msgspec.Struct, frozen=True):
    """A part of the table."""

    total: int
    """How many trajectories the query has."""
    offset: int
    rows: tuple[TrajectoryRow, ...]


class Key(msgspec.Struct, frozen=True):
    """A trajectory by its name."""

    dataset: str
    id: str


class Neighbours(msgspec.Struct, frozen=True):
    """What lies beside a trajectory in a query."""

    previous: Key | None
    next: Key | None
    place: int | None
    """From 0; None where the trajectory is not among what the query has."""
    total: int


class QueuedKey(msgspec.Struct, frozen=True):
    """A trajectory to be looked at."""

    dataset: str
    id: str
    why: str


class Queue(msgspec.Struct, frozen=True):
    """Trajectories to be looked at, in order."""

    keys: tuple[QueuedKey, ...]
