"""Records by which trajectories are compared: a small one that stays in memory, and a large one that is stored."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import msgspec


class Trace(msgspec.Struct, frozen=True, array_like=True):
    """What an exact comparison needs of a trajectory."""

    shingles: bytes
    """The shingles of its messages in their order, packed."""
    starts: tuple[int, ...]
    """Where those of each message begin."""
    digests: tuple[bytes, ...]
    """Equal where messages are equal."""
    opening: int
    inherited: int
    """Messages that it shares with the attempt that it branched from; at least the opening."""

    def since(self, place: int) -> frozenset[int]:
        """Its shingles from a message on."""
        if place >= len(self.starts):
            return frozenset()
        return frozenset(array("q", self.shingles[array("q").itemsize * self.starts[place] :]))


class Sketch(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a trajectory until all are there."""

    key: tuple[str, str, int, str]
    """Dataset, group, attempt, id."""
    size: int
    """Shingles of the whole; 0 where only attempts at one task are compared."""
    bands: bytes
    """The packed hashes of its bands; empty where only attempts at one task are compared."""

    @property
    def group(self) -> tuple[str, str]:
        return self.key[:2]


LoadTrace = Callable[[int], Trace]
"""Loads the trace of the trajectory whose sketch is at a place."""
