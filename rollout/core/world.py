"""The World contract: tools with state, owned by one attempt.

`World` is the contract and its usual implementation in one. A subclass with methods marked `@tool` is a whole world:
its attributes are its state, which is copied by value for snapshots and hashed for state keys. Worlds whose state lies
elsewhere (a worker process, a browser, MCP servers) override the life cycle: `open`, `call`, `snapshot`, `restore`,
`state_key`, `close`.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import copy
import hashlib
import inspect
import logging
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

from rollout.core.async_tools import is_cancellation
from rollout.core.changes import Changes, compare_tables, tables_of_attributes
from rollout.core.errors import WorldError, describe_error
from rollout.core.messages import JSON, Image, Message, ToolResult, Toolset
from rollout.core.task import Task
from rollout.core.tools import Arguments, argument_reader, mark_of, run_tool, spec_of
from rollout.core.values import NotPlain, decode, encode, key_of
from rollout.core.workdir import read_files, write_files

log = logging.getLogger(__name__)
WORKDIR = "/workdir"
"""What an agent reads where a result names the world's folder."""


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


class World:
    """Where an attempt acts. One instance belongs to one attempt and shares no state with any other.

    A subclass marks methods with `@tool`. Plain attributes are its state: they are copied for snapshots and compared
    for state keys. Each world has a copy of the lists, dicts and sets in the body of its class, unless their names are
    upper case. Files belong in `self.workdir`, which is part of the state, random draws in `self.random`. The
    constructor may ask for `task` and `seed`; `setup`, which may be async, can do so, too, and may return a text that
    the agent is shown first. `teardown` releases what `setup` took. A tool that ends the attempt calls `self.finish()`.

        class Cart(World):
            def __init__(self) -> None:
                self.items: dict[str, int] = {}

            @tool
            async def add(self, item: str, count: int = 1) -> str:
                \"\"\"Put an item into the cart.\"\"\"
                self.items[item] = self.items.get(item, 0) + count
                return f"{count} × {item}"

    An implementation that overrides the life cycle keeps this: `call` answers every invocation, in the order asked,
    under its own call id; what a tool does wrong (an exception, a time-out) is an error result, not a raise;
    `WorldError` is for a world that cannot go on. Given the same task, seed and calls it answers the same, or
    `snapshot` and replay mean nothing: clock, uuids and randomness come from the seed. `close` works at any time, also
    after a failed `open` and twice.
    """

    call_timeout: float = 60.0
    """Seconds that one call may take."""
    _life: _Life | None = None
    _is_made = False
    """Whether a function of the user's called the constructor. Otherwise `open` does, because it may ask for the
    task."""
    _tools: ClassVar[Mapping[str, _Method] | None] = None
    _slotted: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[tuple[str, ...]] = ()
    """The attributes of the class that every world gets a copy of."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._tools = None
        cls._slotted = _slots_of(cls)
        cls._defaults = _defaults_of(cls)
        for name, member in vars(cls).items():
            if mark_of(member) is not None and hasattr(World, name):
                raise TypeError(
                    f"{cls.__qualname__}.{name}: a tool may not hide World.{name}; give the method another name and "
                    f'offer it as @rollout.tool(name="{name}")'
                )

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        for name in cls._defaults:
            setattr(made, name, copy.deepcopy(getattr(cls, name)))
        return made

    # ---- for subclasses -----------------------------------------------------------------------------------------

    def setup(self, *args: Any, **kwargs: Any) -> Any:
        """Make the world ready for its task: `setup(self)`, or with any of `task` and `seed`. May be async, and may
        return a text that the agent is shown before it acts."""

    def teardown(self) -> Any:
        """Release what `setup` took. May be async."""

    def finish(self) -> None:
        """End the attempt with the call that is running: the agent has won, lost, or is done."""
        self._alive.is_finished = True

    @property
    def workdir(self) -> Path:
        """A folder of this world alone, created on first use. It is part of snapshots and deleted with the world."""
        life = self._alive
        if life.workdir is None:
            life.workdir = Path(tempfile.mkdtemp(prefix="rollout-world-")).resolve()
        return life.workdir

    @property
    def random(self) -> random.Random:
        """Random numbers from the world's seed, the same in every attempt at a task."""
        life = self._alive
        if life.random is None:
            life.random = random.Random(life.seed)
        return life.random

    # ---- the life cycle -----------------------------------------------------------------------------------------

    async def open(self, task: Task, seed: int) -> Opening:
        """Make the world ready for a task."""
        self._life = _Life(seed)
        given = {"task": task.copy(), "seed": seed}
        try:
            if not self._is_made:
                _call_with(self.__init__, given)  # type: ignore[misc]
            shown = await _maybe_await(_call_with(self.setup, given))
        except WorldError:
            raise
        except Exception as error:
            raise WorldError(f"{type(self).__name__} cannot be set up: {describe_error(error)}") from error
        if shown is not None and not isinstance(shown, str):
            raise WorldError(
                f"{type(self).__name__} cannot be set up: setup returned a {type(shown).__name__}; expected a text, "
                "which the agent is shown first, or None"
            )
        with contextlib.suppress(NotPlain):
            self._life.before = encode(await self._state(), self._folder)
        observation = None if shown is None else Message(role="user", content=shown)
        return Opening(tools_of(type(self)), observation)

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        """Run the calls of one message, one after the other, and answer in the order asked."""
        life, methods = self._alive, _methods(type(self))
        results = []
        for call in calls:
            if life.is_finished:
                text = "the work is over; this was not done any more"
                results.append(ToolResult(call.call_id, text, is_error=True, error_kind="tool"))
                continue
            method = methods[call.name]
            result = await run_tool(call, getattr(self, method.attribute), self.call_timeout, method.read)
            if life.workdir is not None and str(life.workdir) in result.content:
                # Its place differs in every attempt, so no replay would be answered alike.
                result = msgspec.structs.replace(result, content=result.content.replace(str(life.workdir), WORKDIR))
            if life.is_finished:
                result = msgspec.structs.replace(result, end="world_done")
            life.history.update(msgspec.json.encode((call.name, call.arguments, result.content), order="sorted"))
            results.append(result)
        return results

    async def snapshot(self) -> Snapshot | None:
        """The present state; None if this world can only be replayed."""
        try:
            state = await self._state()
            return Snapshot(encode(state, self._folder), key_of(state, self._folder))
        except NotPlain as error:
            _warn_once(type(self), error)
            return None

    async def restore(self, snapshot: Snapshot) -> None:
        """Become the state of a snapshot made by a world of the same kind and task."""
        try:
            attributes, files, drawn, is_finished = decode(snapshot.data, lambda: str(self.workdir))
        except (ValueError, TypeError) as error:
            raise WorldError(f"{type(self).__name__}: the snapshot cannot be read: {error}") from error
        for name in _attributes_of(self):
            delattr(self, name)
        for name, value in attributes.items():
            object.__setattr__(self, name, value)
        life = self._alive
        if isinstance(drawn, int):
            life.seed, life.random = drawn, None
        else:
            life.random = drawn
        life.is_finished = is_finished
        if files or life.workdir is not None:
            await asyncio.to_thread(write_files, self.workdir, files)

    async def state_key(self) -> str:
        """A stable hash of the state: equal states, equal keys, in every process. Where the state cannot be copied, a
        hash of what was called and answered."""
        try:
            return key_of(await self._state(), self._folder)
        except NotPlain:
            return self._alive.history.hexdigest()

    async def changes(self) -> Changes:
        """The rows that the calls so far have changed, with each attribute as a table. Callers must not modify it.

        Raises WorldError where the state cannot be copied."""
        before = self._alive.before
        if before is None:
            raise WorldError(f"{type(self).__name__}: its state cannot be copied, so its changes are unknown")
        try:
            now = encode(await self._state(), self._folder)
            attributes, files, *_ = decode(before, lambda: WORKDIR)
            attributes_now, files_now, *_ = decode(now, lambda: WORKDIR)
            return compare_tables(
                tables_of_attributes(attributes, files), tables_of_attributes(attributes_now, files_now)
            )
        except NotPlain as error:
            raise WorldError(f"{type(self).__name__}: self.{error}") from error

    @property
    def has_changes(self) -> bool:
        """Whether `changes` is supported: by worlds of plain attributes, and by those that override it."""
        return type(self).changes is not World.changes or type(self).open is World.open

    async def close(self) -> None:
        """Release everything."""
        life, self._life = self._life, None
        if life is None:
            return
        try:
            await _maybe_await(self.teardown())
        except (Exception, asyncio.CancelledError) as error:
            if is_cancellation(error):
                raise
            # The attempt is over: its result stands. Who cancels a task of the world and awaits it gets its
            # CancelledError.
            log.warning("%s.teardown failed: %s", type(self).__name__, describe_error(error))
        finally:
            if life.workdir is not None:
                await asyncio.to_thread(shutil.rmtree, life.workdir, ignore_errors=True)

    @property
    def _alive(self) -> _Life:
        if self._life is None:
            # Also outside of a run, where a world is tried by hand.
            self._life = _Life(0)
        return self._life

    @property
    def _folder(self) -> str:
        """The place of its folder, which differs in every attempt; empty where there is none."""
        return "" if self._alive.workdir is None else str(self._alive.workdir)

    async def _state(self) -> tuple[Any, ...]:
        life = self._alive
        attributes = _attributes_of(self)
        # An empty folder is the same state as none. Files are read in a thread: there may be many.
        files = {} if life.workdir is None else await asyncio.to_thread(read_files, life.workdir)
        drawn = life.seed if life.random is None else life.random
        return attributes, files, drawn, life.is_finished


