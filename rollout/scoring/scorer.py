"""The contract of a scorer: it is given a finished attempt and returns a score."""

from __future__ import annotations

from typing import Protocol

from rollout.core.task import Task
from rollout.core.world import World
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory


class Scorer(Protocol):
    """Judges how well an attempt went. A scorer changes neither trajectory nor world; what it cannot check it leaves
    unscored.

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
