"""Scoring of the modes in which the right thing is to call nothing: `no_tool` and `wrong_tool`."""

from __future__ import annotations

from rollout.core.task import Task
from rollout.core.world import World
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory


class AbstentionScorer:
    """1 where the agent called no tool, 0 where it called one that could not have helped."""

    name = "abstention"

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        if trajectory.called:
            return Score(self.name, 0.0, "a tool was called although none could help")
        return Score(self.name, 1.0, "no tool was called")
