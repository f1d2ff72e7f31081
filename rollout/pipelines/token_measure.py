"""The section `tokens` of metrics.json: how many trajectories have exact token ids, and why others drifted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rollout.core.messages import JSON
from rollout.trajectories.saved import SavedLine


class TokenMeasure:
    """Counts trajectories with all their ids, and drifts by cause. What attempts share is counted for each of them."""

    name = "tokens"

    def __init__(self) -> None:
        self._exact = 0
        self._inexact = 0
        self._drifted = 0
        self._causes: Counter[str] = Counter()

    def take(
        self, line: SavedLine, info: JSON | None, error_kinds: Mapping[int, str] | None, data: Mapping[int, JSON]
    ) -> None:
        found = line.metadata.get("tokens") or {}
        if found.get("exact"):
            self._exact += 1
        else:
            self._inexact += 1
        drifts = found.get("drift") or ()
        self._drifted += bool(drifts)
        self._causes.update(drift["cause"] for drift in drifts)

    def result(self) -> JSON:
        return {
            "exact": self._exact,
            "inexact": self._inexact,
            "drifted": self._drifted,
            "drift": dict(sorted(self._causes.items())),
        }
