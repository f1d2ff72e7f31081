"""The runs of the server, and the open journals of those in use.

Addresses contain a unique short name for each run, so no request contains a path. Journals are opened when they are
first needed and stay open for the next request.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from rollout.core.errors import ConfigError, JournalError
from rollout.pipelines.runs.listing import ListedRun, describe_run, find_runs, is_moved_aside, locate_run
from rollout.pipelines.runs.recorded_tasks import RecordedTaskFiles
from rollout.store.connection import has_log
from rollout.store.files.filter_file import RecordFile
from rollout.store.marks import MarkChanges, MarksFile
from rollout.store.reading.reader import JournalReader, open_reader
from rollout.store.run_dir import FILTERS, JOURNAL, PEOPLE, RUN_FILE, find_run, wal_of
from rollout.store.running import is_running
from rollout.trajectories.filters.marks import Filtered
from rollout.trajectories.person_marks import PersonMark
from rollout.trajectories.trajectory import Trajectory
from rollout.viewer.answers.runs import RunRow
from rollout.viewer.errors import not_found
from rollout.viewer.index.run_index import RunIndex
from rollout.viewer.kept import Kept

T = TypeVar("T")
log = logging.getLogger(__name__)
MOST_KEPT = 4
"""Idle readers of a journal that are kept open for the next request."""
NO_VERSION = -1
"""A version of marks that no file ever had."""
BY_PERSON = re.compile(r"~\+\d+$")
"""The end of the id of an attempt that a person requested."""


class Readers:
    """Readers of one journal. One is used by one thread at a time."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._lock = threading.Lock()
        self._kept: list[tuple[object, JournalReader, contextlib.ExitStack]] = []

    @contextlib.contextmanager
    def borrow(self) -> Iterator[JournalReader]:
        """A reader. Raises JournalError where the journal cannot be read."""
        seen = self._identity()
        reader, opened = self._take(seen)
        try:
            yield reader
        except BaseException:
            opened.close()
            raise
        with self._lock:
            if len(self._kept) < MOST_KEPT:
                self._kept.append((seen, reader, opened))
                return
        opened.close()

    def close(self) -> None:
        """Close the idle readers."""
        with self._lock:
            kept, self._kept = self._kept, []
        for _, _, opened in kept:
            opened.close()

    def _take(self, seen: object) -> tuple[JournalReader, contextlib.ExitStack]:
        stale = []
        try:
            with self._lock:
                while self._kept:
                    identity, reader, opened = self._kept.pop()
                    if identity == seen:
                        return reader, opened
                    stale.append(opened)
        finally:
            for each in stale:
                each.close()
        with contextlib.ExitStack() as stack:
            reader = stack.enter_context(open_reader(self._run_dir))
            return reader, stack.pop_all()
        raise AssertionError

    def _identity(self) -> object:
        """Changes when an open reader no longer shows what is on disk."""
        with contextlib.suppress(OSError):
            found = os.stat(self._run_dir / JOURNAL)
            if os.access(self._run_dir, os.W_OK):
                return found.st_dev, found.st_ino
            # Opened as immutable, unless there is a log.
            return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, has_log(self._run_dir / JOURNAL)
        return None


class OpenRun:
    """A run of the server."""

    def __init__(self, name: str, path: Path, folder: Path) -> None:
        self.name = name
        self.path = path
        self.folder = folder
        self.people_path = path / PEOPLE
        self._readers = Readers(path)
        self._people = Readers(self.people_path)
        self.tasks = RecordedTaskFiles(path)
        self.marks = MarksFile(path)
        self.index = RunIndex(self)
        self._kept = Kept()
        self._lock = threading.Lock()

    def reading(self) -> contextlib.AbstractContextManager[JournalReader]:
        """A reader of the run's own journal."""
        return self._readers.borrow()

    @property
    def has_people(self) -> bool:
        """Whether people have added attempts."""
        return (self.people_path / JOURNAL).is_file()

    def reading_people(self) -> contextlib.AbstractContextManager[JournalReader]:
        """A reader of what people added."""
        return self._people.borrow()

    def directory_of(self, trajectory: str) -> Path:
        """The run directory that holds an attempt, by its id."""
        return self.people_path if self.is_by_person(trajectory) else self.path

    def is_by_person(self, trajectory: str) -> bool:
        """Whether an attempt is one that people added."""
        return BY_PERSON.search(trajectory) is not None and self.has_people

    def reading_of(self, trajectory: str) -> contextlib.AbstractContextManager[JournalReader]:
        """A reader of the journal that holds an attempt."""
        return self.reading_people() if self.is_by_person(trajectory) else self.reading()

    @property
    def is_live(self) -> bool:
        """Whether a process of this machine writes the run."""
        return is_running(self.path)

    def version(self) -> object:
        """Something that changes when a journal of the run does."""
        return tuple(map(_file_version, self._files()))

    def _files(self) -> Iterator[Path]:
        for folder in (self.path, self.people_path):
            yield folder / JOURNAL
            yield wal_of(folder / JOURNAL)
        yield self.path / RUN_FILE

    @property
    def is_moving(self) -> bool:
        """Whether what is shown of the run will go on changing."""
        return self.is_live or self.index.is_growing

    def read_once(self, key: str, read: Callable[[], T], version: object, *, is_moving: bool = False) -> T:
        """What `read` finds, read again only when this version of what it is made of has changed (`Kept`)."""
        return self._kept.get(key, version, read, is_moving=is_moving)

    @property
    def marks_version(self) -> object:
        """Something that changes when people's marks do."""
        try:
            return self.marks.version
        except JournalError as error:
            return str(error)

    def mark_changes(self, since: int) -> MarkChanges:
        """What changed in people's marks after a version; that there are none, with a warning, where their file is
        damaged."""
        try:
            return self.marks.changes(since)
        except JournalError as error:
            log.warning("%s", error)
            return MarkChanges(NO_VERSION, (), (), is_whole=True)

    def marks_of(self, dataset: str, trajectory: str) -> list[PersonMark]:
        """The marks of one trajectory; none, with a warning, where their file is damaged."""
        try:
            return self.marks.of(dataset, trajectory)
        except JournalError as error:
            log.warning("%s", error)
            return []

    def filtered(self, dataset: str, trajectory: Trajectory) -> Filtered | None:
        """The result of `rollout filter` for a trajectory; None if it was not filtered as it is now."""
        path = self.path / FILTERS
        if (version := _file_version(path)) is None:
            return None
        records = self.read_once("filters", lambda: RecordFile(path), version)
        with self._lock:
            return records.get(dataset, trajectory.id, trajectory.messages)

    def row(self) -> RunRow:
        """The run as a row of the list."""
        is_live = self.is_live
        return self.read_once("row", self._read_row, (self.version(), is_live), is_moving=is_live)

    def _read_row(self) -> RunRow:
        return _row_of(self.name, describe_run(self.path, self.folder))

    def close(self) -> None:
        """Close what is open."""
        self.index.close()
        self._readers.close()
        self._people.close()


