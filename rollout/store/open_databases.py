"""The databases that this process has open.

SQLite keeps processes apart by POSIX record locks. The system drops all locks that a process has on a file when the
process closes any descriptor of that file, even one that never locked anything. So while this process has a connection
to a database, nothing may open the database, or the index of its log, directly: other processes would take the database
for unused, and truncate what is mapped here.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

FileIdentity = tuple[int, int]
"""Device and inode."""
_guard = threading.Lock()
_opening: dict[Path, threading.Lock] = {}
_connections: weakref.WeakSet[TrackedConnection] = weakref.WeakSet()


class TrackedConnection(sqlite3.Connection):
    """A connection that `opening` knows of until it is closed. For `sqlite3.connect(…, factory=TrackedConnection)`
    inside of `opening`."""

    file: FileIdentity | None = None

    def close(self) -> None:
        super().close()
        self.file = None


@contextlib.contextmanager
def opening(path: Path) -> Iterator[bool]:
    """Hold off other threads that open the same database. Yields whether this process has it open already, in which
    case its files must not be opened but by SQLite."""
    with _guard:
        lock = _opening.setdefault(path.absolute(), threading.Lock())
    with lock:
        yield is_open(path)


def track(connection: TrackedConnection, path: Path) -> None:
    """Remember a connection that was just opened."""
    with _guard:
        connection.file = _identity(path)
        _connections.add(connection)


def is_open(path: Path) -> bool:
    """Whether this process has a tracked connection to a database."""
    identity = _identity(path)
    if identity is None:
        return False
    with _guard:
        return any(connection.file == identity for connection in _connections)


def _identity(path: Path) -> FileIdentity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
