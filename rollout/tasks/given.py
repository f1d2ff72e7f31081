"""Tasks as Python code gives them: objects, dicts, texts, a JSONL file, or an iterable of any length.

A list is kept in memory. Any other iterable is written to a temporary file, task by task, and read back from there when
a task is due, so a generator may give more tasks than memory holds.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from rollout.core.errors import ConfigError, describe_error
from rollout.core.task import Task
from rollout.tasks.jsonl import TaskFile, parse_task
from rollout.tasks.source import Problem, TaskList, Tasks

TasksLike = Tasks | str | os.PathLike[str] | Iterable[Task | Mapping[str, Any] | str]
"""A JSONL path, or tasks: as `Task`, as a dict with its fields or those of the JSONL form, or as the first message."""


def open_tasks(given: TasksLike, name: str = "tasks") -> Tasks:
    """The tasks that were given. Raises ConfigError where one of them is none, or two have the same id."""
    if isinstance(given, str | os.PathLike):
        return TaskFile(Path(given))
    if hasattr(given, "fingerprint"):
        return given  # type: ignore[return-value]
    if isinstance(given, Task):
        given = [given]
    if not isinstance(given, Iterable) or isinstance(given, Mapping | bytes):
        raise ConfigError(f"{name}: tasks: expected a list of tasks or the path of a JSONL file, got {given!r}")
    if isinstance(given, Sequence):
        return TaskList(name, [_read(entry, place, name) for place, entry in enumerate(given)])
    return SpooledTasks(name, (_read(entry, place, name) for place, entry in enumerate(given)))


def _read(entry: Any, place: int, name: str) -> Task:
    if isinstance(entry, Task):
        return entry
    if isinstance(entry, str):
        return Task(str(place), entry)
    try:
        return parse_task(dict(entry) if isinstance(entry, Mapping) else entry)
    except (KeyError, TypeError, ValueError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else describe_error(error)
        raise ConfigError(f"{name}: entry {place} is no task: {why}") from error


class SpooledTasks:
    """Tasks in a temporary file, of which only ids and places are kept in memory."""

    def __init__(self, name: str, tasks: Iterable[Task]) -> None:
        self.paths: tuple[Path, ...] = ()
        self.ids: list[str] = []
        self.problems: list[Problem] = []
        self._name = name
        self._places = array("Q", [0])
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="rollout-tasks-")  # noqa: SIM115 - open as long as this is
        weakref.finalize(self, self._file.close)
        digest = hashlib.sha256()
        seen: set[str] = set()
        encoder = msgspec.msgpack.Encoder(order="deterministic")
        for task in tasks:
            if task.id in seen:
                raise ConfigError(f"{name}: two tasks have the id {task.id!r}")
            seen.add(task.id)
            data = encoder.encode(task)
            self._file.write(data)
            digest.update(data)
            self.ids.append(task.id)
            self._places.append(self._places[-1] + len(data))
        self._file.flush()
        self.fingerprint = digest.hexdigest()[:16]
        self._decoder = msgspec.msgpack.Decoder(Task)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Task]:
        return map(self.read, range(len(self.ids)))

    def __str__(self) -> str:
        return self._name

    def read(self, index: int) -> Task:
        begin, end = self._places[index], self._places[index + 1]
        return self._decoder.decode(os.pread(self._file.fileno(), end - begin, begin))
