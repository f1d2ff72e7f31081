"""Scores: what a scorer found out about a finished attempt, as it is recorded."""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.trajectories.generation import Generation


class Score(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a scorer found. `value` None means that nothing was checked: neither a pass nor a 0."""

    name: str
    value: float | None
    reason: str = ""
    partial: float | None = None
    """How much of it was done, from 0 to 1, beside the verdict."""
    shows_work: bool = True
    """Whether passing it takes having done something: False where an agent that does nothing passes too."""
    decides: bool = False
    """Whether `success` depends on it. The panel sets it; a scorer need not."""
    is_carried: bool = False
    """Whether it was not asked for again but taken from the record, because it needs a world that is gone."""
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)
    asked: tuple[Generation, ...] = ()
    """What was asked of a model on the way, to be paid for and journalled. Not part of the record of the score."""

    @property
    def is_pass(self) -> bool:
        """Whether this scorer sees the task as solved."""
        return self.value is not None and self.value >= 1.0

    def record(self) -> dict[str, Any]:
        """What is written down of it."""
        kept: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(self, asked=()))
        return kept
