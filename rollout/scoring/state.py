"""Scoring by state: what the episode changed in the world's tables against what the reference actions change.

The reference is played once for each task, on a fresh world with the same seed, so ids made at run time come out alike.
Reads leave no trace, so any way to the same end counts; a missing write, a wrong one and an extra one all show as rows
that differ. A task whose reference actions do not run is unscored, never failed.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from rollout.errors import WorldError
from rollout.messages import ToolCall
from rollout.scoring.scorer import Score, Trajectory
from rollout.tasks.task import Task, resolve_arguments
from rollout.worlds.calls import CallReader
from rollout.worlds.changes import encode_row
from rollout.worlds.world import Changes, Invocation, Row, TableChange, World, WorldFactory

KEPT_REFERENCES = 256
SHOWN_ROWS = 5


class StateScorer:
    """Compares final tables with the reference's."""

    def __init__(self, make_world: WorldFactory, seed_of: Callable[[Task], int]) -> None:
        self._make_world = make_world
        self._seed_of = seed_of
        self._kept: OrderedDict[str, Changes | str] = OrderedDict()

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        if task.actions is None or not hasattr(world, "changes"):
            return None
        reference = self._kept.get(task.id)
        if reference is None:
            reference = await self._play(task)
            self._kept[task.id] = reference
            if len(self._kept) > KEPT_REFERENCES:
                self._kept.popitem(last=False)
        if isinstance(reference, str):
            return Score("state", None, reference)
        try:
            found = await world.changes()
        except WorldError as error:
            return Score("state", None, str(error))
        differences = _compare(reference, found)
        if not differences:
            return Score("state", 1.0, "the final state is the reference's")
        return Score("state", 0.0, f"the final state differs in {', '.join(differences)}", {"tables": differences})

    async def _play(self, task: Task) -> Changes | str:
        """The tables after the reference actions, or why there are none."""
        world = self._make_world()
        try:
            opening = await world.open(task, self._seed_of(task))
            reader = CallReader(opening.tools)
            results: list[Any] = []
            for index, action in enumerate(task.actions or ()):
                try:
                    arguments = resolve_arguments(action.arguments, results)
                except (KeyError, IndexError, TypeError, ValueError) as error:
                    return f"reference action {index} ({action.name}): its $from leads nowhere: {error!r}"
                call = ToolCall(f"reference_{index}", action.name, encode_row(arguments).decode())
                read = reader.read(call)
                if not isinstance(read, Invocation):
                    return f"reference action {index} ({action.name}) cannot be called: {read.content}"
                (result,) = await world.call([read])
                if result.is_error:
                    return f"reference action {index} ({action.name}) failed: {result.content[:200]}"
                results.append(_value(result.content))
            changes: Changes = await world.changes()  # type: ignore[attr-defined]
            return changes
        except WorldError as error:
            return f"the reference world could not be opened: {error}"
        finally:
            await world.close()


def _compare(reference: Changes, found: Changes) -> dict[str, Any]:
    """The tables that differ, with a few of the rows on each side.

    A row is missing where the reference has it at the end and the episode has not: it was not added, or was removed.
    """
    differences: dict[str, Any] = {}
    for name in sorted(reference.keys() | found.keys()):
        wanted, got = reference.get(name, TableChange()), found.get(name, TableChange())
        # final = beginning + added - removed on either side, and the beginning is the same.
        apart = _counted(wanted.added) + _counted(got.removed)
        other = _counted(got.added) + _counted(wanted.removed)
        missing, extra = list((apart - other).elements()), list((other - apart).elements())
        if missing or extra:
            differences[name] = {
                "missing": [msgspec.json.decode(row) for row in missing[:SHOWN_ROWS]],
                "extra": [msgspec.json.decode(row) for row in extra[:SHOWN_ROWS]],
                "missing_rows": len(missing),
                "extra_rows": len(extra),
            }
    return differences


def _counted(rows: Iterable[Row]) -> Counter[bytes]:
    return Counter(map(encode_row, rows))


def _value(content: str) -> Any:
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        return content
