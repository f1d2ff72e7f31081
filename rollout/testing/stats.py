"""Counts of a stub server, so that a test can ask whether anything was paid for twice.

Every request ends in exactly one way, hence always

    requests == in_flight + completed + failed + rejected + abandoned

`distinct` and `repeats` look at bodies: a client that resumes without paying twice leaves `repeats` at 0 when all its
requests differ. Only answers that a client can use count as given; one that a fault broke is expected to be asked for
again.
"""

from __future__ import annotations

import msgspec


class Stats(msgspec.Struct):
    """Counts since the start or the last reset, as GET /stats gives them."""

    requests: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    completed: int = 0
    """Answered 200 with a usable answer."""
    failed: int = 0
    """Ended by a fault: an error, a broken answer, a broken connection, or no room under `capacity`."""
    rejected: int = 0
    """Refused as no chat request, or for a wrong key."""
    abandoned: int = 0
    """The client left before its answer."""
    distinct: int = 0
    """Different bodies among the completed."""
    repeats: int = 0
    """Completed requests whose body had been answered before."""
    faults: dict[str, int] = {}
    """How often each kind struck; `capacity` counts the 429s for lack of room."""
    by_model: dict[str, int] = {}


class ServerTally:
    """Keeps the stats and remembers which bodies were answered."""

    def __init__(self) -> None:
        self.stats = Stats()
        self._answered: set[bytes] = set()

    def reset(self) -> None:
        """Start from zero; requests under way stay under way."""
        under_way = self.stats.in_flight
        self.stats = Stats(requests=under_way, in_flight=under_way, max_in_flight=under_way)
        self._answered.clear()

    def reject(self) -> None:
        self.stats.requests += 1
        self.stats.rejected += 1

    def begin(self, model: str) -> None:
        stats = self.stats
        stats.requests += 1
        stats.in_flight += 1
        if stats.in_flight > stats.max_in_flight:
            stats.max_in_flight = stats.in_flight
        stats.by_model[model] = stats.by_model.get(model, 0) + 1

    def note_fault(self, kind: str) -> None:
        self.stats.faults[kind] = self.stats.faults.get(kind, 0) + 1

    def complete(self, digest: bytes) -> None:
        stats = self.stats
        stats.in_flight -= 1
        stats.completed += 1
        if digest in self._answered:
            stats.repeats += 1
        else:
            self._answered.add(digest)
            stats.distinct += 1

    def fail(self) -> None:
        self.stats.in_flight -= 1
        self.stats.failed += 1

    def abandon(self) -> None:
        self.stats.in_flight -= 1
        self.stats.abandoned += 1
