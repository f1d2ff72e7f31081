"""Plain Python functions as tools: the simplest environment, for trusted code.

The schema of a tool is its signature (read by pydantic), its description the docstring. The functions of one message
run together: `async` ones as tasks (`rollout.core.async_tools`), synchronous ones in threads
(`rollout.core.threads`). Whatever a function raises or returns becomes a result. Functions have no state of ours: a
world of functions answers `state_key` with a hash of the calls made so far.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.config.schema import Dataset
from rollout.core.errors import ConfigError, WorldError
from rollout.core.messages import ToolResult, Toolset
from rollout.core.plugins import import_object
from rollout.core.task import Task
from rollout.core.tools import argument_reader, run_tool, spec_of
from rollout.core.world import Invocation, Opening, Snapshot, World
from rollout.environments.empty import EmptyWorld
from rollout.environments.environment import FileEnvironment, OpenEnvironment
from rollout.environments.resources import Resources


def import_function(reference: str) -> Callable[..., Any]:
    """The function that `module:name` names."""
    found: Callable[..., Any] = import_object(reference)
    if not callable(found):
        raise ConfigError(f"tool {reference!r} is not a function")
    return found


class FunctionEnvironment(FileEnvironment):
    """Functions named in a dataset's `tools`, or no tools at all. They keep no state that could be compared."""

    rescoring = "trajectory"

    def __init__(self, name: str, references: Sequence[str], path: Sequence[Path]) -> None:
        super().__init__(name, path)
        self._references = references

    @classmethod
    def from_dataset(cls, name: str, dataset: Dataset) -> FunctionEnvironment:
        """The environment of a dataset that names functions as tools, or nothing."""
        for reference in dataset.tools:
            if ":" not in reference:
                raise ConfigError(
                    f"datasets.{name}.tools: {reference!r} is neither module:function nor, without mcp_domain, a "
                    "server; set mcp_domain to use the servers of a domain"
                )
        names = [reference.partition(":")[2] for reference in dataset.tools]
        if len(set(names)) < len(names):
            raise ConfigError(
                f"datasets.{name}.tools: two functions have the same name; rename one: {', '.join(names)}"
            )
        return cls(name, dataset.tools, dataset.path)

    @contextlib.asynccontextmanager
    async def open(self, resources: Resources, *, makes_worlds: bool = True) -> AsyncIterator[OpenEnvironment]:
        functions = {reference.partition(":")[2]: import_function(reference) for reference in self._references}
        yield OpenFunctions(functions, resources.call_timeout)


class OpenFunctions(OpenEnvironment):
    """Functions in use."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], call_timeout: float) -> None:
        try:
            super().__init__(Toolset(tuple(spec_of(function, name) for name, function in functions.items())))
            for function in functions.values():
                argument_reader(function)
        except (TypeError, NameError) as error:
            raise ConfigError(f"tools: {error}") from error
        self._functions = functions
        self._call_timeout = call_timeout

    def make_world(self, task: Task) -> World:
        if not self._functions:
            return EmptyWorld(self.toolset)
        return FunctionWorld(self._functions, self.toolset, self._call_timeout)


class FunctionWorld(World):
    """Functions as tools."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], toolset: Toolset, timeout: float = 60.0) -> None:
        self._functions = functions
        self._readers = {name: argument_reader(function) for name, function in functions.items()}
        self._toolset = toolset
        self._timeout = timeout
        self._history = hashlib.blake2b(digest_size=16)

    async def open(self, task: Task, seed: int) -> Opening:
        return Opening(self._toolset)

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        for call in calls:
            self._history.update(msgspec.json.encode((call.name, call.arguments), order="sorted"))
        if len(calls) == 1:
            return [await self._run(calls[0])]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._run(call)) for call in calls]
        return [task.result() for task in tasks]

    async def _run(self, call: Invocation) -> ToolResult:
        return await run_tool(call, self._functions[call.name], self._timeout, self._readers[call.name])

    async def snapshot(self) -> Snapshot | None:
        return None

    async def restore(self, snapshot: Snapshot) -> None:
        raise WorldError("a world of functions has no snapshots to restore")

    async def state_key(self) -> str:
        return self._history.hexdigest()

    async def close(self) -> None:
        """Nothing is held."""
