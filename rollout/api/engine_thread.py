"""A thread with an event loop of its own, for programs that have no loop or whose loop must not be stalled."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Self, TypeVar

from rollout.core.event_loop import ending_runner
from rollout.engine.engine import Engine

log = logging.getLogger(__name__)
T = TypeVar("T")
POLL_SECONDS = 0.1
"""How often a waiting thread looks whether it was interrupted."""
SPARE, SOON = 5.0, 2.0
"""Seconds for an interrupted run to end: beyond its grace, and after a second interrupt."""


class EngineThread:
    """A thread with an event loop for an engine. Leaving it waits for its end, within the grace of the run."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._done: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.leave()

    def watch(self, engine: Engine) -> None:
        """Called in the thread: this is what an interrupt pauses."""
        self._loop, self._engine = asyncio.get_running_loop(), engine

    def start(self, main: Callable[[], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        """Begin to run a coroutine in the thread."""

        def live() -> None:
            try:
                with ending_runner(_loop_factory()) as runner:
                    self._done.set_result(runner.run(main()))
            except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
                self._done.set_exception(error)

        self._thread = threading.Thread(target=live, name="rollout", daemon=True)
        self._thread.start()
        return self._done

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine to its end. Ctrl-C pauses the engine; a second one cuts it."""
        done = self.start(main)
        deadline = math.inf
        interrupts = 0
        with _raising_interrupts():
            while not done.done() and time.monotonic() < deadline:
                try:
                    concurrent.futures.wait([done], POLL_SECONDS)
                except KeyboardInterrupt:
                    interrupts += 1
                    self.pause("SIGINT", is_cut=interrupts > 1)
                    deadline = time.monotonic() + (SOON if interrupts > 1 else self._grace + SPARE)
        if interrupts:
            # Where something swallows its cancellation the thread is left behind: nothing that is recorded is lost.
            self._thread = None
            raise KeyboardInterrupt
        return done.result()

    def leave(self) -> None:
        """Wait for the end of a run that is over or was paused, within its grace. A thread is left behind where a model
        or a tool in it swallows its cancellation: nothing that is recorded is lost."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(self._grace + SPARE)
            if thread.is_alive():
                log.warning("the run did not end within %g s; it is left behind", self._grace + SPARE)

    def pause(self, reason: str, *, is_cut: bool = False) -> None:
        """Pause the engine, or cut it. Before there is one, there is nothing to wait for."""
        engine, loop = self._engine, self._loop
        if engine is None or loop is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: it is over
            if is_cut:
                loop.call_soon_threadsafe(engine.cut)
            else:
                loop.call_soon_threadsafe(engine.pause, reason)

    def call(self, function: Callable[[], None]) -> None:
        """Call a function in the thread, and wait for it. Nothing is called before there is an engine, and after the
        end."""
        called: concurrent.futures.Future[None] = concurrent.futures.Future()

        def live() -> None:
            try:
                function()
                called.set_result(None)
            except BaseException as error:  # noqa: BLE001 - raised again by the caller
                called.set_exception(error)

        if self._loop is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: it is over
            self._loop.call_soon_threadsafe(live)
            concurrent.futures.wait([called, self._done], return_when=concurrent.futures.FIRST_COMPLETED)
        if called.done():
            called.result()


@contextlib.contextmanager
def _raising_interrupts() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt here, also in a running event loop, whose own handler only cancels a task."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
