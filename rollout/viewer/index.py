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
from rollout.store.filter_file import read_filter_names
from rollout.store.locks import take_lock
from rollout.store.private import PRIVATE_FILE
from rollout.store.run_dir import FILTERS
from rollout.viewer.answers.runs import IndexState
from rollout.viewer.index_schema import SCHEMA, VERSION, cached_path, index_path, read_version
from rollout.viewer.index_writer import IndexWriter, Outdated

if TYPE_CHECKING:
    from rollout.viewer.open_runs import OpenRun

MOST_AT_ONCE = 1_000
"""Attempts that are taken in before a query is answered; more are taken in behind its back."""
MOST_KEPT = 4
CACHE_KIB = 32 * 1024
FTS_PENDING = 8 << 20
"""Bytes of words that are collected before they are written."""


class RunIndex:
    """The index of one run."""

    def __init__(self, run: OpenRun) -> None:
        self._run = run
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        self._path: Path | None = None
        self._writer: tuple[IndexWriter, sqlite3.Connection, int] | None = None
        self._seen: object = None
        self._side_seen: object = None
        self.state = IndexState(0, 0, False)
        self.version = 0
        """Changes with what is in the index, as far as this process wrote it."""
        self.is_wanted = False
        """Whether anybody has looked at the run."""

    def freshen(self) -> None:
        """Bring the index up to date if that takes no time; otherwise leave it to whoever calls `sync`."""
        self.is_wanted = True
        if self._writing.acquire(blocking=False):
            try:
                self._sync(MOST_AT_ONCE, lambda state: None)
            finally:
                self._writing.release()

    def sync(self, tell: Callable[[IndexState], None] = lambda state: None) -> None:
        """Bring the index up to date, however long it takes."""
        with self._writing:
            self._sync(None, tell)

    @property
    def is_behind(self) -> bool:
        """Whether `sync` has something to do."""
        return not self.state.is_ready or self._versions() != (self._seen, self._side_seen)

    @property
    def is_there(self) -> bool:
        """Whether there is something to read."""
        return self._path is not None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for queries. Raises JournalError where there is no index."""
        if self._path is None:
            raise JournalError(f"{self._run.path}: has no index to search: {self.state.problem or 'it is being made'}")
        with self._reading:
            connection = self._readers.pop() if self._readers else None
        if connection is None:
            connection = sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        try:
            # One transaction: rows, counts and neighbours of an answer are of one moment.
            connection.execute("BEGIN")
            yield connection
            connection.rollback()
        except BaseException:
            connection.close()
            raise
        with self._reading:
            if len(self._readers) < MOST_KEPT:
                self._readers.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close what is open."""
        with self._writing:
            self._close_writer()
        with self._reading:
            for connection in self._readers:
                connection.close()
            self._readers.clear()

    # ---- writing ------------------------------------------------------------------------------------------------

    def _versions(self) -> tuple[object, object]:
        side = (_stamp(self._run.path / FILTERS), self._run.marks_version)
        return self._run.version(), side

    def _sync(self, most: int | None, tell: Callable[[IndexState], None]) -> None:
        seen, side = self._versions()
        if self.state.is_ready and (seen, side) == (self._seen, self._side_seen):
            return
        try:
            writer = self._open_writer()
            if writer is None:
                self._follow_another()
                return
            try:
                left = self._take_in(writer, most, tell)
            except Outdated:
                writer = self._begin_again()
                left = self._take_in(writer, most, tell)
            if side != self._side_seen:
                writer.write_filters(read_filter_names(self._run.path / FILTERS))
                writer.write_marks(self._run.all_marks())
                self._side_seen = side
            self.version += 1
            if not left:
                self._seen = seen
            self._say(tell, len(writer.known), len(writer.known) + left, is_ready=not left)
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
            self._say(tell, rows, of, is_ready=False)

        with self._run.reading() as reader:
            writer.check_origin(reader)
            left = writer.follow(reader, is_people=False, most=most, progress=progress)
        if self._run.has_people:
            with self._run.reading_people() as reader:
                left += writer.follow(reader, is_people=True, most=most, progress=progress)
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
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))
            connection = self._connect(path)
            undo.callback(connection.close)
            writer = IndexWriter(connection)
            undo.pop_all()
        self._writer, self._path = (writer, connection, lock), path
        return writer

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
        with self._reading:
            for reader in self._readers:
                reader.close()
            self._readers.clear()
        _make_empty(self._path)
        connection = self._connect(self._path)
        self._writer = IndexWriter(connection), connection, lock
        self._side_seen = None
        return self._writer[0]

    def _close_writer(self) -> None:
        if self._writer is not None:
            _, connection, lock = self._writer
            connection.close()
            os.close(lock)
            self._writer = None

    def _follow_another(self) -> None:
        """Another process keeps the index up to date: count what it has so far."""
        if self._path is None:
            self.state = IndexState(0, 0, False, "another process is beginning it")
            return
        with self._reading:
            pass
        with self.reading() as connection:
            (rows,) = connection.execute("SELECT count(*) FROM attempts").fetchone()
        with self._run.reading() as reader:
            of = len(reader.ended_episodes())
        self.version += 1
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


def _stamp(path: Path) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
