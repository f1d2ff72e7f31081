"""Scoring by what the user was informed of: every text of `communicate` must be in the agent's messages to the user."""

from __future__ import annotations

from rollout.core.task import Task
from rollout.core.world import World
from rollout.scoring.wording import is_said
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory


class CommunicateScorer:
    """1 where the user was told everything that the task wants told."""

    name = "communicate"

    def applies(self, task: Task) -> bool:
        return bool(task.communicate)

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        if not self.applies(task):
            return None
        opening = len(task.messages)
        told: dict[str, int] = {}
        for wanted in task.communicate:
            for place, message in enumerate(trajectory.messages):
                is_agents = message.role == "assistant" and place >= opening
                if is_agents and message.content and is_said(wanted, message.content):
                    told[wanted] = place
                    break
        untold = [wanted for wanted in task.communicate if wanted not in told]
        share = round(1 - len(untold) / len(task.communicate), 4)
        evidence = {"told": told, "untold": untold}
        if untold:
            reason = f"the user was not told {', '.join(map(repr, untold))}"
            return Score(self.name, 0.0, reason, share, evidence=evidence)
        return Score(self.name, 1.0, "the user was told everything", share, evidence=evidence)
