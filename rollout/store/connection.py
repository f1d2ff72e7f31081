"""Opening the journal's database, for writing and for reading.

SQLite opens a database whose write-ahead log is gone or broken without a word and drops what was in the log. So the
files are checked before every opening (`refuse_damaged_files`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from rollout.core.errors import JournalError
from rollout.store.damage import damaged, read_error, reading
from rollout.store.migrations import migrate, present_as_newest, read_version, refuse_newer
from rollout.store.open_databases import TrackedConnection, opening, track
from rollout.store.private import PRIVATE_FILE
from rollout.store.recovery.wal import WAL_HEADER, lost_frames
from rollout.store.run_dir import JOURNAL, RUN_FILE, wal_of
from rollout.store.schema import SCHEMA, SCHEMA_VERSION


def connect(run_dir: Path, lock: int, sync: Literal["normal", "full"]) -> sqlite3.Connection:
    """Open the database of a locked run directory for writing: create it if it is not there, migrate it if it is of an
    earlier version. Releases the lock on failure."""
    path = run_dir / JOURNAL
    with contextlib.ExitStack() as undo, opening(path) as is_open:
        undo.callback(os.close, lock)
        refuse_damaged_files(run_dir, is_open)
        try:
            if not is_open:
                # SQLite gives its other files the mode of this one.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))
        except OSError as error:
            raise JournalError(f"{path}: cannot be opened: {error.strerror or error}") from error
        connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, cached_statements=64, factory=TrackedConnection
        )
        undo.callback(connection.close)
        track(connection, path)
        try:
            _prepare(path, connection, sync, is_new=not (run_dir / RUN_FILE).exists())
        except (sqlite3.Error, LookupError) as error:
            raise read_error(path, error) from error
        undo.pop_all()
    return connection


def _prepare(path: Path, connection: sqlite3.Connection, sync: str, is_new: bool) -> None:
    """Bring a database to the newest version of the schema."""
    refuse_newer(path, read_version(connection))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {sync.upper()}")
    if read_version(connection) == 0:
        if not is_new:
            raise LookupError("its tables are missing")
        connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
    migrate(connection)


def reading_mode(path: Path) -> str:
    """The parameters with which SQLite opens a database for reading.

    Without write access SQLite cannot make the index of a log. Where there is none, it opens the database only if told
    that it does not change, and then it ignores the log. Raises JournalError if there is something in it.
    """
    if os.access(path.parent, os.W_OK):
        return "mode=ro"
    if not has_log(path):
        return "mode=ro&immutable=1"
    if not path.with_name(f"{path.name}-shm").is_file():
        raise JournalError(
            f"{path}: its newest entries are in {wal_of(path).name}, which cannot be read on a read-only disk without "
            f"{path.name}-shm; copy the run directory to where you can write, and read the copy"
        )
    return "mode=ro"


def has_log(path: Path) -> bool:
    """Whether there is anything in the write-ahead log of a database."""
    try:
        return wal_of(path).stat().st_size > WAL_HEADER
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def connect_read_only(run_dir: Path) -> Iterator[sqlite3.Connection]:
    """Open the database of a run directory for reading. Writes nothing and waits for no lock."""
    path = run_dir / JOURNAL
    with opening(path) as is_open:
        refuse_damaged_files(run_dir, is_open)
        if not path.is_file():
            raise JournalError(f"{run_dir}: is not a run directory: there is no {JOURNAL} in it")
        uri = f"{path.resolve().as_uri()}?{reading_mode(path)}"
        with reading(path):
            connection = sqlite3.connect(uri, uri=True, check_same_thread=False, factory=TrackedConnection)
        track(connection, path)
    try:
        with reading(path):
            refuse_newer(path, read_version(connection))
            present_as_newest(connection)
        yield connection
    finally:
        connection.close()


def is_begun(run_dir: Path) -> bool:
    """Whether a run was started in a directory. If the very first start was killed or met a full disk, there may be a
    journal without tables; the next start fills it."""
    path = run_dir / JOURNAL
    if not path.is_file():
        return False
    if (run_dir / RUN_FILE).exists():
        return True
    with opening(path) as is_open:
        refuse_damaged_files(run_dir, is_open)
        try:
            with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
                return read_version(connection) > 0
        except sqlite3.Error as error:
            raise read_error(path, error) from error


def refuse_damaged_files(run_dir: Path, is_open: bool) -> None:
    """Raise if a run was started in a directory and its journal, or committed pages in its write-ahead log, are gone or
    broken. `is_open`: as `opening` says; the log was checked then, and is not read again."""
    path = run_dir / JOURNAL
    wal = wal_of(path)
    has_run_file = (run_dir / RUN_FILE).is_file()
    if has_run_file and not path.exists():
        way = f"save what {wal.name} holds (rollout recover {run_dir}), " if wal.is_file() else ""
        raise JournalError(
            f"{path}: the journal is gone, although {run_dir / RUN_FILE} shows that a run was started here; put "
            f"{JOURNAL} back, {way}or start again with --no-resume (the remaining files are moved aside)"
        )
    if path.exists() and not path.is_file():
        raise JournalError(f"{path}: is not a file; put the run's journal back, or choose another run_dir")
    if has_run_file and path.is_file() and path.stat().st_size == 0:
        raise damaged(path, "the file is empty")
    if not is_open and (lost := lost_frames(path)):
        if wal.exists():
            raise damaged(path, f"{wal.name} is damaged: {lost} of its committed pages cannot be reached")
        raise damaged(path, f"{wal.name} is gone, with {lost} pages that were only there")
