"""A world of plain Python functions: the simplest tools, for trusted code.

The schema of a tool is its signature (read by pydantic), its description the docstring. The functions of one message
run together: `async` ones as tasks (`rollout.core.async_tools`), synchronous ones in threads
(`rollout.core.threads`). Whatever a function raises or returns becomes a result. Functions have no state of ours: a
world of functions answers `state_key` with a hash of the calls made so far.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from rollout.core.async_tools import run_async
from rollout.core.errors import ConfigError, ToolError, WorldError, describe_error
from rollout.core.messages import ToolResult, Toolset, ToolSpec
from rollout.core.plugins import find_plugin
from rollout.core.results import MAX_RESULT_CHARS, failed_result, to_result
from rollout.core.task import Task
from rollout.core.threads import ToolFault, tool_threads
from rollout.core.world import Invocation, Opening, Snapshot


def spec_of(function: Callable[..., Any], name: str | None = None) -> ToolSpec:
    """A function as a tool: signature = schema, docstring = description."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(cast(Any, function)).json_schema()
    schema.setdefault("type", "object")
    schema.setdefault("properties", {})
    return ToolSpec(name=name or function.__name__, description=inspect.getdoc(function) or "", parameters=schema)


def import_function(reference: str) -> Callable[..., Any]:
    """The function that `module:name` names."""
    found: Callable[..., Any] | None = find_plugin("rollout.worlds", reference)
    if not callable(found):
        raise ConfigError(f"tool {reference!r} is not a function")
    return found


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
