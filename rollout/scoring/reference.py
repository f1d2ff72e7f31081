"""Playing a task's reference actions on a world of their own: what they answer and what they change.

Nothing of it is guessed: an action that cannot be called, fails, or takes its argument from nowhere ends the play with
a problem in words, and a reference with a problem gives no scores.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from rollout.core.calls import CallReader
from rollout.core.changes import Changes, encode_row
from rollout.core.errors import WorldError
from rollout.core.messages import ToolCall, ToolResult
from rollout.core.task import Task, resolve_arguments
from rollout.core.world import Invocation, World, WorldFactory
from rollout.scoring.calls import result_value

KEPT = 256


class PlayedAction(msgspec.Struct, frozen=True):
    """One reference action, played."""

    call: Invocation
    result: ToolResult
    value: Any
    """What it returned, as `$from` reads it."""
    changes: Changes | None = None
    """What had changed after it, where every step is watched."""


class PlayedReference(msgspec.Struct, frozen=True):
    """What the reference actions of a task do."""

    steps: tuple[PlayedAction, ...] = ()
    changes: Changes | None = None
    """What differs at the end; None where this world has no tables to look at."""
    problem: str | None = None
    """Why it could not be played to the end."""


class References:
    """The references of a dataset's tasks, played when first asked for; the latest few hundred are kept."""

    def __init__(self, make_world: WorldFactory, seed_of: Callable[[Task], int]) -> None:
        self.make_world = make_world
        self._seed_of = seed_of
        self._kept: OrderedDict[tuple[str, int], PlayedReference] = OrderedDict()

    async def of(self, task: Task, variant: int = 0) -> PlayedReference:
        """The reference of a task. Another `variant` is the same actions in a world of another seed."""
        key = (task.id, variant)
        found = self._kept.get(key)
        if found is None:
            found = await play_reference(self.make_world(task), task, self._seed_of(task) ^ variant)
            self._kept[key] = found
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found


async def play_reference(world: World, task: Task, seed: int, *, watch: bool = False) -> PlayedReference:
    """Play the reference actions of a task on a world, which is opened and closed here."""
    steps: list[PlayedAction] = []
    try:
        opening = await world.open(task, seed)
        reader = CallReader(opening.tools)
        for index, action in enumerate(task.actions or ()):
            where = f"reference action {index} ({action.name})"
            try:
                arguments = resolve_arguments(action.arguments, [step.value for step in steps])
            except (KeyError, IndexError, TypeError, ValueError) as error:
                return PlayedReference(tuple(steps), problem=f"{where}: its $from leads nowhere: {error!r}")
            read = reader.read(ToolCall(f"reference_{index}", action.name, encode_row(arguments).decode()))
            if not isinstance(read, Invocation):
                return PlayedReference(tuple(steps), problem=f"{where} cannot be called: {read.content[:300]}")
            (result,) = await world.call([read])
            if result.is_error:
                return PlayedReference(tuple(steps), problem=f"{where} failed: {result.content[:300]}")
            changes = await read_changes(world) if watch else None
            steps.append(PlayedAction(read, result, result_value(result.content), changes))
        return PlayedReference(tuple(steps), await read_changes(world))
    except WorldError as error:
        return PlayedReference(tuple(steps), problem=f"the reference's world broke: {error}")
    finally:
        await world.close()


async def read_changes(world: World) -> Changes | None:
    """What a world's calls have changed; None where it has no tables, or none that can be read."""
    if not world.has_changes:
        return None
    try:
        found = await world.changes()
    except WorldError as error:
        if error.transient:
            raise
        return None
    return found
