"""The contract of a measure: further figures of a dataset in metrics.json, beyond the sums that every dataset has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from rollout.core.messages import JSON
from rollout.trajectories.saved import SavedLine


class Measure(Protocol):
    """Figures in the making."""

    name: str
    """Of the section in metrics.json."""

    def take(
        self, line: SavedLine, info: JSON | None, error_kinds: Mapping[int, str] | None, data: Mapping[int, JSON]
    ) -> None:
        """Count a trajectory. `info` is its task's `task_info`, None where the task no longer exists. `error_kinds` are
        those of error observations by their places in the messages, None where they were not kept; `data` are the
        facts of observations (`ToolResult.data`) by their places."""
        ...

    def result(self) -> JSON:
        """What was found."""
        ...


MakeMeasure = Callable[[], Measure]
