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
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from rollout.config.schema import Dataset
from rollout.core.async_tools import run_async
from rollout.core.errors import ConfigError, ToolError, WorldError, describe_error
from rollout.core.messages import ToolResult, Toolset, ToolSpec
from rollout.core.plugins import import_object
from rollout.core.results import MAX_RESULT_CHARS, failed_result, to_result
from rollout.core.task import Task
from rollout.core.threads import ToolFault, tool_threads
from rollout.core.world import Invocation, Opening, Snapshot, World
from rollout.environments.empty import EmptyWorld
from rollout.environments.environment import FileEnvironment, OpenEnvironment
from rollout.environments.resources import Resources


def spec_of(function: Callable[..., Any], name: str | None = None) -> ToolSpec:
    """A function as a tool: signature = schema, docstring = description."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(cast(Any, function)).json_schema()
    schema.setdefault("type", "object")
    schema.setdefault("properties", {})
    return ToolSpec(name=name or function.__name__, description=inspect.getdoc(function) or "", parameters=schema)


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
        super().__init__(Toolset(tuple(spec_of(function, name) for name, function in functions.items())))
        self._functions = functions
        self._call_timeout = call_timeout

    def make_world(self, task: Task) -> World:
        if not self._functions:
            return EmptyWorld(self.toolset)
        return FunctionWorld(self._functions, self.toolset, self._call_timeout)


class FunctionWorld:
    """Functions as tools."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], toolset: Toolset, timeout: float = 60.0) -> None:
        self._functions = functions
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
        function = self._functions[call.name]
        try:
            if inspect.iscoroutinefunction(function):
                value = await run_async(call.name, function(**call.arguments), self._timeout)
            else:
                value = await tool_threads().run(lambda: function(**call.arguments), self._timeout)
                if inspect.isawaitable(value):
                    value = await run_async(call.name, value, self._timeout)
        except TimeoutError:
            return failed_result(call.call_id, "timeout", f"{call.name} gave no answer within {self._timeout:g} s")
        except ToolFault as fault:
            if isinstance(fault.original, ToolError):
                return failed_result(call.call_id, "tool", fault.text)
            return failed_result(call.call_id, "crash", f"{call.name} raised {fault}")
        except Exception as error:  # noqa: BLE001 - the call itself may not fit the function
            return failed_result(call.call_id, "crash", f"{call.name} raised {describe_error(error)}")
        return to_result(call.call_id, value, MAX_RESULT_CHARS)

    async def snapshot(self) -> Snapshot | None:
        return None

    async def restore(self, snapshot: Snapshot) -> None:
        raise WorldError("a world of functions has no snapshots to restore")

    async def state_key(self) -> str:
        return self._history.hexdigest()

    async def close(self) -> None:
        """Nothing is held."""
