"""The contract of a measure: further figures of a dataset in metrics.json, beyond the sums that every dataset has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rollout.core.messages import JSON
from rollout.trajectories.trajectory import Trajectory


class Measure(Protocol):
    """Figures in the making."""

    name: str
    """Of the section in metrics.json."""

    def take(self, trajectory: Trajectory, info: JSON | None) -> None:
        """Count a trajectory. `info` is its task's `task_info`, None where the task no longer exists."""
        ...

    def result(self) -> JSON:
        """What was found."""
        ...


MakeMeasure = Callable[[], Measure]
