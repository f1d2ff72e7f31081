"""Responses about lists of trajectories: the table, neighbours in it, the review queue."""

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
    """The beginning of the error text."""


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
    """The person who made or requested it; None for the run's own trajectories."""
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
    """The text around the first match; None without a text query."""
    hit: int | None
    """The index of the message with the match."""
    first: str
    """The beginning of the first message."""


class TrajectoryList(msgspec.Struct, frozen=True):
    """A page of the table."""

    total: int
    """The number of trajectories that match the query."""
    offset: int
    rows: tuple[TrajectoryRow, ...]


class Key(msgspec.Struct, frozen=True):
    """Dataset and id of a trajectory."""

    dataset: str
    id: str


class Neighbours(msgspec.Struct, frozen=True):
    """The trajectories before and after one in the order of a query."""

    previous: Key | None
    next: Key | None
    place: int | None
    """Counted from 0; None if the query does not match the trajectory."""
    total: int


class QueuedKey(msgspec.Struct, frozen=True):
    """A trajectory to review."""

    dataset: str
    id: str
    why: str


class Queue(msgspec.Struct, frozen=True):
    """Trajectories to review, in order."""

    keys: tuple[QueuedKey, ...]
