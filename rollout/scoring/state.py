"""Scoring by state: what the episode changed in the world's tables against what the reference actions change.

The reference is played once for each task, on a fresh world with the same seed. Reads leave no trace, so any way to the
same end counts; a missing write, a wrong one and an extra one all show as rows that differ. Two sets of changes are
compared, never two databases, so the cost follows what was changed. Fields that may differ are left out by `rules`; ids
and the like that were made at run time may be named otherwise (`made`, `renaming`). A task whose reference actions do
not run is unscored, never failed.
"""

from __future__ import annotations

from rollout.core.changes import Changes, encode_row
from rollout.core.task import Task
from rollout.core.world import World
from rollout.scoring.calls import calls_of
from rollout.scoring.differences import (
    Differences,
    compare_by_pattern,
    compare_strictly,
    describe_differences,
    net_changes,
)
from rollout.scoring.made import DrawnValue, find_drawn, find_made
from rollout.scoring.reference import References, read_changes
from rollout.scoring.renaming import TooAlike
from rollout.scoring.rules import RuleBook, Rules
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory

OTHER_SEED = 0x5EED
SAME = "the final state is the reference's"


class StateScorer:
    """Compares final tables with the reference's."""

    name = "state"

    def __init__(self, references: References, rules: RuleBook | None = None) -> None:
        self._references = references
        self._rules = rules or RuleBook()

    def applies(self, task: Task) -> bool:
        return task.actions is not None

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        if not self.applies(task) or not world.has_changes:
            return None
        reference = await self._references.of(task)
        if reference.problem is not None:
            return Score(self.name, None, reference.problem)
        if reference.changes is None:
            return None
        found = await read_changes(world)
        if found is None:
            return Score(self.name, None, "the final state cannot be read")
        rules = self._rules.of(task)
        if encode_row(found) == encode_row(reference.changes):
            return Score(self.name, 1.0, SAME, 1.0, shows_work=bool(found))
        wanted, got = net_changes(reference.changes, rules), net_changes(found, rules)
        differences = compare_strictly(wanted, got)
        if differences and _adds_rows(wanted) and _adds_rows(got):
            try:
                differences = await self._compare_by_pattern(task, trajectory, wanted, got, rules)
            except TooAlike:
                return Score(self.name, None, "too many rows are alike to tell whether the final state is right")
        if not differences:
            return Score(self.name, 1.0, SAME, 1.0)
        tables = describe_differences(differences, rules)
        reason = f"the final state differs in {', '.join(tables)}"
        return Score(self.name, 0.0, reason, round(differences.partial, 4), evidence={"tables": tables})

    async def _compare_by_pattern(
        self, task: Task, trajectory: Trajectory, wanted: Changes, got: Changes, rules: Rules
    ) -> Differences:
        """Compare again, with what the worlds made at run time under any name."""
        other = await self._references.of(task, OTHER_SEED)
        drawn = DrawnValue() if other.changes is None else find_drawn(wanted, net_changes(other.changes, rules))
        made = find_made(task, calls_of(trajectory), wanted, got, drawn, rules)
        return compare_by_pattern(wanted, got, *made)


def _adds_rows(changes: Changes) -> bool:
    return any(change.added for change in changes.values())
