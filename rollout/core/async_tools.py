"""Asynchronous tool code on the event loop, where it can neither end a conversation nor block others unnoticed.

Each call runs in a task of its own. Whatever its code raises comes back as a `ToolFault`, `CancelledError` and
`SystemExit` included, so only a cancellation of the caller is one; a call that is late is cancelled, and one that
ignores that is left behind after a moment. Code that blocks the loop (`time.sleep`, a synchronous client) holds up
every conversation: it is named in a warning, once for each tool, while it blocks or when it is done.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Generator
from typing import Any

from rollout.core.threads import ToolFault

log = logging.getLogger(__name__)
BLOCKED_SECONDS = 0.5
"""A tool that keeps the loop for longer than this without awaiting anything is named."""
GIVE_UP_SECONDS = 1.0
"""How long a call may take to end once it is cancelled."""

_steps: dict[int, tuple[str, float]] = {}
"""For each thread with a loop, the tool whose code is running there now and since when."""
_named: set[str] = set()
_left_behind: set[asyncio.Task[Any]] = set()
_watcher: threading.Thread | None = None


def is_cancelled() -> bool:
    """Whether the running task was asked to end. A `CancelledError` without that was raised by foreign code."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def is_cancellation(error: BaseException) -> bool:
    """Whether an error is the running task's own cancellation, which has to go on."""
    return isinstance(error, asyncio.CancelledError) and is_cancelled()


async def run_async(name: str, call: Awaitable[Any], seconds: float) -> Any:
    """The value of a tool's coroutine. Raises `ToolFault` for what it raises and TimeoutError where it takes too
    long."""
    _start_watching()
    task = asyncio.get_running_loop().create_task(_guarded(name, call))
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        await _give_up(name, task)
        raise
    if not done:
        await _give_up(name, task)
        raise TimeoutError
    # A tool may cancel the task that it runs in and return all the same.
    value = ToolFault(asyncio.CancelledError()) if task.cancelled() else task.result()
    if isinstance(value, ToolFault):
        raise value
    return value


async def _guarded(name: str, call: Awaitable[Any]) -> Any:
    try:
        return await _Watched(name, call)
    except BaseException as error:  # noqa: BLE001 - foreign code may raise anything, and none of it is ours
        return ToolFault(error)


async def _give_up(name: str, task: asyncio.Task[Any]) -> None:
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=GIVE_UP_SECONDS)
    if not done:
        log.warning("tool %s goes on although it was cancelled; it is left behind", name)
        _left_behind.add(task)
        task.add_done_callback(_left_behind.discard)


class _Watched:
    """An awaitable whose every step, from one await to the next, is timed."""

    def __init__(self, name: str, call: Awaitable[Any]) -> None:
        self._name = name
        self._call = call

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._call.__await__()
        thread = threading.get_ident()
        error: BaseException | None = None
        while True:
            began = time.monotonic()
            _steps[thread] = (self._name, began)
            try:
                waits_for = next(steps) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            finally:
                _steps.pop(thread, None)
                if time.monotonic() - began > BLOCKED_SECONDS:
                    _tell(self._name, time.monotonic() - began)
            error = None
            try:
                yield waits_for
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as thrown:  # noqa: BLE001 - handed on to the tool's own code
                error = thrown


def _tell(name: str, seconds: float) -> None:
    if name in _named:
        return
    _named.add(name)
    log.warning(
        "tool %s blocks the event loop: for %.1f s no conversation could go on. It is async but waits without await "
        "(time.sleep, a synchronous client). Make it a plain function, which runs in a thread, or use "
        "asyncio.to_thread",
        name,
        seconds,
    )


def _start_watching() -> None:
    """One thread looks at all loops of the process: a tool that never lets go could not be named otherwise."""
    global _watcher
    if _watcher is None:
        _watcher = threading.Thread(target=_watch, name="rollout-loop-watch", daemon=True)
        _watcher.start()


def _watch() -> None:
    while True:
        time.sleep(BLOCKED_SECONDS)
        for name, began in list(_steps.values()):
            if time.monotonic() - began > BLOCKED_SECONDS:
                _tell(name, time.monotonic() - began)
