"""Responses about marks and grown branches."""

from __future__ import annotations

from typing import Literal

import msgspec

ShownGrowthState = Literal["waiting", "running", "done", "stopped", "failed"]


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


class GrowthAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts that a person requested, starting behind a message of another attempt."""

    number: int
    dataset: str
    task_id: str
    id: str | None
    """The attempt that they continue; null if they start from the task."""
    message: int
    n: int
    model: str | None
    user_model: str | None
    temperature: float | None
    author: str
    at: float
    role: Literal["agent", "user"] | None
    """The role that a person plays; null if models play both."""
    state: ShownGrowthState
    """`waiting`: an earlier server did not finish it; resume it, or stop it."""
    error: str | None
    attempts: tuple[GrownAttempt, ...]
