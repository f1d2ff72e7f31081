"""Admission: which tasks of a run are done, which may be opened now, and which attempts are not needed.

A strategy says how many attempts a tree has at most. Where it ends earlier, or where dynamic sampling leaves tasks
unopened because enough groups are useful, the rest is counted as not needed, so that the sums of a run add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rollout.config.exploring import Dynamic
from rollout.engine.observer import Progress
from rollout.engine.plan import Plan
from rollout.store.journal import Journal
from rollout.tasks.source import trajectory_id
from rollout.trajectories.group import is_mixed

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


class Admission:
    """The tasks of a run. `finished` has the ids of the trajectories that are there, by dataset."""

    def __init__(self, plans: Sequence[Plan], journal: Journal, progress: Progress, rule: Dynamic | None) -> None:
        self.finished = {plan.name: journal.finished_ids(plan.name) for plan in plans}
        self._plans = plans
        self._journal = journal
        self._progress = progress
        self._rule = rule
        self._dynamic: DynamicSampling | None = None
        self._streams = False
        self._is_rest_spared = False
        self._grown = {plan.name: journal.grown_tasks(plan.name) for plan in plans}
        self._spared = {plan.name: 0 for plan in plans}
        for plan in plans:
            self._spare(plan, self._spared_before(plan))

    def start(self, streams: bool) -> None:
        """Find out what is done. Who streams groups (`streams`) notes each task himself when it is delivered."""
        self._streams = streams
        if self._rule is not None:
            begun, useful = set(), 0
            for plan in self._plans:
                begun |= {(plan.name, task_id) for task_id in self._journal.begun_tasks(plan.name)}
                groups = self._journal.groups_by_task(plan.name)
                useful += sum(group.is_mixed for task_id, group in groups.items() if self.is_done(plan, task_id))
            self._dynamic = DynamicSampling(self._rule, begun=begun, useful=useful)
            self._spare_rest(self._dynamic)

    @property
    def has_rule(self) -> bool:
        """Whether tasks may have to wait until others have ended."""
        return self._dynamic is not None

    def leaves(self, plan: Plan) -> bool:
        """Whether trees need the attempts of earlier commands."""
        return plan.strategy.has_rounds or plan.adds or self._streams or self._dynamic is not None

    def is_done(self, plan: Plan, task_id: str) -> bool:
        """Whether a task needs nothing more, as far as the journal knows."""
        if plan.strategy.has_rounds or self._streams:
            return task_id in self._grown[plan.name]
        finished = self.finished[plan.name]
        return all(trajectory_id(task_id, number) in finished for number in plan.numbers)

    def has_ended(self, plan: Plan, task_id: str) -> bool:
        """Whether an attempt at a task has ended in an earlier command."""
        finished = self.finished[plan.name]
        return bool(finished) and any(trajectory_id(task_id, number) in finished for number in plan.numbers)

    def may_open(self, plan: Plan, task_id: str) -> bool | None:
        """Whether a task may be opened now; None where that is not known yet."""
        if self._dynamic is None or self._dynamic.may_open((plan.name, task_id)):
            return True
        return False if self._dynamic.is_over else None

    def opened(self, plan: Plan, task_id: str) -> None:
        """Note that a task is being worked on."""
        if self._dynamic is not None:
            self._dynamic.open((plan.name, task_id))

    def gave_up(self, plan: Plan, task_id: str) -> None:
        """Note that nothing more can be done for a task now."""
        if self._dynamic is not None:
            self._dynamic.close((plan.name, task_id), False)

    def ended(self, plan: Plan, task_id: str, attempts: int, rewards: Iterable[float | None]) -> None:
        """Note that a task needs nothing more after this many attempts."""
        self._spare(plan, plan.strategy.most - attempts)
        if self._dynamic is not None:
            self._dynamic.close((plan.name, task_id), is_mixed(rewards))
            self._spare_rest(self._dynamic)

    def not_needed(self) -> dict[str, int]:
        """Trajectories of each dataset that were planned at most and that are not asked for."""
        return dict(self._spared)

    def _spared_before(self, plan: Plan) -> int:
        """What the trees that ended in earlier commands did not ask for."""
        ended = self._grown[plan.name].intersection(plan.tasks.ids[: plan.task_count])
        if not ended:
            return 0
        groups = self._journal.groups_by_task(plan.name)
        return sum(plan.strategy.most - groups[task_id].attempts for task_id in ended if task_id in groups)

    def _spare_rest(self, dynamic: DynamicSampling) -> None:
        """Where no more tasks are opened, those that were not are not needed."""
        if self._is_rest_spared or not dynamic.is_over:
            return
        self._is_rest_spared = True
        for plan in self._plans:
            ids = plan.tasks.ids[: plan.task_count]
            unopened = sum(not dynamic.was_opened((plan.name, task_id)) for task_id in ids)
            self._spare(plan, unopened * plan.strategy.most)

    def _spare(self, plan: Plan, number: int) -> None:
        self._spared[plan.name] += number
        self._progress.total -= number
