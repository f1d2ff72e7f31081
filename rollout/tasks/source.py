"""Sources of tasks: the contract that the engine uses, and a source in memory.

A dataset's tasks are the lines of files (`rollout.tasks.jsonl`), or what a suite made of its own data (`TaskList`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.task import Task


class Problem(msgspec.Struct, frozen=True):
    """Something a person should fix in a data file."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class Tasks(Protocol):
    """The tasks of a dataset, in order, each id once. `str` of it says where they are."""

    @property
    def paths(self) -> Sequence[Path]:
        """The files that hold them, which no output may overwrite."""
        ...

    @property
    def ids(self) -> Sequence[str]: ...

    @property
    def problems(self) -> Sequence[Problem]:
        """What was left out, and why."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of all of them."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Task]: ...

    def read(self, index: int) -> Task:
        """The task at this position of `ids`. Raises ConfigError where it is there no longer."""
        ...


class TaskList:
    """Tasks in memory, for a source of moderate size."""

    def __init__(self, name: str, tasks: Sequence[Task], paths: Sequence[Path] = ()) -> None:
        self.paths = tuple(paths)
        self.ids = [task.id for task in tasks]
        self.problems: list[Problem] = []
        self._name = name
        self._tasks = tasks
        if len(set(self.ids)) < len(self.ids):
            twice = next(task_id for task_id in self.ids if self.ids.count(task_id) > 1)
            raise ConfigError(f"{name}: two tasks have the id {twice!r}")

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks)

    def __str__(self) -> str:
        return self._name

    def read(self, index: int) -> Task:
        return self._tasks[index]

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for task in self._tasks:
            digest.update(msgspec.msgpack.encode(task, order="deterministic"))
        return digest.hexdigest()[:16]


BY_PEOPLE = 1_000_000
"""The number of the first attempt at a task that a person asked for. No strategy comes that far, so attempts of the run
and of people never have the same id."""


def trajectory_id(task_id: str, number: int) -> str:
    """The id of a task's attempt: the first one keeps the task's own id, as in AgentSkiller records. Attempts that a
    person asked for are numbered by themselves: `task~+1`."""
    if number >= BY_PEOPLE:
        return f"{task_id}~+{number - BY_PEOPLE + 1}"
    return task_id if number == 0 else f"{task_id}~{number}"


def attempt_number(task_id: str, trajectory: str) -> int:
    """The number of an attempt at a task, of its id."""
    if trajectory == task_id:
        return 0
    text = trajectory.rpartition("~")[2]
    return int(text) + BY_PEOPLE - 1 if text.startswith("+") else int(text)


def refuse_clashes(tasks: Tasks, samples: int) -> None:
    """Raise where the id of one task's further attempt (`a~1`) is the id of another task."""
    known = set(tasks.ids)
    for task_id in tasks.ids:
        for number in range(1, samples):
            if trajectory_id(task_id, number) in known:
                raise ConfigError(
                    f"{tasks}: attempt {number} at task {task_id!r} would have the id of another task, "
                    f"{trajectory_id(task_id, number)!r}; rename that task, or set samples: 1"
                )
