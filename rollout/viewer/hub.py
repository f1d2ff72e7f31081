"""Events for everybody who looks: whatever happens is published once, and every open page hears it.

A listener that falls behind loses the oldest events of a kind, never the newest: an event holds the whole changed
object, so the newest is all that it needs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec

MOST_WAITING = 256


class Event(msgspec.Struct, frozen=True):
    """Something that changed."""

    kind: str
    """`run`, `index`, `marks`, `growth` or `play`."""
    run: str
    """The short name of its run."""
    data: Any
    """The changed object."""


class Listener:
    """Waits for events."""

    def __init__(self, run: str | None) -> None:
        self._run = run
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(MOST_WAITING)

    def put(self, event: Event, *, always: bool = False) -> None:
        """Hand over an event. `always`: whatever run it is of."""
        if self._run is not None and event.run != self._run and not always:
            return
        if self._waiting.full():
            self._waiting.get_nowait()
        self._waiting.put_nowait(event)

    async def next(self) -> Event:
        """The next event."""
        return await self._waiting.get()


class Hub:
    """Hands events to listeners. `publish` may be called from any thread."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = asyncio.Event()

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    @contextlib.contextmanager
    def listening(self, run: str | None = None) -> Iterator[Listener]:
        """Listen, to one run or to all."""
        self._loop = asyncio.get_running_loop()
        listener = Listener(run)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    @property
    def is_closed(self) -> bool:
        """Whether the server is about to end, so that no listener waits any longer."""
        return self._closed.is_set()

    def close(self) -> None:
        """End all listening."""
        self._closed.set()
        for listener in self._listeners:
            listener.put(Event("end", "", None), always=True)

    def publish(self, event: Event) -> None:
        """Hand an event to everybody who listens."""
        if self._loop is None or self._loop.is_closed():
            return
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            self._loop.call_soon_threadsafe(self._hand_out, event)

    def _hand_out(self, event: Event) -> None:
        for listener in self._listeners:
            listener.put(event)
