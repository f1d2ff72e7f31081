"""The form of training data `solve_rate`: how often each task was solved."""

from collections.abc import Iterator, Sequence
from typing import Any

from rollout.trajectories.rows.form import Account, Attempted, RowForm


class SolveRate(RowForm):
    """One row for each task."""

    columns = {"task_id": "text", "attempts": "int", "solved": "float"}

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[dict[str, Any]]:
        solved = sum(attempted.head.success for attempted in group) / len(group)
        yield {"task_id": group[0].head.task_id, "attempts": len(group), "solved": solved}
