"""The state of a world during a recorded attempt, found by making its calls again on a fresh one.

Each answer is compared with the record (`rollout.scoring.replay`); where one differs, what was found up to there still
holds, and a note says where the replay ended. It also ends before an irreversible call, which is never made again. Code
that the run's configuration names is imported for it, as `rollout score` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.changes import Changes, Row, TableChange, encode_row, table_change
from rollout.core.errors import ConfigError, RolloutError
from rollout.engine.plan import with_offered_names, world_seed
from rollout.environments.find import find_environment
from rollout.environments.resources import Resources
from rollout.pipelines.run_code import refuse_code_of_runs
from rollout.pipelines.saved_config import saved_config
from rollout.scoring.reference import read_changes
from rollout.scoring.replay import replay
from rollout.trajectories.trajectory import Trajectory

LONGEST = 120.0
"""Seconds that a replay may take."""


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """A value that a step changed."""

    path: tuple[str, ...]
    """Table, row, and the fields that lead to it."""
    before: Any
    """None where it was not there."""
    after: Any


class StepChanges(msgspec.Struct, frozen=True):
    """What the calls of one message changed."""

    message: int
    changes: tuple[FieldChange, ...]


class ReplayedStates(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt changed."""

    before: dict[str, tuple[Row, ...]]
    """The rows that are no longer as they were, by table."""
    after: dict[str, tuple[Row, ...]]
    """The rows as they are at the end, where they are new or changed."""
    steps: tuple[StepChanges, ...]
    note: str | None = None
    """Why the replay ended early."""


async def replay_states(run_dir: Path, dataset: str, trajectory: Trajectory) -> ReplayedStates:
    """Make the calls of an attempt again and look at the world after each message. Raises RolloutError, with the
    reason, where no world can be opened or looked into."""
    try:
        async with asyncio.timeout(LONGEST):
            return await _replay(run_dir, dataset, trajectory)
    except TimeoutError as error:
        raise ConfigError(f"the replay takes longer than {LONGEST:g} seconds") from error


async def _replay(run_dir: Path, dataset: str, trajectory: Trajectory) -> ReplayedStates:
    config = saved_config(run_dir)
    refuse_code_of_runs(config)
    if dataset not in config.datasets:
        raise ConfigError(f"{run_dir}: its configuration has no dataset {dataset!r}")
    settings = config.datasets[dataset]
    environment = find_environment(dataset, settings)
    if environment.rescoring != "replay":
        raise ConfigError("its world cannot be brought back by replay: it is a browser, or has no tables")
    async with Resources(config) as resources, environment.open(resources) as opened:
        tasks = environment.tasks
        if tasks is None or trajectory.task_id not in tasks.ids:
            raise ConfigError(f"the task {trajectory.task_id!r} is no longer in {tasks}")
        task = with_offered_names(tasks.read(list(tasks.ids).index(trajectory.task_id)), opened)
        world = opened.make_world(task)
        seed = world_seed(config.seed if settings.seed is None else settings.seed, dataset, task.id)
        found: list[tuple[int, Changes]] = []
        note = None
        try:
            made = replay(
                world, task, seed, trajectory, opened.user_world(task, world), irreversible=settings.irreversible
            )
            async for called in made:
                changes = await read_changes(world)
                if changes is None:
                    raise ConfigError("its world has no tables to look at")
                if found and found[-1][0] == called.message:
                    found.pop()
                found.append((called.message, changes))
        except ConfigError:
            raise
        except RolloutError as error:
            note = f"The replay ended early: {error}"
        finally:
            await world.close()
    return _as_states(found, note)


def _as_states(found: Sequence[tuple[int, Changes]], note: str | None) -> ReplayedStates:
    steps = []
    last: Changes = {}
    for message, changes in found:
        made = tuple(changed_fields(last, changes))
        if made:
            steps.append(StepChanges(message, made))
        last = changes
    return ReplayedStates(
        before={table: change.removed for table, change in last.items() if change.removed},
        after={table: change.added for table, change in last.items() if change.added},
        steps=tuple(steps),
        note=note,
    )


def changed_fields(before: Changes, after: Changes) -> list[FieldChange]:
    """What changed between two moments, each given by what differs from the beginning."""
    found: list[FieldChange] = []
    none = TableChange()
    for table in sorted(before.keys() | after.keys()):
        then, now = before.get(table, none), after.get(table, none)
        # A row is gone if it was added before, or is removed only now; and the other way round.
        change = table_change([*then.added, *now.removed], [*now.added, *then.removed])
        left = list(change.added)
        for row in change.removed:
            partner = max(left, key=lambda other, row=row: _likeness(row, other), default=None)  # type: ignore[misc]
            if partner is None or not _likeness(row, partner):
                found.append(FieldChange(path=(table, _name(row)), before=row, after=None))
                continue
            left.remove(partner)
            found += _fields((table, _name(row)), row, partner)
        found += [FieldChange(path=(table, _name(row)), before=None, after=row) for row in left]
    return found


def _likeness(row: Row, other: Row) -> int:
    """How surely two rows are the same one before and after: 0 for not at all."""
    keys = [name for name in row if _is_key(name)]
    if keys and any(row[name] != other.get(name) for name in keys if name in ("id", "key", "file")):
        return 0
    same = sum(row[name] == other.get(name) for name in row)
    return same if 2 * same >= len(row) or any(row[name] == other.get(name) for name in keys) else 0


def _is_key(name: str) -> bool:
    return name in ("id", "key", "file") or name.endswith("_id")


def _name(row: Row) -> str:
    """What a row is called: the value of its key, or else the row itself."""
    for name in ("id", "key", "file", *sorted(row)):
        if name in row and _is_key(name) and isinstance(row[name], str | int):
            return str(row[name])
    text = encode_row(row).decode()
    return text if len(text) <= 80 else f"{text[:79]}…"


def _fields(path: tuple[str, ...], before: Any, after: Any) -> list[FieldChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for name in dict.fromkeys([*before, *after]):
            if before.get(name) != after.get(name) or (name in before) != (name in after):
                found += _fields((*path, str(name)), before.get(name), after.get(name))
        return found
    return [FieldChange(path=path, before=before, after=after)]