class OpenRuns:
    """All runs that the server was given: run directories, folders of them, or names below `runs`."""

    def __init__(self, places: Sequence[Path], make: Callable[[str, Path, Path], OpenRun] = OpenRun) -> None:
        self._places = [place for place in places if place.is_dir()]
        self._make = make
        self._runs: dict[str, OpenRun] = {}
        self._by_path: dict[Path, OpenRun] = {}
        self._lock = threading.Lock()
        self.look()

    def look(self) -> list[OpenRun]:
        """All runs on disk now, including new ones."""
        found = []
        with self._lock:
            for place in self._places:
                own = find_run(place)
                paths = [own] if own is not None else [path for path in find_runs(place) if not is_moved_aside(path)]
                folder = own.parent if own is not None else place
                found += [self._open(path, folder) for path in paths if path.name != PEOPLE or own is not None]
        return list(dict.fromkeys(found))

    def opened(self) -> list[OpenRun]:
        """The runs that were found so far."""
        return list(self._runs.values())

    def get(self, name: str) -> OpenRun:
        """The run of this short name. Raises RequestRefused where there is none."""
        found = self._runs.get(name)
        if found is None:
            self.look()
            found = self._runs.get(name)
        if found is None:
            raise not_found(f"there is no run {name[:100]!r}; `api/runs` lists all runs")
        return found

    def close(self) -> None:
        """Close all journals."""
        for run in self._runs.values():
            run.close()

    def _open(self, path: Path, folder: Path) -> OpenRun:
        key = path.resolve()
        if key not in self._by_path:
            title = str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name
            name = self._unused(short_name(title if title != "." else key.name))
            self._by_path[key] = self._runs[name] = self._make(name, path, folder)
        return self._by_path[key]

    def _unused(self, name: str) -> str:
        number, found = 1, name
        while found in self._runs:
            number += 1
            found = f"{name}-{number}"
        return found


def find_places(names: Sequence[str]) -> list[Path]:
    """The folders of runs that arguments of a command name. Raises ConfigError if one does not exist."""
    found = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            found.append(path)
        elif path.is_file():
            raise ConfigError(f"{name}: is a file; expected a run directory, or a folder of runs")
        else:
            found.append(locate_run(name))
    return found


def short_name(title: str) -> str:
    """A title as a name that needs no quoting in an address."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._]+", "-", plain).strip("-.") or "run"


def _row_of(name: str, listed: ListedRun) -> RunRow:
    return RunRow(
        name=name,
        path=str(listed.path),
        title=listed.name,
        config=listed.config,
        started=_time_of(listed.started),
        updated=listed.updated,
        is_live=listed.state == "running",
        model=", ".join(listed.models) or None,
        user_model=", ".join(listed.user_models) or None,
        planned=listed.planned,
        finished=listed.finished,
        failed=listed.failed,
        scored=listed.scored,
        solved=listed.solved,
        mean_reward=listed.mean_reward,
        cost=listed.cost,
        datasets=listed.datasets,
        problem=listed.problem,
    )


def _time_of(started: str | None) -> float | None:
    try:
        return None if started is None else datetime.datetime.fromisoformat(started).timestamp()
    except ValueError:
        return None


def _file_version(path: Path) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
