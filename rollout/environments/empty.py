"""Worlds without anything in them: for the modes `no_tool` and `wrong_tool` and for plain chat, and in place of a world
that could not be made."""

from __future__ import annotations

from collections.abc import Sequence

from rollout.core.errors import RolloutError, WorldError, describe_error
from rollout.core.messages import ToolResult, Toolset
from rollout.core.results import failed_result
from rollout.core.task import Task
from rollout.core.world import Invocation, Opening, Snapshot, World


class EmptyWorld(World):
    """Offers tools without a server (or none) and answers every call with an error."""

    def __init__(self, toolset: Toolset) -> None:
        self._toolset = toolset

    async def open(self, task: Task, seed: int) -> Opening:
        return Opening(self._toolset)

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        return [failed_result(call.call_id, "tool", f"{call.name} is not available") for call in calls]

    async def snapshot(self) -> Snapshot | None:
        return Snapshot(b"", await self.state_key())

    async def restore(self, snapshot: Snapshot) -> None:
        """There is no state."""

    async def state_key(self) -> str:
        return "empty"

    async def close(self) -> None:
        """Nothing is held."""


class UnmadeWorld(World):
    """Stands for a world that could not be made. Opening it raises the reason, as a world of a class does whose
    constructor raises: so it fails one attempt, and is recorded."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def open(self, task: Task, seed: int) -> Opening:
        if isinstance(self._error, RolloutError):
            raise self._error
        raise WorldError(f"the world cannot be made: {describe_error(self._error)}") from self._error
