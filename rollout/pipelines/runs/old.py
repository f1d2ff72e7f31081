"""Old runs: those that a new start (`--no-resume`) has moved aside, and removing them.

A run that is started again renames the run directory and the output files of the run before, each to its name with the
time behind it. An old run is such a directory together with the outputs that were moved with it.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rollout.core.errors import ConfigError, JournalError
from rollout.pipelines.runs.listing import RUNS, find_runs, is_moved_aside
from rollout.store.files.output_files import locked_outputs
from rollout.store.reading.reader import open_reader
from rollout.store.run_dir import MARKS, lock_run

MOVED_WITHIN = datetime.timedelta(seconds=10)
"""The outputs of a run are moved directly after its directory."""
_STAMP = re.compile(r"\.(\d{8}-\d{6})(?:-\d+)?$")


class OldRun(msgspec.Struct, frozen=True):
    """A run that was moved aside."""

    path: Path
    outputs: tuple[Path, ...]
    """Its output files, under their new names."""
    size: int
    """Bytes of all of it."""
    has_marks: bool = False
    """Whether it holds marks of people."""


def find_old_runs(folder: Path = RUNS) -> list[OldRun]:
    """The runs below a folder that were moved aside. Raises ConfigError where there is no such folder."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: is not a folder")
    found = []
    for path in find_runs(folder):
        if is_moved_aside(path):
            outputs = tuple(_moved_outputs(path))
            sizes = [_size(path), *(_size(output) for output in outputs)]
            found.append(OldRun(path, outputs, sum(sizes), (path / MARKS).exists()))
    return found


def remove_old_run(old: OldRun) -> None:
    """Remove an old run with its outputs. Raises JournalError, and removes nothing, where a process still writes it."""
    with contextlib.ExitStack() as held:
        held.callback(os.close, lock_run(old.path))
        held.enter_context(locked_outputs(old.outputs))
        try:
            for output in old.outputs:
                output.unlink()
            shutil.rmtree(old.path)
        except OSError as error:
            raise JournalError(f"{error.filename or old.path}: cannot be removed: {error.strerror or error}") from error


def _moved_outputs(run_dir: Path) -> Iterator[Path]:
    """The output files that were moved aside with a run. Where its journal cannot be read, they are unknown."""
    moved = _time_in(run_dir.name)
    places: list[Path] = []
    with contextlib.suppress(JournalError), open_reader(run_dir) as journal:
        places = list(journal.outputs().values())
    for place in places:
        for candidate in sorted(place.parent.glob(f"{_escaped(place.name)}.*")):
            is_ours = candidate.is_file() and _STAMP.sub("", candidate.name) == place.name
            when = _time_in(candidate.name)
            if is_ours and when is not None and moved is not None and moved <= when <= moved + MOVED_WITHIN:
                yield candidate


def _escaped(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


def _time_in(name: str) -> datetime.datetime | None:
    found = _STAMP.search(name)
    try:
        return datetime.datetime.strptime(found[1], "%Y%m%d-%H%M%S") if found else None
    except ValueError:
        return None


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file() and not entry.is_symlink())
