"""MiniWoB++'s own reward as the score.

The page says itself when the task is over and how well it went: the raw reward, from -1 to 1, without the decay by time
that is meant for people and for agents that act in real time. As in the package's own binary reward, the task is
solved where it is 1. In a few tasks it measures a distance (to the centre of a circle, to a colour) and 1 is hardly
ever met; there, as the package advises, a threshold decides.
"""

from __future__ import annotations

from collections.abc import Callable

from rollout.errors import ReplayMismatch, RolloutError
from rollout.messages import JSON
from rollout.scoring.scorer import Score, Trajectory
from rollout.suites.miniwob.world import MiniwobWorld, Outcome, task_type_of
from rollout.tasks.task import Task
from rollout.worlds.calls import CallReader, answer_calls
from rollout.worlds.world import World

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

    def __init__(self, make_world: Callable[[], MiniwobWorld], threshold: float) -> None:
        """`make_world`: for trajectories that are scored from their record, which are played again. `threshold`: what
        is enough where the reward is a distance."""
        self._make_world = make_world
        self._threshold = threshold

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        if isinstance(world, MiniwobWorld) and world.was_opened:
            return self._judge(task, world.outcome)
        fresh = self._make_world()
        try:
            await _play_again(fresh, task, trajectory)
            return self._judge(task, fresh.outcome)
        except RolloutError as error:
            return Score(self.name, None, f"it could not be played again: {error}")
        finally:
            await fresh.close()

    def _judge(self, task: Task, outcome: Outcome | None) -> Score:
        if outcome is None:
            return Score(self.name, 0.0, "the task was not brought to its end", evidence={"done": False})
        needed = self._threshold if task_type_of(task) in MEASURED else 1.0
        reached = outcome.reward >= needed
        reason = f"the raw reward is {outcome.reward:g}, {needed:g} is needed"
        evidence: JSON = {"done": True, "raw_reward": outcome.reward}
        if outcome.reason is not None:
            evidence["reason"] = outcome.reason
        return Score(self.name, float(reached), reason, partial=max(0.0, outcome.reward), evidence=evidence)


async def _play_again(world: MiniwobWorld, task: Task, trajectory: Trajectory) -> None:
    """Make the calls of a record again, message by message, each answer compared. Raises ReplayMismatch."""
    reader = CallReader((await world.open(task, 0)).tools)
    answers = {message.tool_call_id: message.content for message in trajectory.messages if message.role == "tool"}
    for message in trajectory.messages:
        for result in await answer_calls(message.tool_calls, reader, world):
            if result.content != answers.get(result.call_id):
                raise ReplayMismatch("the page answers otherwise than recorded")
