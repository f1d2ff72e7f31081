"""Near-duplicates: trajectories that say and do nearly the same as another one.

A message is taken as the set of its word n-grams (shingles), a trajectory as the union over its messages; two are as
similar as the Jaccard index of their sets. Of several that are alike the first stays, in the order of dataset, group,
attempt and id, whatever the order they are read in.

Attempts at one task begin alike, so they are compared without the task's opening; leaves of one tree also without what
they share by having branched, which is no evidence of anything.

Not all pairs are compared. A trajectory's `Sketch` holds hashes of bands of its MinHash signature (`minhash`), and only
trajectories that share one of them are candidates. Each candidate is then compared exactly, so no two are called alike
by chance. Of a large group the same is done within the group; up to `ALL_PAIRS` attempts are compared one by one, which
misses nothing. Sketches stay in memory, a few hundred bytes each. Shingles are loaded when they are needed: those of
one group at a time, and of candidates.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from pydantic import Field

from rollout.core.messages import Message
from rollout.trajectories.filters.filter import ComparingFilter
from rollout.trajectories.filters.marks import Found
from rollout.trajectories.filters.minhash import band_hashes, band_rows, jaccard, shared_hashes
from rollout.trajectories.filters.texts import shingles, words
from rollout.trajectories.filters.traces import LoadTrace, Sketch, Trace
from rollout.trajectories.line import BranchPoint
from rollout.trajectories.trajectory import Trajectory, spoken_words

ALL_PAIRS = 32
"""Groups of up to this many attempts are compared pair by pair."""
OPENINGS_AT_HAND = 256
"""Messages of openings whose shingles are kept."""
AT_HAND = 64
"""Trajectories whose shingles are kept loaded, of a group and of all others."""


class NearDuplicates(ComparingFilter):
    """Trajectories that are nearly another one, of the same task or of the same run."""

    similarity: float = Field(0.9, ge=0.5, le=1)
    """From this Jaccard index of their shingles."""
    words: int = Field(5, ge=1)
    """Words of a shingle."""
    across_tasks: bool = True
    """Also compare trajectories of different tasks."""

    def trace(self, trajectory: Trajectory, digests: Sequence[bytes]) -> tuple[Sketch, Trace]:
        branch = trajectory.branch or BranchPoint()
        messages, opening = trajectory.messages, trajectory.opening
        inherited = min(max(branch.shared_messages, opening), len(messages))
        found: list[int] = []
        starts: list[int] = []
        for place, message in enumerate(messages):
            starts.append(len(found))
            if place < opening:
                found += _opening_shingles(message, self.words)
            else:
                is_answer = message.role == "assistant"
                spoken = trajectory.spoken(place) if is_answer else spoken_words(message)
                found += _shingles(message, spoken, self.words)
        trace = Trace(array("q", found).tobytes(), tuple(starts), tuple(digests), min(opening, inherited), inherited)
        key = (trajectory.dataset, trajectory.group, branch.number, trajectory.id)
        if not self.across_tasks:
            return Sketch(key, 0, b""), trace
        whole = set(found)
        return Sketch(key, len(whole), band_hashes(whole, band_rows(self.similarity)).tobytes()), trace

    def compare(self, sketches: Sequence[Sketch], load: LoadTrace) -> Iterator[tuple[int, Found]]:
        order = _in_order(sketches, load)
        others = _Others(self.similarity, [sketches[place] for place in order] if self.across_tasks else [])
        ranks = iter(range(len(order)))
        whole = functools.lru_cache(AT_HAND)(lambda rank: load(order[rank]).since(0))
        for _, group in groupby(order, key=lambda place: sketches[place].group):
            members = list(group)
            fellows = _fellows(self.similarity, members, load)
            for place, rank in zip(members, ranks, strict=False):
                alike = fellows.alike(place)
                if alike is None and self.across_tasks:
                    found = others.alike(rank, whole)
                    alike = None if found is None else (found[0], order[found[1]])
                if alike is None:
                    fellows.keep(place)
                    others.keep(rank)
                else:
                    share, other = alike
                    yield (
                        place,
                        Found(
                            f"nearly the same as {sketches[other].key[3]}", f"{share:.1%} of their shingles in common"
                        ),
                    )


class _Others:
    """Trajectories of other groups, in their order; only those that share a band with another group are looked at."""

    def __init__(self, similarity: float, sketches: Sequence[Sketch]) -> None:
        self._similarity = similarity
        self._sketches = sketches
        groups: dict[tuple[str, str], int] = {}
        owners = array("Q", (groups.setdefault(sketch.group, len(groups)) for sketch in sketches))
        self._kept: dict[int, list[int]] = {
            band: [] for band in shared_hashes([sketch.bands for sketch in sketches], owners)
        }

    def alike(self, rank: int, shingled: Callable[[int], frozenset[int]]) -> tuple[float, int] | None:
        """The first that was kept and is similar enough, with how similar it is."""
        candidates = {other for band in self._bands(rank) for other in self._kept[band]}
        mine = self._sketches[rank] if candidates else None
        for other in sorted(candidates):
            its = self._sketches[other]
            if mine is None or its.group == mine.group or not _may_fit(its.size, mine.size, self._similarity):
                continue
            share = jaccard(shingled(rank), shingled(other), self._similarity)
            if share >= self._similarity:
                return share, other
        return None

    def keep(self, rank: int) -> None:
        for band in self._bands(rank):
            self._kept[band].append(rank)

    def _bands(self, rank: int) -> list[int]:
        if not self._kept:
            return []
        return [band for band in array("Q", self._sketches[rank].bands) if band in self._kept]


class _Pairs:
    """The attempts of a group of usual size, each compared with all that were kept before it."""

    def __init__(self, similarity: float, load: LoadTrace) -> None:
        self._similarity = similarity
        self._read = load
        self._traces: dict[int, Trace] = {}
        self._sets: dict[tuple[int, int], frozenset[int]] = {}
        self._kept: list[int] = []

    def alike(self, place: int) -> tuple[float, int] | None:
        for other in self._candidates(place):
            start = _start(self._load(place), self._load(other))
            share = jaccard(self._since(place, start), self._since(other, start), self._similarity)
            if share >= self._similarity:
                return share, other
        return None

    def keep(self, place: int) -> None:
        self._kept.append(place)

    def _candidates(self, place: int) -> Sequence[int]:
        return self._kept

    def _load(self, place: int) -> Trace:
        if place not in self._traces:
            if len(self._traces) >= AT_HAND:
                self._traces.clear()
            self._traces[place] = self._read(place)
        return self._traces[place]

    def _since(self, place: int, start: int) -> frozenset[int]:
        if (place, start) not in self._sets:
            if len(self._sets) >= AT_HAND:
                self._sets.clear()
            self._sets[place, start] = self._load(place).since(start)
        return self._sets[place, start]


class _Crowd(_Pairs):
    """The attempts of a large group, each compared with those that share a band with it.

    Where two are compared from depends on the pair, but it is never behind the last message that anybody inherited. So
    there is a signature from each message up to that one.
    """

    def __init__(self, similarity: float, members: Sequence[int], load: LoadTrace) -> None:
        super().__init__(similarity, load)
        last = max(load(place).inherited for place in members)
        rows = band_rows(similarity)
        self._bands = {place: _bands_since(load(place), last, rows) for place in members}
        self._rank = {place: rank for rank, place in enumerate(members)}
        shared = shared_hashes(list(self._bands.values()), array("Q", range(len(members))))
        self._by_band: dict[int, list[int]] = {band: [] for band in shared}

    def keep(self, place: int) -> None:
        for band in array("Q", self._bands[place]):
            if band in self._by_band:
                self._by_band[band].append(place)

    def _candidates(self, place: int) -> Sequence[int]:
        bands = array("Q", self._bands[place])
        found = {other for band in bands for other in self._by_band.get(band, ())}
        return sorted(found, key=self._rank.__getitem__)


def _fellows(similarity: float, members: Sequence[int], load: LoadTrace) -> _Pairs:
    if len(members) <= ALL_PAIRS:
        return _Pairs(similarity, load)
    return _Crowd(similarity, members, load)


def _bands_since(trace: Trace, last: int, rows: int) -> bytes:
    """The hashes of the bands of its signatures from each message up to the last."""
    return b"".join(
        array("Q", (hash((start, band)) & _WORD for band in band_hashes(trace.since(start), rows))).tobytes()
        for start in range(last + 1)
    )


def _in_order(sketches: Sequence[Sketch], load: LoadTrace) -> list[int]:
    """The places, by key; where two have the same, by what they hold."""
    order = sorted(range(len(sketches)), key=lambda place: sketches[place].key)
    found: list[int] = []
    for _, equal in groupby(order, key=lambda place: sketches[place].key):
        places = list(equal)
        found += places if len(places) == 1 else sorted(places, key=lambda place: load(place).digests)
    return found


def _start(one: Trace, other: Trace) -> int:
    """The message from which two attempts at one task are compared."""
    latest = max(one.inherited, other.inherited)
    for place, (mine, its) in enumerate(zip(one.digests, other.digests, strict=False)):
        if mine != its or place == latest:
            return place
    return min(latest, len(one.digests), len(other.digests))


def _may_fit(one: int, other: int, similarity: float) -> bool:
    return min(one, other) >= similarity * max(one, other)


def _shingles(message: Message, spoken: Sequence[str], n: int) -> list[int]:
    """The shingles of a message: of its words, with who says it and what it calls; ids of calls are left out."""
    told = [f"{message.role}:", *spoken]
    for call in message.tool_calls:
        told += words(f"{call.name} {call.arguments}")
    return shingles(told, n)


@functools.lru_cache(OPENINGS_AT_HAND)
def _opening_shingles(message: Message, n: int) -> list[int]:
    """The same, kept for a while: attempts at one task have the same opening."""
    return _shingles(message, spoken_words(message), n)


_WORD = (1 << 64) - 1
