"""What our world adds to the SDK's own client, over stdio and over streamable HTTP, and what an episode costs.

Both call the same servers, which are other processes: the SDK's low-level server over stdio, and `rollout
serve-domain`. One session each, with 1 and 64 calls under way; CPU is this process's alone.

    python -m benchmarks.mcp_calls
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop
from mcp import Client, StdioServerParameters

from rollout.config.servers import McpServer
from rollout.core.task import Task
from rollout.core.world import Invocation
from rollout.environments.mcp.servers import load_servers
from rollout.environments.mcp.world import McpWorld

ROOT = Path(__file__).parents[1]
CALLS = 3000
EPISODES = 10
Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


ECHO = ["-m", "benchmarks.mcp_echo"]
ENVIRONMENT = {"PYTHONPATH": str(ROOT)}


@asynccontextmanager
async def bare_stdio() -> AsyncIterator[Call]:
    parameters = StdioServerParameters(command=sys.executable, args=ECHO, env=ENVIRONMENT)
    async with Client(parameters, mode="legacy", cache=None) as client:
        yield client.call_tool


@asynccontextmanager
async def bare_http(url: str) -> AsyncIterator[Call]:
    async with Client(url, mode="legacy", cache=None) as client:
        yield client.call_tool


@asynccontextmanager
async def ours(**entry: Any) -> AsyncIterator[Call]:
    servers = await asyncio.to_thread(load_servers, "d", {"s": McpServer.model_validate({"stateless": True, **entry})})
    world = McpWorld(servers, 60.0)
    await world.open(Task(id="t"), 0)
    try:

        async def call(name: str, arguments: dict[str, Any]) -> Any:
            return await world.call([Invocation("c", name, arguments)])

        yield call
    finally:
        await world.close()
        await servers.close()


async def measure(name: str, call: Call, tool: str, arguments: dict[str, Any]) -> None:
    """Print a row."""
    cells = []
    for live in (1, 64):
        await asyncio.gather(*(call(tool, arguments) for _ in range(live)))
        left = CALLS

        async def work() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await call(tool, arguments)

        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(work() for _ in range(live)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        cells.append(f"{CALLS / wall:>12,.0f}{1000 * cpu / CALLS:>10.2f}")
    print(f"{name:<28}{''.join(cells)}", flush=True)


async def measure_episodes(**entry: Any) -> None:
    """What an episode with its own instance costs: start, one call, end."""
    servers = await asyncio.to_thread(load_servers, "d", {"s": McpServer.model_validate(entry)})
    wall, cpu = time.perf_counter(), time.process_time()
    for number in range(EPISODES):
        world = McpWorld(servers, 60.0)
        await world.open(Task(id=str(number)), 0)
        await world.call([Invocation("c", "echo", {"text": "x"})])
        await world.close()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(
        f"an episode of one call over stdio: {1000 * wall / EPISODES:.0f} ms, {1000 * cpu / EPISODES:.0f} of CPU here"
    )


async def main() -> None:
    print(f"{'':<28}{'1 live: /s':>12}{'CPU ms':>10}{'64 live: /s':>12}{'CPU ms':>10}")
    async with AsyncExitStack() as stack:
        await measure("bare SDK, stdio", await stack.enter_async_context(bare_stdio()), "echo", {"text": "x"})
    entry = {"command": sys.executable, "args": ECHO, "env": ENVIRONMENT}
    async with ours(**entry) as call:
        await measure("our world, stdio", call, "echo", {"text": "x"})
    command = [
        sys.executable,
        "-c",
        "from rollout.cli import main; main()",
        "serve-domain",
        "StudentAcademicPortal",
        "--http",
        "--port",
        "0",
    ]
    environment = {**os.environ, **ENVIRONMENT}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:  # noqa: ASYNC220
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        try:
            async with bare_http(url) as call:
                await measure("bare SDK, HTTP", call, "get_profile", {})
            async with ours(url=url) as call:
                await measure("our world, HTTP", call, "get_profile", {})
        finally:
            process.kill()
    await measure_episodes(**entry)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
