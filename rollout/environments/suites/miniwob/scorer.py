"""MiniWoB++'s own reward as the score.

The page says itself when the task is over and how well it went: the raw reward, from -1 to 1, without the decay by time
that is meant for people and for agents that act in real time. As in the package's own binary reward, the task is
solved where it is 1. In a few tasks it measures a distance (to the centre of a circle, to a colour) and 1 is hardly
ever met; there, as the package advises, a threshold decides.
"""

from __future__ import annotations

from rollout.core.messages import JSON
from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.suites.miniwob.world import MiniwobWorld, task_type_of
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory

MEASURED = frozenset(
    {
        "bisect-angle",
        "circle-center",
        "draw-circle",
        "draw-line",
        "find-midpoint",
        "right-angle",
        "use-colorwheel",
        "use-colorwheel-2",
    }
)
"""Task types whose reward is a distance."""


class MiniwobScorer:
    """1 where the page's raw reward says so; the reward itself is in the evidence."""

    name = "miniwob"

    def __init__(self, threshold: float) -> None:
        """`threshold`: what is enough where the reward is a distance."""
        self._threshold = threshold

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        assert isinstance(world, MiniwobWorld)
        outcome = world.outcome
        if outcome is None:
            return Score(self.name, 0.0, "the task was not brought to its end", evidence={"done": False})
        needed = self._threshold if task_type_of(task) in MEASURED else 1.0
        reached = outcome.reward >= needed
        reason = f"the raw reward is {outcome.reward:g}, {needed:g} is needed"
        evidence: JSON = {"done": True, "raw_reward": outcome.reward}
        if outcome.reason is not None:
            evidence["reason"] = outcome.reason
        return Score(self.name, float(reached), reason, partial=max(0.0, outcome.reward), evidence=evidence)
