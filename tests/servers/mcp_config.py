"""Config entries and worlds for tests of MCP servers."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from rollout.config.servers import McpServer
from rollout.core.messages import ToolResult
from rollout.core.task import Task
from rollout.core.world import Invocation
from rollout.environments.mcp.servers import McpServers, load_servers
from rollout.environments.mcp.world import McpWorld

RAW = Path(__file__).with_name("raw_mcp.py")


def raw_entry(*options: str, **keys: Any) -> dict[str, Any]:
    """A server that is written by hand, as a config has it."""
    return {"command": sys.executable, "args": [str(RAW), *options], **keys}


def load(**servers: dict[str, Any]) -> McpServers:
    """The servers of a dataset called `d`."""
    return load_servers("d", {name: McpServer.model_validate(entry) for name, entry in servers.items()})


@contextlib.asynccontextmanager
async def opened(
    servers: McpServers, *, task: str = "t", seed: int = 1, timeout: float = 30.0
) -> AsyncIterator[McpWorld]:
    """A world of these servers, closed at the end; the servers stay."""
    world = McpWorld(servers, timeout)
    try:
        await world.open(Task(id=task), seed)
        yield world
    finally:
        await world.close()


@contextlib.asynccontextmanager
async def opened_raw(*options: str, timeout: float = 30.0, **keys: Any) -> AsyncIterator[McpWorld]:
    """A world of one server that is written by hand."""
    servers = load(raw=raw_entry(*options, **keys))
    try:
        async with opened(servers, timeout=timeout) as world:
            yield world
    finally:
        await servers.close()


async def ask(world: McpWorld, name: str, **arguments: Any) -> ToolResult:
    """The result of one call."""
    (result,) = await world.call([Invocation("c", name, arguments)])
    assert result.call_id == "c"
    return result


def error_of(result: ToolResult) -> str:
    """What an error observation says."""
    assert result.is_error
    return str(json.loads(result.content)["error"])
