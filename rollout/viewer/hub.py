"""Events for all open pages: each change is published once, and every listener receives it.

A listener that falls behind by `MOST_WAITING` events loses the oldest ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec

MOST_WAITING = 256


class Event(msgspec.Struct, frozen=True):
    """A change of an object."""

    kind: str
    """`run`, `index`, `marks`, `growth` or `play`."""
    run: str
    """The short name of the run."""
    data: Any
    """The changed object."""


class Listener:
    """Waits for events."""

    def __init__(self, run: str | None) -> None:
        self.run = run
        """None: all runs."""
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(MOST_WAITING)

    def put(self, event: Event, *, always: bool = False) -> None:
        """Deliver an event. `always`: whichever run it belongs to."""
        if self.run is not None and event.run != self.run and not always:
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
        """The number of listeners."""
        return len(self._listeners)

    @property
    def hears_all(self) -> bool:
        """Whether anybody listens to all runs, as the list of runs does."""
        return any(listener.run is None for listener in self._listeners)

    @contextlib.contextmanager
    def listening(self, run: str | None = None) -> Iterator[Listener]:
        """Listen to one run or to all."""
        self._loop = asyncio.get_running_loop()
        listener = Listener(run)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    @property
    def is_closed(self) -> bool:
        """Whether the server is stopping, so that listeners must end."""
        return self._closed.is_set()

    def close(self) -> None:
        """End all listening."""
        self._closed.set()
        for listener in self._listeners:
            listener.put(Event("end", "", None), always=True)

    def publish(self, event: Event) -> None:
        """Deliver an event to all listeners."""
        if self._loop is None or self._loop.is_closed():
            return
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            self._loop.call_soon_threadsafe(self._hand_out, event)

    def _hand_out(self, event: Event) -> None:
        for listener in self._listeners:
            listener.put(event)
