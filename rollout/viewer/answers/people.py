"""Answers about what people do: marks and grown branches."""

from __future__ import annotations

from typing import Literal

import msgspec

MarkKind = Literal["good", "bad", "note", "label", "verdict"]


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A remark of a person on a trajectory, or on one message of it."""

    number: int
    dataset: str
    id: str
    message: int | None
    kind: MarkKind
    value: float | None
    text: str | None
    author: str
    at: float


class GrownAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a growth."""

    id: str
    state: str
    messages: int
    status: str | None
    success: bool | None
    reward: float | None


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts that a person asked for, from a message of another attempt on."""

    number: int
    dataset: str
    id: str
    message: int
    n: int
    model: str | None
    temperature: float | None
    author: str
    at: float
    state: Literal["waiting", "running", "done", "stopped", "failed"]
    error: str | None
    attempts: tuple[GrownAttempt, ...]
