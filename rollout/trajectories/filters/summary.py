"""The summary of a filtering: what each filter took, in numbers that add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from rollout.core.messages import JSON
from rollout.trajectories.filters.marks import VERDICTS, Filtered, Mark, Policy


class MarkExample(msgspec.Struct, frozen=True, omit_defaults=True):
    """A mark, and where it is."""

    id: str
    reason: str
    evidence: str = ""
    turn: int | None = None


class FilterCount(msgspec.Struct):
    """What one filter found under one policy."""

    filter: str
    policy: Policy
    trajectories: int = 0
    turns: int = 0
    """Marked turns, each once."""
    decided: int = 0
    """Trajectories that are not kept as they are because of it, alone or with others."""
    examples: list[MarkExample] = []


class FilterSummary:
    """Sums over the records of a run."""

    def __init__(self, filters: Iterable[tuple[str, Policy]] = (), examples: int = 3) -> None:
        """`filters`: those that are on, so that one which finds nothing is listed, too."""
        self._examples = examples
        self.filters = {key: FilterCount(*key) for key in filters}
        self.verdicts: dict[str, Counter[str]] = {}
        """By status."""
        self.turns = 0
        self.masked_turns = 0
        self.parse_statuses: Counter[str] = Counter()
        self.counting = 0
        """Trajectories that count in their groups."""
        self._groups: set[tuple[str, str]] = set()
        self._groups_left: set[tuple[str, str]] = set()

    @property
    def read(self) -> int:
        return sum(counts.total() for counts in self.verdicts.values())

    @property
    def groups(self) -> tuple[int, int]:
        """Groups, and those of which something is left."""
        return len(self._groups), len(self._groups_left)

    def of(self, verdict: str) -> int:
        """How many trajectories had a verdict."""
        return sum(counts[verdict] for counts in self.verdicts.values())

    def add(self, record: Filtered) -> None:
        """Count a trajectory."""
        self.verdicts.setdefault(record.status, Counter())[record.verdict] += 1
        self.turns += len(record.turns)
        self.masked_turns += len(record.masked)
        for turn in record.turns:
            self.parse_statuses[turn.parse_status] += 1
        self.counting += record.counts_in_group
        self._groups.add((record.dataset, record.group))
        if record.verdict != "drop":
            self._groups_left.add((record.dataset, record.group))
        by_filter: dict[tuple[str, Policy], list[Mark]] = {}
        for mark in record.marks:
            by_filter.setdefault((mark.filter, mark.policy), []).append(mark)
        for key, marks in by_filter.items():
            count = self.filters.setdefault(key, FilterCount(*key))
            count.trajectories += 1
            count.turns += len({mark.turn for mark in marks if mark.turn is not None})
            count.decided += record.verdict != "keep" and key[0] in record.why
            if len(count.examples) < self._examples:
                first = marks[0]
                count.examples.append(MarkExample(record.id, first.reason, first.evidence, first.turn))

    def to_json(self) -> JSON:
        """All of it, for machines."""
        groups, left = self.groups
        return {
            "trajectories": self.read,
            **{f"verdict_{verdict}": self.of(verdict) for verdict in VERDICTS},
            "statuses": {
                status: {verdict: counts[verdict] for verdict in VERDICTS} for status, counts in self.verdicts.items()
            },
            "turns": self.turns,
            "masked_turns": self.masked_turns,
            "parse_statuses": dict(self.parse_statuses),
            "groups": groups,
            "groups_left": left,
            "counting_in_groups": self.counting,
            "filters": [msgspec.to_builtins(count) for count in self.filters.values()],
        }
