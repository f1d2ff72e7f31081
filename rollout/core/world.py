"""The contract of a world: tools with state, owned by one episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from rollout.core.messages import JSON, Image, Message, ToolResult, Toolset
from rollout.core.task import Task


class Invocation(msgspec.Struct, frozen=True):
    """A tool call that was read and checked: the tool is offered and the arguments fit its schema."""

    call_id: str
    name: str
    arguments: JSON


class Opening(msgspec.Struct, frozen=True):
    """How a world begins."""

    tools: Toolset
    """What may be called. An agent is offered all of it, or what a suite offers of it in a turn."""
    observation: Message | None = None
    """What the agent sees before it acts (a start page); None where the task's first message is all there is."""
    images: tuple[Image, ...] = ()
    """The images that the observation names."""
    data: JSON | None = None
    """The facts of the observation, for programs: see `ToolResult.data`."""


class Snapshot(msgspec.Struct, frozen=True):
    """A world's state by value. Opaque to everyone but the world that made it; safe to keep on disk."""

    data: bytes
    state_key: str


class World(Protocol):
    """Where an episode acts. One instance belongs to one episode and shares no state with any other.

    A new implementation keeps this: `call` answers every invocation, in the order asked, under its own call id; what a
    tool does wrong (an exception, a time-out) is an error result, not a raise; `WorldError` is for a world that cannot
    go on. Given the same task, seed and calls it answers the same, or `snapshot` and replay mean nothing: clock, uuids
    and randomness come from the seed. `close` works at any time, also after a failed `open` and twice.
    """

    async def open(self, task: Task, seed: int) -> Opening:
        """Make the world ready for a task."""
        ...

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        """Run the calls of one message: together where the world allows it, answered in the order asked."""
        ...

    async def snapshot(self) -> Snapshot | None:
        """The state now; None where this world can only be replayed."""
        ...

    async def restore(self, snapshot: Snapshot) -> None:
        """Become the state of a snapshot made by a world of the same kind and task."""
        ...

    async def state_key(self) -> str:
        """A stable hash of the state: equal states, equal keys, in every process."""
        ...

    async def close(self) -> None:
        """Release everything."""
        ...


Row = dict[str, Any]


class TableChange(msgspec.Struct, frozen=True):
    """The rows of one table that are not as they were. An updated row is removed as it was and added as it is."""

    added: tuple[Row, ...] = ()
    removed: tuple[Row, ...] = ()


Changes = dict[str, TableChange]
"""What differs from a world's beginning, by table. A table that is as it was is not in it."""


class HasChanges(Protocol):
    """A world whose state is tables of rows, so that a scorer can say which rows differ."""

    async def changes(self) -> Changes:
        """What the calls so far have changed. The caller does not change it."""
        ...


WorldFactory = Callable[[], World]
