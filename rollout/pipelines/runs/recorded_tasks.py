"""The tasks of a run, read again from the files that its run file names."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.task import Task
from rollout.store.damage import DATA_ERRORS
from rollout.store.files.run_file import read_run_file
from rollout.tasks.jsonl import TaskFile


class RecordedTaskFiles:
    """Looks up tasks by dataset and id. Each dataset's files are scanned once, and again where they have changed."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._kept: dict[str, tuple[object, TaskFile | None, dict[str, int]]] = {}

    def find(self, dataset: str, task_id: str) -> Task | None:
        """A task; None where its files are gone or no longer hold it, or where the tasks came from no file."""
        paths = self._paths(dataset)
        seen = tuple((path, os.stat(path).st_mtime_ns) for path in paths if path.is_file())
        if dataset not in self._kept or self._kept[dataset][0] != seen:
            file = None
            if paths and len(seen) == len(paths):
                with contextlib.suppress(ConfigError, OSError):
                    file = TaskFile(*paths)
            places = {} if file is None else {name: place for place, name in enumerate(file.ids)}
            self._kept[dataset] = (seen, file, places)
        _, file, places = self._kept[dataset]
        if file is None or task_id not in places:
            return None
        try:
            return file.read(places[task_id])
        except (ConfigError, OSError):
            return None

    def _paths(self, dataset: str) -> list[Path]:
        try:
            named = msgspec.convert(read_run_file(self._run_dir)["datasets"][dataset]["tasks"], list[str])
        except (ConfigError, *DATA_ERRORS):
            return []
        # A run that was moved may have taken its tasks with it.
        return [path if path.is_file() else self._run_dir / path.name for path in map(Path, named)]
