"""Scoring by the way there: states that must be reached at some point, and states that must never be.

`task_info.milestones` and `task_info.minefields` are lists of conditions (`rollout.scoring.conditions`). To see the
states in between, the recorded calls are made again on a fresh world, so the engine's loop knows nothing of it and a
finished run can be scored the same way. A milestone that says `ordered` must be reached no earlier than the one before
it; a state that is left and reached again counts each time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from rollout.core.changes import Changes, Row
from rollout.core.errors import ConfigError, ReplayMismatch, WorldError
from rollout.core.task import Task
from rollout.core.world import World, WorldFactory
from rollout.scoring.conditions import Condition
from rollout.scoring.reference import read_changes
from rollout.scoring.replay import replay
from rollout.scoring.rules import RuleBook, Rules
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory

SHOWN_ROWS = 3


class Moment(msgspec.Struct, frozen=True):
    """The state after one call."""

    message: int
    call: str
    changes: Changes


class WayScorer:
    """What `MilestoneScorer` and `MinefieldScorer` have in common: the states on the way."""

    name: str

    def __init__(
        self,
        make_world: WorldFactory,
        seed_of: Callable[[Task], int],
        rules: RuleBook | None = None,
        irreversible: Collection[str] = (),
    ) -> None:
        self._make_world = make_world
        self._seed_of = seed_of
        self._irreversible = irreversible
        self._rules = rules or RuleBook()

    def applies(self, task: Task) -> bool:
        return bool(task.info.get(self.name))

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        if not self.applies(task):
            return None
        try:
            conditions = read_conditions(task.info[self.name], self._rules.of(task))
        except ConfigError as error:
            return Score(self.name, None, f"task_info.{self.name}: {error}")
        if not world.has_changes:
            return Score(self.name, None, "this world has no tables to look at")
        try:
            moments = await self._moments(task, trajectory)
        except (ReplayMismatch, WorldError) as error:
            return Score(self.name, None, f"the states on the way cannot be seen: {error}")
        return self.judge(conditions, moments)

    def judge(self, conditions: Sequence[Condition], moments: Sequence[Moment]) -> Score:
        """The score, given the states."""
        raise NotImplementedError

    async def _moments(self, task: Task, trajectory: Trajectory) -> list[Moment]:
        world = self._make_world(task)
        moments = []
        try:
            async for called in replay(world, task, self._seed_of(task), trajectory, irreversible=self._irreversible):
                changes = await read_changes(world)
                if changes is None:
                    raise WorldError("its tables cannot be read")
                moments.append(Moment(called.message, called.call.name, changes))
        finally:
            await world.close()
        return moments


class MilestoneScorer(WayScorer):
    """1 where every milestone was reached, in order where order is asked for."""

    name = "milestones"

    def judge(self, conditions: Sequence[Condition], moments: Sequence[Moment]) -> Score:
        reached = reach_milestones(conditions, moments)
        missed = [one.name for one, at in zip(conditions, reached, strict=True) if at is None]
        evidence: dict[str, Any] = {
            "reached": [
                {"milestone": one.name, "message": moments[at].message, "call": moments[at].call}
                for one, at in zip(conditions, reached, strict=True)
                if at is not None
            ]
        }
        share = round(1 - len(missed) / len(conditions), 4)
        if missed:
            evidence["missed"] = missed
            return Score(self.name, 0.0, f"not reached: {'; '.join(missed)}", share, evidence=evidence)
        return Score(self.name, 1.0, "every milestone was reached", share, evidence=evidence)


class MinefieldScorer(WayScorer):
    """0 where a minefield was entered, even if it was left again."""

    name = "minefields"

    def judge(self, conditions: Sequence[Condition], moments: Sequence[Moment]) -> Score:
        entered = [entry for one in conditions if (entry := _entry(one, moments)) is not None]
        if not entered:
            return Score(self.name, 1.0, "no minefield was entered", 1.0)
        names = "; ".join(entry["minefield"] for entry in entered)
        share = round(1 - len(entered) / len(conditions), 4)
        return Score(self.name, 0.0, f"entered: {names}", share, evidence={"entered": entered})


def read_conditions(declared: Any, rules: Rules) -> list[Condition]:
    """The conditions that a task declares. Raises ConfigError."""
    if not isinstance(declared, list):
        raise ConfigError(f"expected a list, got {type(declared).__name__}")
    return [Condition(each, rules) for each in declared]


def reach_milestones(conditions: Sequence[Condition], moments: Sequence[Moment]) -> list[int | None]:
    """When each milestone was reached; None where it was not, or only before the one that it must come after."""
    reached: list[int | None] = []
    for condition in conditions:
        times = _beginnings(bool(condition.rows(moment.changes)) for moment in moments)
        if condition.ordered and reached:
            earlier = reached[-1]
            times = [] if earlier is None else [time for time in times if time >= earlier]
        reached.append(times[0] if times else None)
    return reached


def _beginnings(holds: Iterable[bool]) -> list[int]:
    """The places at which something begins to hold."""
    found = []
    before = False
    for place, now in enumerate(holds):
        if now and not before:
            found.append(place)
        before = now
    return found


def _entry(condition: Condition, moments: Sequence[Moment]) -> dict[str, Any] | None:
    for moment in moments:
        rows: list[Row] = condition.rows(moment.changes)
        if rows:
            return {
                "minefield": condition.name,
                "message": moment.message,
                "call": moment.call,
                "rows": rows[:SHOWN_ROWS],
            }
    return None
