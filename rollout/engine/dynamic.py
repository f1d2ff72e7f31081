"""Dynamic sampling: which tasks a run opens, where it wants useful groups rather than all tasks.

Tasks are opened in their order, for each useful group that is still missing so many at once (`oversample`), until there
are enough or no more may be opened. Tasks that are open are always finished, so after a resume those that were begun go
on first, and what is counted comes from the journal: nothing is opened that would not have been needed anyway.
"""

from __future__ import annotations

import math

from rollout.config.exploring import Dynamic

TaskKey = tuple[str, str]
"""Dataset and task."""


class DynamicSampling:
    """The count of useful groups, and the tasks that are open."""

    def __init__(self, rule: Dynamic, *, begun: set[TaskKey], useful: int) -> None:
        self._rule = rule
        self._opened = set(begun)
        self._open: set[TaskKey] = set()
        self.useful = useful

    @property
    def is_over(self) -> bool:
        """Whether no more tasks are opened, whatever becomes of those that are open."""
        most = self._rule.max_tasks
        return self.useful >= self._rule.groups or (most is not None and len(self._opened) >= most)

    def may_open(self, task: TaskKey) -> bool:
        """Whether this task may be opened now."""
        if task in self._opened:
            return True
        missing = self._rule.groups - self.useful
        return not self.is_over and len(self._open) < math.ceil(missing * self._rule.oversample)

    def open(self, task: TaskKey) -> None:
        """Note that a task is being worked on."""
        self._opened.add(task)
        self._open.add(task)

    def close(self, task: TaskKey, is_useful: bool) -> None:
        """Note that a task needs nothing more, or that nothing more can be done for it now."""
        if task in self._open:
            self._open.remove(task)
            self.useful += is_useful

    def was_opened(self, task: TaskKey) -> bool:
        """Whether this task was ever opened."""
        return task in self._opened
