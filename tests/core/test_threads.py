"""Tool code on threads: nothing it does reaches the loop, and nothing it holds holds us."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
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
