"""Can this query be solved at all? Its reference actions are played, and what they do is held against what it declares.

A *problem* makes a query unsolvable or its score meaningless; a *remark* is worth a look. Besides, each query is put
into a class by what an agent that does nothing at all would get: passing idly is no fault of a query, but such a query
teaches little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import Message
from rollout.core.task import Task
from rollout.core.world import WorldFactory
from rollout.scoring.differences import net_changes
from rollout.scoring.milestones import Moment, reach_milestones, read_conditions
from rollout.scoring.panel import Panel
from rollout.scoring.reference import PlayedReference, play_reference
from rollout.scoring.rules import RuleBook, Rules
from rollout.scoring.wording import is_said
from rollout.trajectories.line import bare_metadata
from rollout.trajectories.stop import StopReason
from rollout.trajectories.trajectory import Trajectory

Idle = Literal["fails", "passes", "unscored"]
WRITING = frozenset({"insert", "update", "delete", "write", "multi_write"})
READING = frozenset({"read", "refuse"})
"""Kinds (`task_info.kind`) that say whether something is to be changed. Other kinds say nothing about it."""


class QueryReport(msgspec.Struct):
    """What was found about one query."""

    id: str
    kind: str = ""
    actions: int = 0
    changed_rows: int = 0
    idle: Idle = "unscored"
    problems: list[str] = msgspec.field(default_factory=list)
    remarks: list[str] = msgspec.field(default_factory=list)


class QueryChecker:
    """Checks the queries of one domain."""

    def __init__(self, make_world: WorldFactory, seed_of: Callable[[Task], int], rules: RuleBook, panel: Panel) -> None:
        self._make_world = make_world
        self._seed_of = seed_of
        self._rules = rules
        self._panel = panel

    async def check(self, task: Task) -> QueryReport:
        """Play a query's reference and look at everything that it declares."""
        report = QueryReport(task.id, str(task.info.get("kind") or ""), len(task.actions or ()))
        try:
            rules = self._rules.of(task)
            self._panel.chosen(task)
        except ConfigError as error:
            report.problems.append(str(error))
            return report
        if task.actions is None:
            report.remarks.append("no reference actions (task_info.actions): nothing can be played")
        else:
            reference = await play_reference(self._make_world(task), task, self._seed_of(task), watch=True)
            self._check_reference(task, reference, rules, report)
        report.idle = await self._try_idle(task)
        return report

    def _check_reference(self, task: Task, reference: PlayedReference, rules: Rules, report: QueryReport) -> None:
        if reference.problem is not None:
            report.problems.append(reference.problem)
            return
        moments = [
            Moment(number, step.call.name, step.changes)
            for number, step in enumerate(reference.steps)
            if step.changes is not None
        ]
        if reference.changes is not None:
            changes = net_changes(reference.changes, rules).values()
            report.changed_rows = sum(len(change.added) + len(change.removed) for change in changes)
            if report.kind in WRITING and not report.changed_rows:
                report.problems.append(f"the reference changes nothing, although the kind is {report.kind!r}")
            if report.kind in READING and report.changed_rows:
                report.remarks.append(f"the reference changes rows, although the kind is {report.kind!r}")
        self._check_way(task, moments, rules, report)
        heard = [*task.replies, *(step.result.content for step in reference.steps)]
        for wanted in task.communicate:
            if not any(is_said(wanted, text) for text in heard):
                report.remarks.append(f"communicate {wanted!r} is in no tool result and in no reply")

    def _check_way(self, task: Task, moments: list[Moment], rules: Rules, report: QueryReport) -> None:
        try:
            milestones = read_conditions(task.info.get("milestones") or [], rules)
            minefields = read_conditions(task.info.get("minefields") or [], rules)
        except ConfigError as error:
            report.problems.append(f"milestones or minefields: {error}")
            return
        reached = reach_milestones(milestones, moments)
        for one, at in zip(milestones, reached, strict=True):
            if at is None:
                report.problems.append(f"the reference does not reach the milestone {one.name}")
        for one in minefields:
            where = next((moment for moment in moments if one.rows(moment.changes)), None)
            if where is not None:
                report.problems.append(
                    f"the reference enters the minefield {one.name} by action {where.message} ({where.call})"
                )

    async def _try_idle(self, task: Task) -> Idle:
        """What an agent gets that says and does nothing."""
        world = self._make_world(task)
        try:
            await world.open(task, self._seed_of(task))
            messages = [*task.messages, Message(role="assistant", content="")]
            idle = Trajectory(task.id, task.id, False, bare_metadata(StopReason.USER_STOP), given=messages)
            verdict = await self._panel.judge(task, idle, world)
        finally:
            await world.close()
        return "unscored" if verdict.solved is None else "passes" if verdict.solved else "fails"
