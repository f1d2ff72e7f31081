"""A scorer of your own, beside the answers and checks of the tasks."""

from __future__ import annotations

import rollout

ENOUGH = 6


@rollout.scorer
def short_way(trajectory: rollout.Trajectory) -> bool:
    """Whether the agent needed few steps. It decides nothing: `scoring.decide` in project.yml would name it."""
    return sum(message.role == "assistant" for message in trajectory.messages) <= ENOUGH
