"""Near-duplicates: trajectories that say and do nearly the same as another one.

A message is taken as the set of its word n-grams (shingles), a trajectory as the union over its messages; two are as
similar as the Jaccard index of their sets. Of several that are alike the first stays, in the order of dataset, group,
attempt and id, whatever the order they are read in.

Attempts at one task begin alike, so they are compared without the task's opening; leaves of one tree also without what
they share by having branched, which is no evidence of anything. All of a group's pairs are compared. Over the whole run
candidates come from MinHash signatures in bands, and each candidate is then compared exactly: no two are called alike
by chance. The signature has one permutation (a shingle falls into one bin, empty bins borrow from the next), so it
costs one pass over the shingles.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Hashable, Iterator, Sequence

import msgspec

from rollout.messages import Message, encode_message
from rollout.trajectories.filters.marks import Found
from rollout.trajectories.filters.subject import Subject
from rollout.trajectories.filters.texts import shingles, words

BINS = 128
MOST_MISSED = 1e-3
_EMPTY = (1 << 64) - 1


class Trace(msgspec.Struct, frozen=True):
    """What is remembered of a trajectory for comparing it."""

    key: tuple[str, str, int, str]
    """Dataset, group, attempt, id."""
    messages: tuple[array[int], ...]
    """The shingles of each message."""
    digests: tuple[bytes, ...]
    """Equal where messages are equal."""
    opening: int
    inherited: int
    """Messages that it shares with the attempt that it branched from; at least the opening."""

    @property
    def group(self) -> tuple[str, str]:
        return self.key[:2]

    def since(self, place: int) -> frozenset[int]:
        """Its shingles from a message on."""
        return frozenset(shingle for message in self.messages[place:] for shingle in message)


class NearDuplicates(msgspec.Struct, frozen=True):
    """Trajectories that are nearly another one."""

    similarity: float
    words: int
    across_tasks: bool

    def trace(self, subject: Subject) -> Trace:
        """What to remember of a trajectory."""
        branch = subject.head.metadata.get("branch")
        known = branch if isinstance(branch, dict) else {}
        number, shared = (_whole(known.get(name)) for name in ("number", "shared_messages"))
        return Trace(
            (subject.dataset, subject.group, number, subject.head.id),
            tuple(shingles(_told(message), self.words) for message in subject.messages),
            tuple(hashlib.blake2b(encode_message(message), digest_size=8).digest() for message in subject.messages),
            subject.opening,
            min(max(shared, subject.opening), len(subject.messages)),
        )

    def find(self, traces: Sequence[Trace]) -> Iterator[tuple[int, Found]]:
        """Which of them are duplicates, by their places, and of which other."""
        kept: dict[tuple[str, str], list[Trace]] = {}
        index = Index(self.similarity)
        sets = _Sets()
        for place, trace in sorted(enumerate(traces), key=lambda entry: (entry[1].key, entry[1].digests)):
            if trace.group not in kept:
                sets = _Sets()  # groups come one after the other
            fellows = kept.setdefault(trace.group, [])
            alike = next((found for other in fellows if (found := self._alike(trace, other, sets)) is not None), None)
            whole = trace.since(0) if self.across_tasks else frozenset()
            if alike is None and self.across_tasks:
                alike = index.nearest(whole, trace.group)
            if alike is not None:
                share, other_id = alike
                yield place, Found(f"nearly the same as {other_id}", f"{share:.1%} of their shingles in common")
                continue
            fellows.append(trace)
            if self.across_tasks:
                index.add(trace.key[3], whole, trace.group)

    def _alike(self, trace: Trace, other: Trace, sets: _Sets) -> tuple[float, str] | None:
        """How similar two attempts at one task are, where that is enough."""
        start = min(max(trace.inherited, other.inherited), _common(trace, other))
        share = jaccard(sets.since(trace, start), sets.since(other, start), self.similarity)
        return None if share < self.similarity else (share, other.key[3])


class _Sets:
    """Shingles of the traces of one group, made once for each place that somebody begins to compare at."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int], frozenset[int]] = {}

    def since(self, trace: Trace, place: int) -> frozenset[int]:
        key = (id(trace), place)
        if key not in self._made:
            self._made[key] = trace.since(place)
        return self._made[key]


