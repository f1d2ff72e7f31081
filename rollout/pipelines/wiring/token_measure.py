"""The section `tokens` of metrics.json: how many trajectories have exact token ids, and why others drifted."""

from __future__ import annotations

from collections import Counter

from rollout.core.messages import JSON
from rollout.trajectories.trajectory import Trajectory


class TokenMeasure:
    """Counts trajectories with all their ids, and drifts by cause. What attempts share is counted for each of them."""

    name = "tokens"

    def __init__(self) -> None:
        self._exact = 0
        self._inexact = 0
        self._drifted = 0
        self._causes: Counter[str] = Counter()

    def take(self, trajectory: Trajectory, info: JSON | None) -> None:
        if trajectory.is_exact:
            self._exact += 1
        else:
            self._inexact += 1
        causes = trajectory.drift_causes
        self._drifted += bool(causes)
        self._causes.update(causes)

    def result(self) -> JSON:
        return {
            "exact": self._exact,
            "inexact": self._inexact,
            "drifted": self._drifted,
            "drift": dict(sorted(self._causes.items())),
        }
