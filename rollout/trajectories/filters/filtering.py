"""All filters over all trajectories of a run, in three passes whose order is fixed.

1. Each trajectory by itself, as it is read (`Filtering.add`).
2. Near-duplicates, among those that the first pass did not drop: nothing is a duplicate of what is gone.
3. Groups, by the rewards of all attempts, or of those that are left (`counts_in_group: false`).

What comes out depends neither on the order of the trajectories nor on that of the filters. A trajectory whose
infrastructure broke is marked for that and for nothing else, is no duplicate, and counts in no group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from rollout.messages import Message, encode_message
from rollout.trajectories.filters.duplicates import NearDuplicates, Trace
from rollout.trajectories.filters.endings import Infrastructure
from rollout.trajectories.filters.faults import TrajectoryFilter
from rollout.trajectories.filters.groups import GroupFilter
from rollout.trajectories.filters.marks import Filtered, Found, Mark, Policy, settle
from rollout.trajectories.filters.subject import Subject
from rollout.trajectories.filters.turns import MIN_TOKENS, NGRAM, Turn, read_turns
from rollout.trajectories.line import Head
from rollout.trajectories.rewards import reward_rule
from rollout.trajectories.stop import Status

F = TypeVar("F")
SUCCESS = "success"
MOST_REWARD = 1e100
"""Beyond it is no reward but something else under its name."""


class Active(msgspec.Struct, Generic[F], frozen=True):
    """A filter that is on."""

    name: str
    policy: Policy
    filter: F

    def mark(self, found: Found) -> Mark:
        return Mark(self.name, self.policy, found.reason, found.evidence, found.turn)


class Rules(msgspec.Struct, frozen=True):
    """The filters that are on for a dataset."""

    own: tuple[Active[TrajectoryFilter], ...] = ()
    duplicates: Active[NearDuplicates] | None = None
    groups: tuple[Active[GroupFilter], ...] = ()
    counts_in_group: bool = True
    """Whether a trajectory that is dropped still counts in the statistics of its group."""
    min_tokens: int = MIN_TOKENS
    ngram: int = NGRAM
    """What `premature` and `repetition` of the recorded turns go by."""

    @property
    def rewards(self) -> set[str]:
        """The rules by which trajectories are worth something here."""
        return {SUCCESS, *(active.filter.reward for active in self.groups)}


class _Draft(msgspec.Struct):
    """A trajectory on its way: all that later passes need. The rest is let go, for a run may be larger than memory."""

    id: str
    dataset: str
    group: str
    status: str
    rules: Rules
    turns: tuple[Turn, ...]
    digest: str
    marks: list[Mark]
    rewards: dict[str, float]
    """What it is worth by each rule that somebody asks about, where that is known."""
    trace: Trace | None
    is_broken: bool
    counts: bool = False

    @property
    def is_dropped(self) -> bool:
        return settle(self.marks, self.turns).verdict == "drop"


class Filtering:
    """Takes trajectories in, then gives the record of each."""

    def __init__(self, rules_of: Callable[[str], Rules]) -> None:
        """`rules_of`: the rules of a dataset."""
        self._rules_of = rules_of
        self._drafts: list[_Draft] = []

    def add(self, subject: Subject) -> None:
        """Look at one trajectory by itself."""
        rules = self._rules_of(subject.dataset)
        turns = read_turns(subject, min_tokens=rules.min_tokens, ngram=rules.ngram)
        is_failed = subject.head.status == Status.FAILED
        marks: list[Mark] = []
        is_broken = is_failed
        for active in rules.own:
            is_infrastructure = isinstance(active.filter, Infrastructure)
            if is_failed and not is_infrastructure:
                continue
            found = [active.mark(entry) for entry in active.filter.find(subject, turns)]
            is_broken = is_broken or (is_infrastructure and bool(found))
            marks += found
        trace = None
        if rules.duplicates is not None and not is_broken and settle(marks, turns).verdict != "drop":
            trace = rules.duplicates.filter.trace(subject)
        asked = {} if is_broken else {rule: _reward(subject.head, rule) for rule in rules.rewards}
        self._drafts.append(
            _Draft(
                subject.head.id,
                subject.dataset,
                subject.group,
                subject.head.status,
                rules,
                tuple(turns),
                digest_of(subject.messages),
                marks,
                {rule: reward for rule, reward in asked.items() if reward is not None},
                trace,
                is_broken,
            )
        )

    def records(self) -> list[Filtered]:
        """The record of each trajectory, in the order in which they were added. Ends the filtering: call it once."""
        self._find_duplicates()
        self._judge_groups()
        return [_record(draft) for draft in self._drafts]

    def _find_duplicates(self) -> None:
        by_rule: dict[Active[NearDuplicates], list[tuple[_Draft, Trace]]] = {}
        for draft in self._drafts:
            if draft.trace is not None and draft.rules.duplicates is not None:
                by_rule.setdefault(draft.rules.duplicates, []).append((draft, draft.trace))
        for active, traced in by_rule.items():
            for place, found in active.filter.find([trace for _, trace in traced]):
                traced[place][0].marks.append(active.mark(found))

    def _judge_groups(self) -> None:
        groups: dict[tuple[str, str], list[_Draft]] = {}
        for draft in self._drafts:
            groups.setdefault((draft.dataset, draft.group), []).append(draft)
        for drafts in groups.values():
            rules = drafts[0].rules
            members = [draft for draft in drafts if rules.counts_in_group or not draft.is_dropped]
            for draft in members:
                # Not by what it is worth: that depends on the rule by which somebody asks later.
                draft.counts = not draft.is_broken
            judged = [(active, _judge(active.filter, members)) for active in rules.groups]
            for active, found in judged:
                if found is not None:
                    # What broke is not part of the group that is spoken of.
                    for draft in drafts:
                        if not draft.is_broken:
                            draft.marks.append(active.mark(found))


def _record(draft: _Draft) -> Filtered:
    settled = settle(draft.marks, draft.turns)
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
        draft.counts,
        tuple(sorted(draft.marks, key=lambda mark: (-1 if mark.turn is None else mark.turn, mark.filter))),
        draft.turns,
        draft.digest,
    )


def _judge(judge: GroupFilter, members: Sequence[_Draft]) -> Found | None:
    rewards = [draft.rewards[judge.reward] for draft in members if judge.reward in draft.rewards]
    return judge.judge(sorted(rewards))


def _reward(head: Head, rule: str) -> float | None:
    """What a trajectory is worth. Lines that others wrote may hold anything under the names that a rule reads."""
    try:
        reward = reward_rule(rule)(head)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    return reward if reward is not None and abs(reward) < MOST_REWARD else None


def digest_of(messages: Sequence[Message]) -> str:
    """A short name of messages: equal for equal ones."""
    return hashlib.blake2b(b"".join(map(encode_message, messages)), digest_size=8).hexdigest()
