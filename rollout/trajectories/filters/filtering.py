"""All filters over all trajectories of a run, in three passes whose order is fixed.

1. Each trajectory by itself, as it is read (`Filtering.add`).
2. Comparisons, such as near-duplicates, among those that the first pass did not drop: nothing is a duplicate of what
   is gone.
3. Groups, by the rewards of all attempts, or of those that are left (`counts_in_group: false`).

A run may be larger than memory. What the first pass found lies in a temporary file (`spill`); about a kilobyte of each
trajectory stays in memory, and records come out one at a time.

What comes out depends neither on the order of the trajectories nor on that of the filters. A trajectory whose
infrastructure broke is marked for that and for nothing else, is no duplicate, and counts in no group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from rollout.core.messages import Message, encode_message
from rollout.trajectories.filters.filter import ComparingFilter, Filter, GroupFilter, TrajectoryFilter
from rollout.trajectories.filters.marks import Filtered, Found, Mark, Policy, settle
from rollout.trajectories.filters.spill import Spill
from rollout.trajectories.filters.traces import Sketch, Trace
from rollout.trajectories.filters.turns import MIN_TOKENS, NGRAM, Turn, read_turns
from rollout.trajectories.rewards import RewardRule, reward_rule
from rollout.trajectories.stop import Status
from rollout.trajectories.trajectory import Trajectory

F = TypeVar("F", bound=Filter, covariant=True)
MOST_REWARD = 1e100
"""Beyond it is no reward but something else under its name."""


class ActiveFilter(msgspec.Struct, Generic[F], frozen=True):
    """A filter that is on."""

    name: str
    filter: F

    def __hash__(self) -> int:
        # Not by the filter's parameters, which may be lists.
        return hash(self.name)

    @property
    def policy(self) -> Policy:
        return self.filter.policy

    def mark(self, found: Found) -> Mark:
        return Mark(self.name, self.policy, found.reason, found.evidence, found.turn)


class ActiveFilters(msgspec.Struct, frozen=True):
    """The filters that are on for a dataset, by the pass in which they look."""

    own: tuple[ActiveFilter[TrajectoryFilter], ...] = ()
    comparing: tuple[ActiveFilter[ComparingFilter], ...] = ()
    groups: tuple[ActiveFilter[GroupFilter], ...] = ()
    counts_in_group: bool = True
    """Whether a trajectory that is dropped still counts in the statistics of its group."""
    min_tokens: int = MIN_TOKENS
    ngram: int = NGRAM
    """The parameters behind `premature` and `repetition` of the recorded turns."""

    @property
    def rewards(self) -> list[str]:
        """The rules by which trajectories are worth something here."""
        return list(dict.fromkeys(active.filter.reward for active in self.groups))


class _Draft(msgspec.Struct, array_like=True):
    """What the first pass found of a trajectory, stored until the others are done."""

    id: str
    dataset: str
    group: str
    status: str
    turns: tuple[Turn, ...]
    digest: str
    marks: tuple[Mark, ...]


class _Member(msgspec.Struct, gc=False):
    """What stays in memory of a trajectory."""

    filters: ActiveFilters
    is_broken: bool
    is_dropped: bool
    rewards: tuple[float | None, ...] = ()
    """What it is worth by each rule that is asked for, in their order; None where that is not known."""
    compared: tuple[Mark, ...] = ()
    """What the second pass found."""
    counts: bool = False


class _Sketched(msgspec.Struct, frozen=True, gc=False):
    """A trajectory that a filter compares with others."""

    member: int
    sketch: Sketch
    trace: int
    """The place of its trace among the stored ones."""


class Filtering:
    """Takes trajectories in, then gives the record of each."""

    def __init__(self, filters_of: Callable[[str], ActiveFilters], folder: Path | None = None) -> None:
        """`filters_of`: the filters of a dataset. `folder`: where what does not fit into memory is stored, in a file
        without a name; the system's folder for such files where it is None."""
        self._filters_of = filters_of
        self._rules: dict[str, RewardRule] = {}
        self._members: list[_Member] = []
        self._groups: dict[tuple[str, str], list[int]] = {}
        self._sketched: dict[ActiveFilter[ComparingFilter], list[_Sketched]] = {}
        """What each filter compares: datasets that have the same one are compared with one another."""
        self._drafts = Spill(_Draft, folder)
        self._traces = Spill(Trace, folder)

    def add(self, trajectory: Trajectory) -> None:
        """Look at one trajectory by itself."""
        filters = self._filters_of(trajectory.dataset)
        turns = tuple(read_turns(trajectory, min_tokens=filters.min_tokens, ngram=filters.ngram))
        is_failed = trajectory.status == Status.FAILED
        marks: list[Mark] = []
        is_broken = is_failed
        for active in filters.own:
            if is_failed and not active.filter.finds_broken:
                continue
            found = [active.mark(entry) for entry in active.filter.find(trajectory, turns)]
            is_broken = is_broken or (active.filter.finds_broken and bool(found))
            marks += found
        is_dropped = settle(marks, turns).verdict == "drop"
        encoded = [encode_message(message) for message in trajectory.messages]
        member = _Member(filters, is_broken, is_dropped)
        if filters.comparing and not is_broken and not is_dropped:
            digests = [_digest(message).digest() for message in encoded]
            for comparing in filters.comparing:
                sketch, trace = comparing.filter.trace(trajectory, digests)
                sketched = _Sketched(len(self._members), sketch, len(self._traces))
                self._sketched.setdefault(comparing, []).append(sketched)
                self._traces.append(trace)
        if not is_broken:
            member.rewards = tuple(self._reward(trajectory, rule) for rule in filters.rewards)
        self._groups.setdefault((trajectory.dataset, trajectory.group), []).append(len(self._members))
        self._members.append(member)
        self._drafts.append(
            _Draft(
                trajectory.id,
                trajectory.dataset,
                trajectory.group,
                trajectory.status,
                turns,
                _digest(b"".join(encoded)).hexdigest(),
                tuple(marks),
            )
        )

    def _reward(self, trajectory: Trajectory, name: str) -> float | None:
        """What a trajectory is worth by a rule. Lines that others wrote may hold anything under its name."""
        if name not in self._rules:
            self._rules[name] = reward_rule(name)
        reward = self._rules[name](trajectory)
        return reward if reward is not None and abs(reward) < MOST_REWARD else None

    def records(self) -> Iterator[Filtered]:
        """The record of each trajectory, in the order in which they were added. Ends the filtering: call it once."""
        with self._drafts, self._traces:
            self._compare()
            judged = self._judge_groups()
            for member, draft in zip(self._members, self._drafts, strict=True):
                marks = [*draft.marks, *member.compared]
                if not member.is_broken:
                    # What broke is not part of the group that is spoken of.
                    marks += judged.get((draft.dataset, draft.group), ())
                yield _record(draft, marks, member.counts)

    def _compare(self) -> None:
        for active, compared in self._sketched.items():

            def load(place: int, compared: list[_Sketched] = compared) -> Trace:
                return self._traces[compared[place].trace]

            for place, found in active.filter.compare([entry.sketch for entry in compared], load):
                member = self._members[compared[place].member]
                member.compared += (active.mark(found),)
                # It is said of the whole, so any policy but to keep it leaves nothing.
                member.is_dropped = member.is_dropped or active.policy != "keep"

    def _judge_groups(self) -> dict[tuple[str, str], list[Mark]]:
        """The marks of each group; says of each trajectory whether it counts in its own."""
        judged: dict[tuple[str, str], list[Mark]] = {}
        for group, places in self._groups.items():
            every = [self._members[place] for place in places]
            filters = every[0].filters
            members = [member for member in every if filters.counts_in_group or not member.is_dropped]
            for member in members:
                # Not by what it is worth: that depends on the rule that is asked for later.
                member.counts = not member.is_broken
            found = [
                (active, active.filter.judge(_rewards(active.filter, filters, members))) for active in filters.groups
            ]
            marks = [active.mark(entry) for active, entry in found if entry is not None]
            if marks:
                judged[group] = marks
        return judged


def _record(draft: _Draft, marks: Sequence[Mark], counts: bool) -> Filtered:
    settled = settle(marks, draft.turns)
    return Filtered(
        draft.id,
        draft.dataset,
        draft.group,
        draft.status,
        settled.verdict,
        settled.why,
        settled.masked,
        tuple(draft.turns[number].message for number in settled.masked),
        settled.end,
        counts,
        tuple(sorted(marks, key=lambda mark: (-1 if mark.turn is None else mark.turn, mark.filter))),
        draft.turns,
        draft.digest,
    )


def _rewards(judge: GroupFilter, filters: ActiveFilters, members: Sequence[_Member]) -> list[float]:
    """What the members are worth to a filter, as far as it is known."""
    place = filters.rewards.index(judge.reward)
    return sorted(reward for member in members if member.rewards and (reward := member.rewards[place]) is not None)


def digest_of(messages: Sequence[Message]) -> str:
    """A short name of messages: equal for equal ones."""
    return _digest(b"".join(map(encode_message, messages))).hexdigest()


def _digest(data: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(data, digest_size=8)
