"""A worker's gates: a model's limits are the cluster's, so before a request the driver is asked.

Models without limits have a gate of the worker's own, which only backs off where a server says that it has too much to
do.
"""

from __future__ import annotations

import asyncio
import itertools

from rollout.config.models import ModelEntry
from rollout.distributed.sending import Sending
from rollout.distributed.wire import Ask, Leave
from rollout.models.limits import Gate, Limiter


class Gates:
    """Makes the gates of a worker and hears the driver's answers for them."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending
        self._tickets = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def make(self, name: str, entry: ModelEntry) -> Gate:
        """The gate of a model."""
        if not has_limits(entry):
            return Limiter()
        return FarGate(self, name, entry.tpm is not None)

    def admit(self, ticket: int) -> None:
        """The driver lets a request begin."""
        turn = self._waiting.pop(ticket, None)
        if turn is not None and not turn.done():
            turn.set_result(None)

    async def wait(self, name: str, tokens: float) -> int:
        """Wait for a place; returns its ticket."""
        ticket = next(self._tickets)
        turn = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        self._sending.add(Ask(ticket, name, tokens))
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.pop(ticket, None)
            self._sending.add(Leave(ticket, is_answered=False))
            raise
        return ticket

    def leave(self, told: Leave) -> None:
        """Give a place back."""
        self._sending.add(told)


class FarGate:
    """A `Gate` whose places are the driver's."""

    def __init__(self, gates: Gates, name: str, counts_tokens: bool) -> None:
        self._gates = gates
        self._name = name
        self._counts_tokens = counts_tokens
        self._held: list[int] = []

    @property
    def counts_tokens(self) -> bool:
        return self._counts_tokens

    async def enter(self, tokens: float = 0.0) -> None:
        self._held.append(await self._gates.wait(self._name, tokens))

    def leave(self, *, correction: float = 0.0) -> None:
        self._gates.leave(Leave(self._held.pop(), correction=correction))

    def leave_failed(self, *, is_overload: bool, retry_after: float | None = None) -> None:
        self._gates.leave(Leave(self._held.pop(), is_answered=False, is_overload=is_overload, retry_after=retry_after))


def has_limits(entry: ModelEntry) -> bool:
    """Whether anything limits how much a model is asked."""
    return not (entry.max_concurrency is entry.rpm is entry.tpm is None)
