"""A world of a tau2 domain: its environment, with the agent's tools on one side and the user's on the other.

Both sides act on one environment, which keeps them in step (`sync_tools`): what the agent changes in its database can
show on the user's phone. So the user's world (`Tau2UserWorld`) is a second door to the agent's. Answers are tau2's own,
spelt as tau2 spells them. Ids that tools draw come from the world's seed.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import pickle
import random
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from rollout.core.changes import Changes, encode_row
from rollout.core.errors import WorldError, describe_error
from rollout.core.messages import JSON, ToolResult, Toolset, ToolSpec
from rollout.core.results import failed_result, to_result
from rollout.core.task import Task
from rollout.core.threads import ToolFault, tool_threads
from rollout.core.world import Invocation, Opening, Snapshot, World
from rollout.environments.domains.stand_ins import current_random
from rollout.environments.suites.tau2.folder import DomainCode
from rollout.environments.suites.tau2.layers import (
    bring_back,
    database_changes,
    layered,
    layers_of,
    rows_of,
    save_database,
)

Side = Literal["assistant", "user"]


class Tau2Call(msgspec.Struct, frozen=True):
    """A call that was made in a world."""

    side: Side
    name: str
    arguments: JSON


class Tau2Domain:
    """What all worlds of a domain share: its code, its data as they are in the files, its tools and tasks."""

    def __init__(self, code: DomainCode, split: str | None) -> None:
        self._code = code
        example = code.make_environment()
        self._database = example.tools.db
        self._user_database = example.user_tools.db if example.user_tools is not None else None
        self.is_synced = code.keeps_in_step(example)
        """Whether a call of one side may change the other's state."""
        self.policy = str(example.get_policy())
        self.toolset = _toolset(example.tools)
        self.user_toolset = None if example.user_tools is None else _toolset(example.user_tools)
        self.sources = {str(source.id): source for source in code.read_tasks(split)}
        """tau2's own tasks, by id."""

    def make_environment(self) -> Any:
        """An environment that may be changed."""
        databases = {"db": layered(self._database)}
        if self._user_database is not None:
            databases["user_db"] = layered(self._user_database)
        environment = self._code.make_environment(**databases)
        for kit in (environment.tools, environment.user_tools):
            if kit is not None:
                _own_class_attributes(kit)
        return environment

    def user_tools(self, task: Task) -> Toolset | None:
        """The tools that a task gives to its user."""
        named = self.sources[task.id].user_tools
        if self.user_toolset is None or named is None:
            return self.user_toolset
        return Toolset(tuple(spec for spec in self.user_toolset.specs if spec.name in named)) if named else None

    def make_call(self, call: Invocation, side: Side) -> Any:
        """A call in tau2's own words."""
        return self._code.messages.ToolCall(
            id=call.call_id, name=call.name, arguments=copy.deepcopy(call.arguments), requestor=side
        )


