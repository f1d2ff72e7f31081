"""A world of real MCP servers: one episode's instances of them.

Calls of one message to different servers run together, and so do calls to a stateless server; calls to one server
that keeps state run in the order asked. Such a world has no snapshots: it is brought back by replaying its calls, and
`state_key` is a hash of what was called and answered.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from rollout.core.errors import WorldError, describe_error
from rollout.core.messages import ToolResult
from rollout.core.results import failed_result
from rollout.core.task import Task
from rollout.core.world import Invocation, Opening, Snapshot, World
from rollout.environments.mcp.content import read_result
from rollout.environments.mcp.servers import EpisodePlace, McpServers, remove_place
from rollout.environments.mcp.slot import CallFault, Slot


class McpWorld(World):
    """One episode's instances of a dataset's MCP servers."""

    def __init__(self, servers: McpServers, timeout: float = 60.0) -> None:
        self._servers = servers
        self._timeout = timeout
        self._slots: dict[str, Slot] = {}
        self._place: EpisodePlace | None = None
        self._history = hashlib.blake2b(digest_size=16)

    async def open(self, task: Task, seed: int) -> Opening:
        """Begin to start the servers. The first call waits for them; meanwhile the model reads."""
        self._slots, self._place = await self._servers.lease(task.id, seed)
        return Opening(self._servers.toolset)

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        results: list[ToolResult | None] = [None] * len(calls)
        queues: dict[object, list[int]] = {}
        for index, call in enumerate(calls):
            server = self._servers.routes[call.name].server
            # Those that share a queue run one after the other.
            queues.setdefault(index if self._slots[server].is_shared else server, []).append(index)

        async def run(queue: list[int]) -> None:
            for index in queue:
                results[index] = await self._call(calls[index])

        if len(queues) == 1:
            for queue in queues.values():
                await run(queue)
        else:
            await _together([run(queue) for queue in queues.values()])
        answers = [result for result in results if result is not None]
        assert len(answers) == len(calls)
        for call, answer in zip(calls, answers, strict=True):
            told = (call.name, call.arguments, answer.content, answer.is_error, [image.name for image in answer.images])
            self._history.update(msgspec.json.encode(told, order="sorted"))
        return answers

    async def _call(self, call: Invocation) -> ToolResult:
        route = self._servers.routes[call.name]
        settings = self._servers.settings[route.server]
        try:
            result = await self._slots[route.server].call(route.tool, call.arguments, settings.timeout or self._timeout)
        except CallFault as fault:
            return failed_result(call.call_id, fault.kind, f"{call.name}: {fault}")
        try:
            return read_result(call.call_id, result, settings.max_result_chars)
        except Exception as error:  # noqa: BLE001 - whatever a server sends costs its own call
            why = describe_error(error)
            return failed_result(call.call_id, "crash", f"{call.name}: its answer is not a valid result: {why}")

    async def snapshot(self) -> Snapshot | None:
        return None

    async def restore(self, snapshot: Snapshot) -> None:
        raise WorldError("a world of MCP servers has no snapshots to restore")

    async def state_key(self) -> str:
        return self._history.hexdigest()

    async def close(self) -> None:
        slots, self._slots = self._slots, {}
        place, self._place = self._place, None
        try:
            await _together([slot.close() for slot in slots.values() if not slot.is_shared])
        finally:
            if place is not None:
                await remove_place(place)


async def _together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all of it; where one raises, the others are cancelled and that error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for part in work:
                group.create_task(part)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
