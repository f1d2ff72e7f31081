"""Answers about what people do: marks and grown branches."""

from __future__ import annotations

from typing import Literal

import msgspec

GrowthState = Literal["waiting", "running", "done", "stopped", "failed"]


class Grown(msgspec.Struct, frozen=True):
    """An attempt that was added."""

    dataset: str
    id: str


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
    task_id: str
    id: str | None
    """The attempt that they go on from; null where they begin with the task."""
    message: int
    n: int
    model: str | None
    user_model: str | None
    temperature: float | None
    author: str
    at: float
    role: Literal["agent", "user"] | None
    """The part that the person takes; null where models play both."""
    state: GrowthState
    """`waiting`: an earlier server did not finish it; resume it, or stop it."""
    error: str | None
    attempts: tuple[GrownAttempt, ...]
