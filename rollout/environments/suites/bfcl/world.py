"""A world of BFCL's back ends: plain Python objects, made again for each episode from the task's initial configuration.

Everything that an instance holds is its own: after loading it is copied, because some of the long-context data would
else be shared with every other instance in the process. Calls run one after the other, as BFCL runs them, and answer
with BFCL's own spelling. They do no I/O and take microseconds, so they run on the event loop, which also keeps apart
what the back ends keep in module globals for the length of a call. Mathematics that would not end is refused.

As in BFCL, a call may name any function of the task's classes, also one that the agent is not offered yet, and its
arguments are not checked against the schema: some of the reference calls need the one, some the other.
"""

from __future__ import annotations

import copy
import decimal
import functools
import hashlib
import json
import pickle
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import msgspec

from rollout.core.changes import Changes, Row, compare_tables
from rollout.core.errors import WorldError, describe_error
from rollout.core.messages import JSON, ToolResult, Toolset, ToolSpec
from rollout.core.results import failed_result, to_result
from rollout.core.task import Task
from rollout.core.threads import ToolFault, run_guarded
from rollout.core.world import Invocation, Opening, Snapshot, World

ANYTHING: JSON = {"type": "object"}
MOST_DIGITS = 1000
"""The largest precision, number of places and exponent that is computed with."""


class Scenario(msgspec.Struct, frozen=True):
    """What a task says about its world; `task_info.bfcl`."""

    category: str
    involved_classes: tuple[str, ...]
    initial_config: dict[str, JSON]
    missed_function: dict[int, tuple[str, ...]] = {}
    """Functions that are handed out later: by the turn from which on they are offered."""

    @property
    def is_long(self) -> bool:
        """Whether the back ends answer at length."""
        return "long_context" in self.category


class BackEnds(msgspec.Struct, frozen=True):
    """The classes that scenarios name."""

    classes: Mapping[str, type[Any]]
    functions: Mapping[str, tuple[str, ...]]
    """The functions of each class."""
    stateless: frozenset[str]

    def make(self, scenario: Scenario) -> dict[str, Any]:
        """The instances of one episode."""
        instances = {}
        for name in scenario.involved_classes:
            instance = self.classes[name]()
            if name not in self.stateless:
                config = copy.deepcopy(scenario.initial_config.get(name, {}))
                instance._load_scenario(config, long_context=scenario.is_long)
            instances[name] = copy.deepcopy(instance)
        return instances


