"""The contract of a scorer, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from rollout.messages import Message
from rollout.tasks.task import Task
from rollout.trajectories.stop import Status, StopReason
from rollout.worlds.world import World


class Score(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a scorer found. `value` None means that nothing was checked: neither a pass nor a 0."""

    name: str
    value: float | None
    reason: str = ""
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def is_pass(self) -> bool:
        """Whether this scorer sees the task as solved."""
        return self.value is not None and self.value >= 1.0


class Trajectory(msgspec.Struct, frozen=True):
    """A path that has ended, as scorers see it."""

    id: str
    messages: Sequence[Message]
    status: Status
    stop_reason: StopReason
    called: bool
    """Whether any tool call was made."""


class Scorer(Protocol):
    """How well it went. A scorer changes neither trajectory nor world; what it cannot check it leaves unscored."""

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        """The score; None where this scorer has nothing to say about the task."""
        ...
