"""Measures: further figures of a dataset in metrics.json, beyond the sums that every dataset has.

A measure comes with the kind of tools that it knows about (`DatasetTools.measures`), or follows from what the agent's
model returns (`TokenMeasure`). It is made at the end of a run and fed every trajectory on record, one at a time. The
result is in metrics.json under the measure's name, by dataset. The journal keeps it, so that a later command that works
on another dataset of the run does not lose it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

import msgspec

from rollout.core.messages import JSON
from rollout.store.journal import Journal
from rollout.tasks.source import Tasks
from rollout.trajectories.measure import MakeMeasure


class TaskInfo:
    """The `task_info` of tasks by their ids, read when asked for."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._places = {task_id: place for place, task_id in enumerate(tasks.ids)}

    def of(self, task_id: str) -> JSON | None:
        place = self._places.get(task_id)
        return None if place is None else self._tasks.read(place).info


def measure_dataset(
    journal: Journal, dataset: str, tasks: Tasks, makers: Iterable[MakeMeasure], seconds: float = math.inf
) -> bool:
    """Feed new measures the dataset's trajectories, and keep in the journal what they found.

    False where that would take longer than `seconds`: what was found before stays.
    """
    measures = [make() for make in makers]
    if not measures:
        return True
    known = TaskInfo(tasks)
    end = time.monotonic() + seconds
    for trajectory in journal.trajectories(dataset):
        if time.monotonic() > end:
            return False
        info = known.of(trajectory.task_id)
        for measure in measures:
            measure.take(trajectory, info)
    found = {measure.name: measure.result() for measure in measures}
    journal.set_meta(f"measured:{dataset}", msgspec.json.encode(found).decode())
    return True


def measured(journal: Journal, datasets: Iterable[str]) -> dict[str, dict[str, JSON]]:
    """What was found so far, by measure and dataset."""
    sections: dict[str, dict[str, JSON]] = {}
    for dataset in datasets:
        for name, found in (journal.document(f"measured:{dataset}") or {}).items():
            sections.setdefault(name, {})[dataset] = found
    return sections
