"""Tool code on threads: nothing it does reaches the loop, and nothing it holds holds us."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rollout.core.threads import LIMIT, ToolFault, ToolThreads


async def test_value_comes_back_and_the_thread_is_used_again() -> None:
    threads = ToolThreads()
    names = {await threads.run(lambda: threading.current_thread().ident, 5) for _ in range(5)}
    assert len(names) == 1


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, StopIteration, BaseException, asyncio.CancelledError])
async def test_whatever_a_tool_raises_is_a_fault_of_the_tool(kind: type[BaseException]) -> None:
    def raise_it() -> Any:
        raise kind("from the tool")

    with pytest.raises(ToolFault, match=f"{kind.__name__}: from the tool"):
        await ToolThreads().run(raise_it, 5)


async def test_hung_calls_leave_room_for_others() -> None:
    threads, release = ToolThreads(), threading.Event()
    async with asyncio.TaskGroup() as group:
        hung = [group.create_task(_late(threads, release)) for _ in range(LIMIT * 2)]
    assert all(task.result() for task in hung)
    assert await threads.run(lambda: "healthy", 5) == "healthy"
    release.set()


async def _late(threads: ToolThreads, release: threading.Event) -> bool:
    try:
        await threads.run(release.wait, 0.01)
    except TimeoutError:
        return True
    return False


def test_hung_tool_does_not_keep_the_process_alive() -> None:
    code = """
import asyncio, threading
from rollout.core.threads import ToolThreads
async def main():
    try: await ToolThreads().run(threading.Event().wait, 0.05)
    except TimeoutError: print("given up")
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout == "given up\n"


async def test_a_call_that_is_cancelled_as_it_answers_leaves_its_thread_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, loop = ToolThreads(), asyncio.get_running_loop()
    from_thread, used = loop.call_soon_threadsafe, []

    def deliver_and_cancel(deliver: Callable[..., object], *answer: object) -> asyncio.Handle:
        return from_thread(lambda: (deliver(*answer), call.cancel()))

    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_soon_threadsafe", deliver_and_cancel)
        call = asyncio.create_task(threads.run(lambda: used.append(threading.current_thread()), 5))
        with pytest.raises(asyncio.CancelledError):
            await call
    assert [await threads.run(threading.current_thread, 5)] == used