class Tau2World(World):
    """One episode's environment, from the agent's side."""

    def __init__(self, domain: Tau2Domain, timeout: float = 60.0) -> None:
        self.domain = domain
        self._timeout = timeout
        self._random = random.Random(0)
        self._beginning: tuple[Any, Any] = (None, None)
        self.environment: Any = None
        """tau2's own, for a scorer to ask."""
        self.calls: list[Tau2Call] = []
        """Everything that either side has called."""

    async def open(self, task: Task, seed: int) -> Opening:
        self._random.seed(seed)
        token = current_random.set(self._random)
        environment = self.domain.make_environment()
        state = self.domain.sources[task.id].initial_state
        try:
            environment.set_state(
                initialization_data=state.initialization_data if state is not None else None,
                initialization_actions=state.initialization_actions if state is not None else None,
                message_history=list(state.message_history or ()) if state is not None else [],
            )
        except Exception as error:
            raise WorldError(f"{task.id}: its initial state cannot be set: {describe_error(error)}") from error
        finally:
            current_random.reset(token)
        tools, user_tools = environment.tools, environment.user_tools
        self._beginning = (tools.db, user_tools.db if user_tools is not None else None)
        tools.db = layered(tools.db)
        if user_tools is not None:
            # tau2 gives both sides one database where a task brings its own data.
            user_tools.db = tools.db if self._beginning[1] is self._beginning[0] else layered(user_tools.db)
        self.environment = environment
        self.calls = []
        return Opening(self.domain.toolset)

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        return [await self.act(call, "assistant") for call in calls]

    async def act(self, call: Invocation, side: Side) -> ToolResult:
        """One call of one side."""
        self.calls.append(Tau2Call(side, call.name, call.arguments))
        if call.name == "calculate" and "**" in str(call.arguments.get("expression")):
            # tau2 evaluates what looks like arithmetic, and a tower of powers would hold up the whole process.
            return failed_result(call.call_id, "tool", "calculate: powers are not allowed in an expression")
        kit = self.environment.tools if side == "assistant" else self.environment.user_tools
        # Where the sides are kept in step, any call may change something on the way.
        layers = () if self.domain.is_synced or changes_state(kit, call.name) else layers_of(kit.db)
        token = current_random.set(self._random)
        for layer in layers:
            layer.is_reading = True
        try:
            respond = functools.partial(self.environment.get_response, self.domain.make_call(call, side))
            answer = await tool_threads().run(respond, self._timeout)
        except TimeoutError:
            return failed_result(call.call_id, "timeout", f"{call.name} gave no answer within {self._timeout:g} s")
        except ToolFault as error:
            return failed_result(call.call_id, "crash", f"{call.name} raised {error}")
        finally:
            current_random.reset(token)
            for layer in layers:
                layer.is_reading = False
        result = to_result(call.call_id, answer.content or "")
        if not answer.error:
            return result
        return msgspec.structs.replace(result, is_error=True, error_kind="tool")

    async def changes(self) -> Changes:
        """What both sides have changed since the task's beginning; the user's tables as `user.<table>`."""
        database, user_database = self._databases()
        found = database_changes(self._beginning[0], database)
        if user_database is not None and user_database is not database:
            found |= database_changes(self._beginning[1], user_database, "user.")
        return found

    def _databases(self) -> tuple[Any, Any]:
        user_tools = self.environment.user_tools
        return self.environment.tools.db, user_tools.db if user_tools is not None else None

    async def snapshot(self) -> Snapshot | None:
        databases = [None if database is None else save_database(database) for database in self._databases()]
        state = (databases, self._attributes(), self.calls, self._random.getstate())
        return Snapshot(pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL), await self.state_key())

    async def restore(self, snapshot: Snapshot) -> None:
        # Snapshots come from this world's own `snapshot`, in this run's own journal: never from outside.
        databases, attributes, self.calls, randomness = pickle.loads(snapshot.data)
        self._random.setstate(randomness)
        tools, user_tools = self.environment.tools, self.environment.user_tools
        tools.db = bring_back(self._beginning[0], databases[0])
        if user_tools is not None:
            is_one = self._beginning[1] is self._beginning[0]
            user_tools.db = tools.db if is_one else bring_back(self._beginning[1], databases[1])
        for kit, fields in zip((tools, user_tools), attributes, strict=True):
            if kit is not None:
                kit.__dict__ = {"db": kit.db, **fields}
        if await self.state_key() != snapshot.state_key:
            raise WorldError("the restored state is not the one that was saved")

    async def state_key(self) -> str:
        digest = hashlib.blake2b(repr(self._random.getstate()).encode(), digest_size=16)
        for name, change in sorted((await self.changes()).items()):
            digest.update(name.encode())
            for rows in (change.added, change.removed):
                digest.update(b"".join(sorted(map(encode_row, rows))))
        for fields in self._attributes():
            digest.update(encode_row(rows_of(fields)))
        return digest.hexdigest()

    def _attributes(self) -> list[dict[str, Any]]:
        """What each side's tools keep beside their database."""
        kits = (self.environment.tools, self.environment.user_tools)
        return [
            {} if kit is None else {name: value for name, value in vars(kit).items() if name != "db"} for kit in kits
        ]

    async def close(self) -> None:
        self.environment = None


class Tau2UserWorld(World):
    """The user's side of an agent's world. It is opened after that one and holds nothing of its own."""

    def __init__(self, world: Tau2World, tools: Toolset) -> None:
        self._world = world
        self._toolset = tools

    async def open(self, task: Task, seed: int) -> Opening:
        return Opening(self._toolset)

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        return [await self._world.act(call, "user") for call in calls]

    async def snapshot(self) -> Snapshot | None:
        return await self._world.snapshot()

    async def restore(self, snapshot: Snapshot) -> None:
        await self._world.restore(snapshot)

    async def state_key(self) -> str:
        return await self._world.state_key()

    async def close(self) -> None:
        """The agent's world is closed by who opened it."""


def changes_state(kit: Any, name: str) -> bool:
    """Whether a tool is declared to change something."""
    declared = getattr(kit, "tool_mutates_state", None)
    return bool(declared(name)) if declared is not None else str(kit.tool_type(name).value) == "write"


def _toolset(kit: Any) -> Toolset:
    specs = []
    for name, tool in kit.get_tools().items():
        spec = ToolSpec.from_json(tool.openai_schema)
        specs.append(msgspec.structs.replace(spec, is_write=changes_state(kit, name)))
    return Toolset(tuple(specs))


def _own_class_attributes(kit: Any) -> None:
    """Give an object copies of the changeable values on its classes, which all objects would else share."""
    for kind in type(kit).__mro__[:-1]:
        for name, value in vars(kind).items():
            is_changeable = isinstance(value, dict | list | set) or hasattr(value, "model_dump")
            if is_changeable and not name.startswith("__") and not isinstance(value, type) and name not in vars(kit):
                setattr(kit, name, copy.deepcopy(value))
