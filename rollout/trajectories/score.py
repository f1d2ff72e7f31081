"""Scores: what a scorer found out about a finished attempt, as it is recorded."""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.trajectories.generation import Generation


class Score(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a scorer found. A `value` of None means that nothing could be checked; it is not a 0."""

    name: str
    value: float | None
    reason: str = ""
    partial: float | None = None
    """How much of the task was done, from 0 to 1."""
    shows_work: bool = True
    """Whether an agent has to do something to pass: False where doing nothing passes, too."""
    decides: bool = False
    """Whether `success` depends on it. The engine sets it; a scorer need not."""
    is_carried: bool = False
    """Whether it was copied from the record and not computed again, because it needs a world that no longer exists."""
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)
    asked: tuple[Generation, ...] = ()
    """Answers of models that were asked while scoring. They are recorded and paid for, but not part of the score's
    record."""

    @property
    def is_pass(self) -> bool:
        """Whether the task is solved according to this scorer."""
        return self.value is not None and self.value >= 1.0

    def record(self) -> dict[str, Any]:
        """The score as it is saved."""
        kept: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(self, asked=()))
        return kept