class _Life:
    """What the engine keeps about a world while it is open."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random: random.Random | None = None
        """Made when it is first drawn from: its state is large, and most worlds never need it."""
        self.workdir: Path | None = None
        self.is_finished = False
        self.history = hashlib.blake2b(digest_size=16)
        self.before: bytes | None = None
        """The state when the world was opened; None where it cannot be copied."""


_OWN = frozenset({"_life", "_is_made", "call_timeout"})
_GIVEN = ("task", "seed")
"""What the constructor and `setup` of a world may ask for."""


class _Method(msgspec.Struct, frozen=True):
    """A tool of a world's class."""

    attribute: str
    read: Arguments | None


def tools_of(kind: type[World]) -> Toolset:
    """The tools that a class of worlds offers, in the order of their definition."""
    _methods(kind)
    found: Toolset = vars(kind)["_toolset"]
    return found


def _methods(kind: type[World]) -> Mapping[str, _Method]:
    """The tools of a class by the names that agents call them by. Read once, when first asked for."""
    if kind._tools is None:
        unbound = object.__new__(kind)
        found: dict[str, _Method] = {}
        specs = []
        for name in dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base)):
            mark = mark_of(inspect.getattr_static(kind, name))
            if mark is None:
                continue
            if mark.name in found:
                raise TypeError(f"{kind.__qualname__}: two tools are called {mark.name!r}; rename one of them")
            method = getattr(unbound, name)
            specs.append(spec_of(method, mark.name, mark.is_write))
            found[mark.name] = _Method(name, argument_reader(method))
        kind._tools, kind._toolset = found, Toolset(tuple(specs))  # type: ignore[attr-defined]
    assert kind._tools is not None
    return kind._tools


