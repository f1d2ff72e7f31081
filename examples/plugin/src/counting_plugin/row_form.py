"""The form of training data `solve_rate`: how often each task was solved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from rollout.trajectories.exports.parquet import Columns
from rollout.trajectories.rows.exchange import Attempted
from rollout.trajectories.rows.form import Account, RowForm


class SolveRate(RowForm):
    """One row for each task."""

    columns: ClassVar[Columns] = {"task_id": "text", "attempts": "int", "solved": "float"}
    min_attempts: int = 1
    """Leave out tasks with fewer attempts."""

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[dict[str, Any]]:
        if len(group) < self.min_attempts:
            for _ in group:
                account.drop("too few attempts")
            return
        solved = sum(attempted.head.success for attempted in group) / len(group)
        yield {"task_id": group[0].head.task_id, "attempts": len(group), "solved": solved}
