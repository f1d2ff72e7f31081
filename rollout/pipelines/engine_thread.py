"""A thread with an event loop of its own, for programs that have no loop or whose loop must not be stalled."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from rollout.engine.engine import Engine

T = TypeVar("T")
POLL_SECONDS = 0.1
"""How often a waiting thread looks whether it was interrupted."""


class EngineThread:
    """A thread with an event loop for an engine. Leaving it waits for its end."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._done: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._thread is not None:
            self._thread.join()

    def watch(self, engine: Engine) -> None:
        """Called in the thread: this is what an interrupt pauses."""
        self._loop, self._engine = asyncio.get_running_loop(), engine

    def start(self, main: Callable[[], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        """Begin to run a coroutine in the thread."""

        def live() -> None:
            try:
                with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                    self._done.set_result(runner.run(main()))
            except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
                self._done.set_exception(error)

        self._thread = threading.Thread(target=live, name="rollout", daemon=True)
        self._thread.start()
        return self._done

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine to its end. Ctrl-C pauses the engine; a second one cuts it."""
        done = self.start(main)
        interrupts = 0
        while not done.done():
            try:
                concurrent.futures.wait([done], POLL_SECONDS)
            except KeyboardInterrupt:
                interrupts += 1
                self.pause("SIGINT", is_cut=interrupts > 1)
        if interrupts:
            raise KeyboardInterrupt
        return done.result()

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


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
