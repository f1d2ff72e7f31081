"""The contract of a scorer: it is given a finished attempt and returns a score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from rollout.core.messages import JSON, Message
from rollout.core.task import Task
from rollout.core.world import World
from rollout.trajectories.line import UserCall
from rollout.trajectories.score import Score
from rollout.trajectories.stop import Status, StopReason


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
