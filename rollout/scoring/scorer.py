"""The contract of a scorer: the trajectory that it is given, and the score that it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from rollout.core.messages import JSON, Message
from rollout.core.task import Task
from rollout.core.world import World
from rollout.trajectories.generation import Generation
from rollout.trajectories.stop import Status, StopReason


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
    """Whether it was not asked for anew but taken from the record, because it needs a world that is gone."""
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


class UserCall(msgspec.Struct, frozen=True):
    """A call that the user made with tools of its own."""

    message: int
    """How many messages of the conversation were before it."""
    name: str
    arguments: str
    result: str


class Trajectory(msgspec.Struct, frozen=True):
    """A path that has ended, as scorers see it."""

    id: str
    messages: Sequence[Message]
    status: Status
    stop_reason: StopReason
    called: bool
    """Whether any tool call was made."""
    failed: frozenset[int] = frozenset()
    """The places in `messages` of tool messages that are error observations."""
    seed: int = 0
    """The attempt's own, for whatever a scorer draws."""
    image_url: Callable[[str], str] | None = None
    """An image of a message, by its name, as a `data:` URL for a judge; None where images are not kept."""
    undone: frozenset[int] = frozenset()
    """The places in `messages` of answers to calls that the world undid: a replay leaves these calls out."""
    user_calls: tuple[UserCall, ...] = ()
    """What the user called, in order. Only what is read from a record has them; a live world has seen them."""
    data: Mapping[int, JSON] = {}
    """The facts of observations (`ToolResult.data`) by their places in `messages`, where the world gave any."""


class Scorer(Protocol):
    """How well it went. A scorer changes neither trajectory nor world; what it cannot check it leaves unscored.

    It may also have `applies(task)`, which says without waiting for anything whether the task declares what it checks,
    and `asks_models = True` where scoring costs something. One with `needs_world = False` reads the trajectory alone:
    it is asked after the world was closed, so that a judge holds no browser. With `is_advisory = True` its score is
    recorded but decides nothing, unless it is chosen by name.
    """

    name: str
    """What `scoring.decide` calls it, and its scores."""

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        """The score; None where this scorer has nothing to say about the task."""
        ...