class Index:
    """Sets that were seen, to be found again by others that are nearly the same."""

    def __init__(self, similarity: float) -> None:
        self._similarity = similarity
        self._rows = _rows(similarity)
        self._bands: dict[tuple[int, bytes], list[int]] = {}
        self._sets: list[tuple[str, Hashable, array[int]]] = []

    def add(self, name: str, shingled: frozenset[int], group: Hashable = None) -> None:
        """Remember a set under a name."""
        for band in self._bands_of(shingled):
            self._bands.setdefault(band, []).append(len(self._sets))
        self._sets.append((name, group, array("Q", shingled)))

    def nearest(self, shingled: frozenset[int], group: Hashable = ...) -> tuple[float, str] | None:
        """The first set of another group that is similar enough, with how similar it is."""
        candidates = {place for band in self._bands_of(shingled) for place in self._bands.get(band, ())}
        for place in sorted(candidates):
            name, its_group, other = self._sets[place]
            if its_group == group or min(len(other), len(shingled)) < self._similarity * max(len(other), len(shingled)):
                continue
            share = jaccard(shingled, frozenset(other), self._similarity)
            if share >= self._similarity:
                return share, name
        return None

    def _bands_of(self, shingled: frozenset[int]) -> Iterator[tuple[int, bytes]]:
        signature = array("Q", sign(shingled))
        for start in range(0, BINS - self._rows + 1, self._rows):
            yield start, signature[start : start + self._rows].tobytes()


def sign(shingled: frozenset[int]) -> list[int]:
    """The MinHash signature of a set: of each bin the smallest member, of an empty bin that of the next full one."""
    bins = [_EMPTY] * BINS
    for shingle in shingled:
        place, value = shingle % BINS, shingle // BINS
        if value < bins[place]:
            bins[place] = value
    if not shingled:
        return bins
    filled = list(bins)
    for place in range(BINS):
        if bins[place] == _EMPTY:
            steps = next(step for step in range(1, BINS) if bins[(place + step) % BINS] != _EMPTY)
            # Told apart from the bin that it was borrowed from, so that neighbours do not agree by borrowing alone.
            filled[place] = (bins[(place + steps) % BINS] + steps * 0x9E3779B97F4A7C15) & _EMPTY
    return filled


def jaccard(one: frozenset[int], other: frozenset[int], least: float = 0.0) -> float:
    """Common members by all members; 1 for two empty sets. Not worked out (0) where sizes alone keep it below."""
    if not one and not other:
        return 1.0
    if min(len(one), len(other)) < least * max(len(one), len(other)):
        return 0.0
    common = len(one & other)
    return common / (len(one) + len(other) - common)


def _rows(similarity: float) -> int:
    """The most rows of a band with which a pair this similar is still missed less often than `MOST_MISSED`."""
    fit = [rows for rows in range(1, 17) if (1 - similarity**rows) ** (BINS // rows) <= MOST_MISSED]
    return max(fit, default=1)


def _common(one: Trace, other: Trace) -> int:
    """How many messages two trajectories begin with in common."""
    for place, (mine, its) in enumerate(zip(one.digests, other.digests, strict=False)):
        if mine != its:
            return place
    return min(len(one.digests), len(other.digests))


def _told(message: Message) -> list[str]:
    """The words of a message, with who says it and what it calls; ids of calls are left out."""
    calls = [part for call in message.tool_calls for part in (call.name, call.arguments)]
    return [f"{message.role}:", *words(" ".join(filter(None, (message.reasoning, message.content, *calls))))]


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0
