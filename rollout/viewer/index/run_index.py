"""The index of a run: made when the run is first looked at, kept up to date, and read by queries.

One process writes it at a time, under a lock of its own that no run takes; others read what is there. A large run is
taken in in the background, and queries see what is in already.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rollout.core.errors import JournalError, RolloutError
from rollout.store.files.filter_file import read_filter_names
from rollout.store.locks import take_lock
from rollout.store.private import PRIVATE_FILE
from rollout.store.run_dir import FILTERS, wal_of
from rollout.viewer.answers.runs import IndexState
from rollout.viewer.index.schema import SCHEMA, VERSION, cached_path, index_path, read_marks_version, read_version
from rollout.viewer.index.writer import IndexWriter, Outdated

if TYPE_CHECKING:
    from rollout.viewer.open_runs import OpenRun

MOST_AT_ONCE = 1_000
"""Attempts that are indexed before a query is answered; more are indexed in the background."""
FIRST_WAIT = 2.0
"""Seconds that a query waits at most while another one indexes the first attempts."""
NO_MARKS = -1
"""The version of marks of an index that has taken none in."""
MOST_READERS = 4
"""Connections that read an index. Further queries wait."""
READER_CACHE_KIB = 16 * 1024
CACHE_KIB = 32 * 1024
FTS_PENDING = 8 << 20
"""Bytes of words that are collected before they are written."""


class _Stopped(Exception):
    """The index was stopped while it was brought up to date."""


class RunIndex:
    """The index of one run."""

    def __init__(self, run: OpenRun) -> None:
        self._run = run
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._readers: list[tuple[object, sqlite3.Connection]] = []
        self._places = threading.BoundedSemaphore(MOST_READERS)
        self._path: Path | None = None
        self._writer: tuple[IndexWriter, sqlite3.Connection, int] | None = None
        self._seen: object = None
        self._filters_seen: object = None
        self._marks_seen: object = None
        self._another_seen: object = None
        self.marks_version = NO_MARKS
        """The version of people's marks that the index has."""
        self.state = IndexState(0, 0, False)
        self.version = 0
        """Changes with what is in the index, as far as this process wrote it."""
        self.attempts_version = 0
        """The same of attempts alone: not with marks, nor with what filters found."""
        self.is_wanted = False
        """Whether the run was looked at."""
        self._is_stopped = False

    def freshen(self) -> None:
        """Bring the index up to date if that takes no time; otherwise leave it to `sync`."""
        self.is_wanted = True
        # A page asks for several things at once, and none of them is to be answered before there is anything.
        is_beginning = not self.state.is_ready and self.state.rows < MOST_AT_ONCE
        if self._writing.acquire(timeout=FIRST_WAIT if is_beginning else 0):
            try:
                self._sync(MOST_AT_ONCE, lambda state: None)
            finally:
                self._writing.release()

    def sync(self, tell: Callable[[IndexState], None] = lambda state: None) -> None:
        """Bring the index up to date, however long it takes, unless it is stopped."""
        with self._writing:
            was_ready = self.state.is_ready
            self._sync(None, tell)
            if self._writer is not None and not was_ready:
                # What was needed to make the index is free for queries.
                self._writer[1].execute("PRAGMA shrink_memory")

    @property
    def is_behind(self) -> bool:
        """Whether `sync` has something to do."""
        return not self.state.is_ready or self._versions() != (self._seen, self._filters_seen, self._marks_seen)

    @property
    def is_growing(self) -> bool:
        """Whether it is being made."""
        return not self.state.is_ready and self.state.problem is None

    @property
    def is_there(self) -> bool:
        """Whether there is something to read."""
        return self._path is not None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for queries. Raises JournalError where there is no index."""
        if self._path is None:
            raise JournalError(f"{self._run.path}: has no index to search: {self.state.problem or 'it is being made'}")
        with self._places:
            file, connection = self._take_reader(self._path)
            try:
                # One transaction: rows, counts and neighbours of an answer are of one moment.
                connection.execute("BEGIN")
                yield connection
                connection.rollback()
            except BaseException:
                connection.close()
                raise
            with self._reading:
                self._readers.append((file, connection))

    def _take_reader(self, path: Path) -> tuple[object, sqlite3.Connection]:
        # The file is another one where this process or another made the index again.
        file = _file_of(path)
        with self._reading:
            while self._readers:
                opened, connection = self._readers.pop()
                if opened == file:
                    return file, connection
                connection.close()
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB}")
        return file, connection

    def stop(self) -> None:
        """End a `sync` in another thread after its current transaction. What is missing is indexed the next time."""
        self._is_stopped = True

    def close(self) -> None:
        """Close what is open."""
        self.stop()
        with self._writing:
            self._close_writer()
        with self._reading:
            for _, connection in self._readers:
                connection.close()
            self._readers.clear()

    # ---- writing ------------------------------------------------------------------------------------------------

    def _versions(self) -> tuple[object, object, object]:
        return self._run.version(), _stamp(self._run.path / FILTERS), self._run.marks_version

    def _sync(self, most: int | None, tell: Callable[[IndexState], None]) -> None:
        seen, filters, marks = self._versions()
        if self.state.is_ready and (seen, filters, marks) == (self._seen, self._filters_seen, self._marks_seen):
            return
        try:
            writer = self._open_writer()
            if writer is None:
                self._follow_another()
                return
            left = 0
            if not self.state.is_ready or seen != self._seen:
                try:
                    left = self._take_in(writer, most, tell)
                except Outdated:
                    writer = self._begin_again()
                    left = self._take_in(writer, most, tell)
                self.attempts_version += 1
            if filters != self._filters_seen:
                writer.write_filters(read_filter_names(self._run.path / FILTERS))
                self._filters_seen = filters
            if marks != self._marks_seen:
                changes = self._run.mark_changes(self.marks_version)
                writer.write_marks(changes)
                self._marks_seen, self.marks_version = marks, changes.version
            self.version += 1
            if not left:
                self._seen = seen
            self._say(tell, len(writer.known), len(writer.known) + left, is_ready=not left)
        except _Stopped:
            return
        except (OSError, sqlite3.Error) as error:
            self._close_writer()
            self.state = IndexState(self.state.rows, self.state.of, False, f"it cannot be written: {error}")
        except RolloutError as error:
            # The journal is damaged, or being made. What was taken in before stays.
            self.state = IndexState(self.state.rows, self.state.of, False, str(error))
            self._seen = seen

    def _take_in(self, writer: IndexWriter, most: int | None, tell: Callable[[IndexState], None]) -> int:
        def progress(rows: int, of: int) -> None:
            self.version += 1
            self.attempts_version += 1
            self._say(tell, rows, of, is_ready=False)
            if self._is_stopped:
                raise _Stopped

        with self._run.reading() as reader:
            writer.check_origin(reader)
            left = writer.follow(reader, is_live=self._run.is_live, most=most, progress=progress)
        if self._run.has_people:
            with self._run.reading_people() as reader:
                left += writer.follow_people(reader, most=most, progress=progress)
        return left

    def _say(self, tell: Callable[[IndexState], None], rows: int, of: int, *, is_ready: bool) -> None:
        state = IndexState(rows, of, is_ready or (self.state.is_ready and of - rows <= MOST_AT_ONCE))
        if state != self.state:
            self.state = state
            tell(state)

    def _open_writer(self) -> IndexWriter | None:
        """The writer; None where another process has it."""
        if self._writer is not None:
            return self._writer[0]
        path = index_path(self._run.path)
        try:
            return self._open_at(path)
        except (OSError, sqlite3.OperationalError):
            if path == cached_path(self._run.path):
                raise
            # A disk that can only be read, whatever the permissions say.
            return self._open_at(cached_path(self._run.path))

    def _open_at(self, path: Path) -> IndexWriter | None:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        try:
            take_lock(lock, "")
        except JournalError:
            self._path = path if path.exists() else None
            return None
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, lock)
            if not path.exists():  # see store/open_databases.py
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))
            connection = self._connect(path)
            undo.callback(connection.close)
            writer = IndexWriter(connection)
            undo.pop_all()
        self._writer, self._path = (writer, connection, lock), path
        self._forget()
        return writer

    def _forget(self) -> None:
        """Compare everything with a file that was just opened: another process may have written it, or none."""
        self._seen = self._filters_seen = self._marks_seen = None
        self.marks_version = NO_MARKS

    def _connect(self, path: Path) -> sqlite3.Connection:
        """Open an index for writing; a new one where there is none that this version can use."""
        connection = None
        try:
            connection = _open_database(path)
            version = read_version(connection)
            if version == VERSION:
                connection.execute("SELECT count(*) FROM meta").fetchone()
                return connection
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            version = -1
        if version != 0 or connection is None:
            if connection is not None:
                connection.close()
            _make_empty(path)
            connection = _open_database(path)
        connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        connection.execute("INSERT INTO docs(docs, rank) VALUES ('hashsize', ?)", (FTS_PENDING,))
        return connection

    def _begin_again(self) -> IndexWriter:
        """Throw the index away and begin a new one."""
        assert self._writer is not None
        _, connection, lock = self._writer
        assert self._path is not None
        connection.close()
        _make_empty(self._path)
        connection = self._connect(self._path)
        self._writer = IndexWriter(connection), connection, lock
        self._forget()
        return self._writer[0]

    def _close_writer(self) -> None:
        if self._writer is not None:
            _, connection, lock = self._writer
            connection.close()
            os.close(lock)
            self._writer = None

    def _follow_another(self) -> None:
        """Another process keeps the index up to date: count what it has so far, if that changed."""
        if self._path is None:
            self.state = IndexState(0, 0, False, "another process is beginning it")
            return
        seen = _stamp(self._path), _stamp(wal_of(self._path)), self._run.version()
        if seen == self._another_seen:
            return
        with self.reading() as connection:
            (rows,) = connection.execute("SELECT count(*) FROM attempts").fetchone()
            self.marks_version = read_marks_version(connection)
        with self._run.reading() as reader:
            of = reader.count_ended()
        self.version += 1
        self.attempts_version += 1
        self._another_seen = seen
        self.state = IndexState(rows, max(rows, of), rows >= of)


def _make_empty(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))


def _open_database(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30.0)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # What a crash loses is made again.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _file_of(path: Path) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _stamp(path: Path) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