def new_world(make: type[World] | Callable[[], World]) -> World:
    """A world of a class, whose constructor is called when it is opened, or the world that a function makes. Raises
    TypeError where that is none."""
    if not isinstance(make, type):
        made = make()
        if not isinstance(made, World):
            raise TypeError(f"the function returned {made!r}; expected a rollout.World")
        made._is_made = True
        return made
    if not issubclass(make, World):
        raise TypeError(f"{make.__qualname__} is no subclass of rollout.World")
    return make.__new__(make)


def refuse_further_arguments(world: World) -> None:
    """Raise TypeError where the constructor or `setup` of a new world asks for more than it is given."""
    for method in (world.setup,) if world._is_made else (world.__init__, world.setup):  # type: ignore[misc]
        for one in inspect.signature(method).parameters.values():
            is_needed = one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
            if is_needed and one.name not in _GIVEN:
                raise TypeError(
                    f"{method.__qualname__} asks for {one.name}; it may ask for {' and '.join(_GIVEN)}. Give it a "
                    "default, or give the environment a function that makes the world"
                )


def _call_with(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Call a function with those of the given arguments that it asks for by name."""
    wanted = inspect.signature(function).parameters
    return function(**{name: value for name, value in given.items() if name in wanted})


async def _maybe_await(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _attributes_of(world: World) -> dict[str, Any]:
    """The state that is in attributes, those of `__slots__` included."""
    found = {name: getattr(world, name) for name in world._slotted if hasattr(world, name)} | vars(world)
    return {name: value for name, value in found.items() if name not in _OWN}


def _slots_of(kind: type) -> tuple[str, ...]:
    """The attributes that `__slots__` of a class and of its bases declare, under the names that Python gives them."""
    found: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                found.append(f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") else name)
    return tuple(found)


def _defaults_of(kind: type) -> tuple[str, ...]:
    """The lists, dicts and sets of a class and its bases that its worlds would otherwise share. Constants are shared:
    their names are upper case."""
    shared = (list, dict, set, bytearray, collections.deque)
    names = dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base) if not name.startswith("__"))
    return tuple(
        name for name in names if not name.isupper() and isinstance(inspect.getattr_static(kind, name), shared)
    )


_warned: set[type] = set()


def _warn_once(kind: type, error: NotPlain) -> None:
    if kind not in _warned:
        _warned.add(kind)
        log.warning("%s: self.%s; its worlds have no snapshots and are replayed instead", kind.__qualname__, error)


WorldFactory = Callable[[Task], World]
"""Makes the world of one attempt at a task. It is not opened yet."""

SeedOf = Callable[[Task], int]
"""The seed of a task's worlds."""