class BfclWorld(World):
    """One episode's instances."""

    def __init__(self, back_ends: BackEnds) -> None:
        self._back_ends = back_ends
        self._scenario: Scenario | None = None
        self._owner: dict[str, str] = {}
        self.instances: dict[str, Any] = {}
        """By class, for a scorer to compare. Nobody else changes them."""

    async def open(self, task: Task, seed: int) -> Opening:
        self._scenario = read_scenario(task)
        try:
            self.instances = self._back_ends.make(self._scenario)
        except Exception as error:
            raise WorldError(f"{task.id}: its back ends could not start: {describe_error(error)}") from error
        self._owner = {function: name for name in self.instances for function in self._back_ends.functions[name]}
        return Opening(Toolset(tuple(ToolSpec(function, parameters=ANYTHING) for function in self._owner)))

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        return [self._call(call) for call in calls]

    def _call(self, call: Invocation) -> ToolResult:
        if _never_ends(call.arguments):
            return failed_result(call.call_id, "tool", f"{call.name}: such a precision or exponent is too large")
        method: Callable[..., Any] = getattr(self.instances[self._owner[call.name]], call.name)
        value = run_guarded(functools.partial(_invoke, method, call.arguments))
        if isinstance(value, ToolFault):
            return _result(call, f"Error during execution: {value.text}", "crash")
        text, is_refusal = value
        return _result(call, text, "tool" if is_refusal else None)

    async def changes(self) -> Changes:
        """What differs from the scenario's beginning; a table for each attribute of each class."""
        assert self._scenario is not None
        return compare_tables(tables_of(self._back_ends.make(self._scenario)), tables_of(self.instances))

    async def snapshot(self) -> Snapshot | None:
        return Snapshot(pickle.dumps(self.instances, protocol=pickle.HIGHEST_PROTOCOL), await self.state_key())

    async def restore(self, snapshot: Snapshot) -> None:
        # Snapshots come from this world's own `snapshot`, in this run's own journal: never from outside.
        self.instances = pickle.loads(snapshot.data)
        if await self.state_key() != snapshot.state_key:
            raise WorldError("the restored state is not the one that was saved")

    async def state_key(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for name in sorted(self.instances):
            plain = _plain(self.instances[name], ())
            digest.update(msgspec.json.encode((name, plain), order="sorted"))
        return digest.hexdigest()

    async def close(self) -> None:
        self.instances = {}


def read_scenario(task: Task) -> Scenario:
    """The scenario of a task of this suite."""
    return msgspec.convert(task.info["bfcl"], Scenario, strict=False)


def _never_ends(arguments: JSON) -> bool:
    """Whether a call asks for mathematics of a size that would hold up the whole process, in whatever thread."""
    asked = [arguments.get(name) for name in ("precision", "exponent", "decimal_places")]
    return any(isinstance(value, int | float) and abs(value) > MOST_DIGITS for value in asked)


def _result(call: Invocation, text: str, error_kind: str | None) -> ToolResult:
    result = to_result(call.call_id, text)
    return msgspec.structs.replace(result, is_error=error_kind is not None, error_kind=error_kind)


def _invoke(method: Callable[..., Any], arguments: JSON) -> tuple[str, bool]:
    """The answer in BFCL's spelling, and whether it is a refusal.

    It is spelt here, at once: what a function returns may be part of its state.
    """
    # BFCL's mathematics sets the precision of whatever context it finds.
    with decimal.localcontext(decimal.Context()):
        value = method(**arguments)
    if isinstance(value, str):
        return value, False
    is_refusal = isinstance(value, dict) and bool(value.get("error"))
    if type(value) is dict:
        try:
            return json.dumps(value), is_refusal
        except (TypeError, ValueError):
            return str(value), is_refusal
    return str(value), is_refusal


def tables_of(instances: Mapping[str, Any]) -> dict[str, list[Row]]:
    """The public attributes of all instances, as tables: what BFCL compares, in a form that can be shown."""
    return {
        f"{name}.{attribute}": list(_rows(value))
        for name, instance in instances.items()
        for attribute, value in vars(instance).items()
        if not attribute.startswith("_")
    }


def _rows(value: Any) -> Iterator[Row]:
    if hasattr(value, "contents"):
        yield from _files(value, "")
    elif isinstance(value, dict):
        for key, inner in value.items():
            plain = _plain(inner, ())
            yield (
                {"key": key, **plain}
                if isinstance(plain, dict) and "key" not in plain
                else {"key": key, "value": plain}
            )
    elif isinstance(value, list | tuple | set):
        for inner in value:
            plain = _plain(inner, ())
            yield plain if isinstance(plain, dict) else {"value": plain}
    else:
        yield {"value": _plain(value, ())}


def _files(directory: Any, above: str) -> Iterator[Row]:
    """A tree of directories and files, a row for each."""
    path = f"{above}/{directory.name}".replace("//", "/")
    yield {"path": path}
    for entry in directory.contents.values():
        if hasattr(entry, "contents"):
            yield from _files(entry, path)
        else:
            yield {"path": f"{path}/{entry.name}".replace("//", "/"), "content": entry.content}


def _plain(value: Any, above: tuple[int, ...]) -> Any:
    """A value as JSON, by what it holds: objects by their fields, times left out (a file's last change)."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if id(value) in above:
        return "…"
    inside = (*above, id(value))
    if isinstance(value, dict):
        return {str(key): _plain(inner, inside) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, inside) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(inner, inside) for inner in value), key=repr)
    if isinstance(value, random.Random):
        return repr(value.getstate())
    if isinstance(value, date):
        return None
    return {name: _plain(inner, inside) for name, inner in vars(value).items()}
