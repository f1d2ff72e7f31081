"""Synchronous code of tools and scorers on threads that cannot hold anybody up.

A call gets a thread of its own for as long as it runs; finished threads are used again. A call that does not come
back in time is given up together with its thread, which is a daemon: it blocks neither other calls nor the end of the
process. Whatever the code raises, `SystemExit` and `StopIteration` included, comes back as a value, so nothing a tool
does can reach the event loop. At most `LIMIT` calls run at once; waiting for a place does not count against a call's
time.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

from rollout.core.errors import class_name, text_of

LIMIT = 64


class ToolFault(Exception):
    """What a tool's code raised, wrapped: the original may be of any kind."""

    def __init__(self, original: BaseException) -> None:
        self.text = text_of(original)
        """What it says, read where the tool runs: a `__str__` may hang, too."""
        super().__init__(f"{class_name(original)}: {self.text}")
        self.original = original


class ToolThreads:
    """The threads of one event loop."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(LIMIT)
        self._idle: list[_Worker] = []

    async def run(self, call: Callable[[], Any], seconds: float | None = None) -> Any:
        """The value of `call()`. Raises `ToolFault` for what it raises and TimeoutError where it takes too long.
        Without `seconds` the caller limits the time, by cancelling this."""
        async with self._places:
            worker = self._idle.pop() if self._idle else _Worker()
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            worker.give(call, answer)
            try:
                async with asyncio.timeout(seconds):
                    value = await answer
            except BaseException:
                if answer.done() and not answer.cancelled():
                    self._idle.append(worker)  # It answered at the very moment.
                else:
                    # The thread may never come back. It ends by itself if it does.
                    worker.retire()
                raise
        self._idle.append(worker)
        if isinstance(value, ToolFault):
            raise value
        return value


class _Worker:
    """One thread, which runs one call at a time."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="rollout-tool", daemon=True).start()

    def give(self, call: Callable[[], Any], answer: asyncio.Future[Any]) -> None:
        context = contextvars.copy_context()
        self._work.put((lambda: context.run(call), answer))

    def retire(self) -> None:
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            call, answer = work
            value = run_guarded(call)
            try:
                answer.get_loop().call_soon_threadsafe(_deliver, answer, value)
            except RuntimeError:
                return  # the loop is closed: nothing waits any more


def run_guarded(call: Callable[[], Any]) -> Any:
    """The value of `call()`, or a `ToolFault` that holds whatever it raised."""
    try:
        return call()
    except BaseException as error:  # noqa: BLE001 - foreign code may raise anything, and none of it is ours
        return ToolFault(error)


def _deliver(answer: asyncio.Future[Any], value: Any) -> None:
    if not answer.done():
        answer.set_result(value)


_threads: dict[asyncio.AbstractEventLoop, ToolThreads] = {}


def tool_threads() -> ToolThreads:
    """The threads of the running loop, shared by all its worlds."""
    loop = asyncio.get_running_loop()
    if loop not in _threads:
        for closed in [known for known in _threads if known.is_closed()]:
            del _threads[closed]
        _threads[loop] = ToolThreads()
    return _threads[loop]
