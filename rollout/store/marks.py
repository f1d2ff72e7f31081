"""The marks of people on the trajectories of a run: `<run>/marks.db`.

A database separate from the journal, so that marking never waits for a run and a run never waits for marking. Several
processes may mark at once: SQLite's locks serialize their transactions. Every call opens the file by its name, so a run
that is moved aside takes its marks with it.

The file is created under a temporary name and linked when it is complete. Changes (a mark is set or removed) are
numbered, and the number of a mark is that of the change that set it. Numbers are therefore never reused, and everything
that changed since a version has a higher number.

Marks on trajectories that people made (`<run>/people`) are in the file of the run that contains them.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.errors import ConfigError, JournalError
from rollout.store.connection import reading_mode
from rollout.store.private import PRIVATE_FILE
from rollout.store.run_dir import JOURNAL, MARKS, PEOPLE, RUN_FILE
from rollout.trajectories.person_marks import (
    MarkKind,
    PersonMark,
    read_kind,
    read_message,
    read_name,
    read_text,
    read_value,
)

MARKS_VERSION = 1
WAIT = 30.0
"""Seconds to wait for other processes that mark."""
MARKS_SCHEMA = """
CREATE TABLE marks(
    number INTEGER PRIMARY KEY, dataset TEXT NOT NULL, trajectory TEXT NOT NULL, message INTEGER, kind TEXT NOT NULL,
    value REAL, text TEXT, author TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX marks_by_trajectory ON marks(dataset, trajectory);
CREATE INDEX marks_by_kind ON marks(kind);

-- The marks that were removed: the number of the removal, and that of the mark.
CREATE TABLE removed(
    change INTEGER PRIMARY KEY, number INTEGER NOT NULL, dataset TEXT NOT NULL, trajectory TEXT NOT NULL,
    at REAL NOT NULL);
"""
_COLUMNS = "number, dataset, trajectory, message, kind, value, text, author, at"
"""In the order of the fields of PersonMark."""
_NEWEST = "SELECT max((SELECT coalesce(max(number), 0) FROM marks), (SELECT coalesce(max(change), 0) FROM removed))"
_OPPOSITES: dict[MarkKind, MarkKind] = {"good": "bad", "bad": "good"}
_CLOSED = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
"""SQLite's primary result codes for a file that may not be opened or written."""
LARGEST = 2**63 - 1


class RemovedMark(msgspec.Struct, frozen=True):
    """The removal of a mark."""

    number: int
    dataset: str
    id: str
    """The trajectory that it was on."""


class MarkChanges(msgspec.Struct, frozen=True):
    """The changes since a version. To apply them, remove `removed`, then add `marks`."""

    version: int
    """The version that this leads to."""
    marks: tuple[PersonMark, ...]
    removed: tuple[RemovedMark, ...]
    is_whole: bool = False
    """Whether `marks` is the complete list, because this file never had the requested version."""


def place_of_marks(run_dir: Path) -> Path:
    """The file with the marks of a run directory; of `people` in a run, that of the run."""
    if run_dir.absolute().name == PEOPLE:
        parent = run_dir.absolute().parent
        if _is_run(parent):
            return (run_dir.parent if run_dir.name == PEOPLE else parent) / MARKS
    return run_dir / MARKS


def _is_run(folder: Path) -> bool:
    return (folder / JOURNAL).is_file() or (folder / RUN_FILE).is_file()


class MarksFile:
    """The marks of one run. Reading creates no file; the first mark does."""

    def __init__(self, run_dir: Path) -> None:
        self.path = place_of_marks(run_dir)

    # ---- changing ------------------------------------------------------------------------------------------------

    def add(
        self,
        dataset: str,
        trajectory: str,
        kind: str,
        *,
        author: str,
        message: int | None = None,
        value: float | None = None,
        text: str | None = None,
    ) -> PersonMark:
        """Set a mark. Raises ConfigError if it is not valid, and JournalError if it cannot be stored.

        Of one author and place, `good` replaces `bad` and the other way round, and a verdict replaces the earlier one.
        An equal mark that exists already is returned instead of being set twice. Notes are always added.
        """
        checked = read_kind(kind)
        wanted = PersonMark(
            number=0,
            dataset=dataset,
            id=trajectory,
            message=read_message(message),
            kind=checked,
            value=read_value(checked, value),
            text=read_text(checked, text),
            author=read_name("an author", author),
            at=time.time(),
        )
        with self._writing() as database:
            rivals = [] if checked == "note" else _rivals(database, wanted)
            alike = (mark for mark in rivals if (mark.kind, mark.value, mark.text) == (checked, value, wanted.text))
            if (known := next(alike, None)) is not None:
                return known
            for rival in rivals:
                _remove(database, rival, wanted.at)
            mark = msgspec.structs.replace(wanted, number=_newest(database) + 1)
            marks = ", ".join("?" * len(PersonMark.__struct_fields__))
            database.execute(f"INSERT INTO marks({_COLUMNS}) VALUES ({marks})", msgspec.structs.astuple(mark))
        return mark

    def remove(self, number: int) -> PersonMark:
        """Remove a mark, and return it. Raises ConfigError where there is none of this number."""
        if self.path.exists() and 0 < number <= LARGEST:
            with self._writing() as database:
                for mark in _read(database, "WHERE number = ?", (number,)):
                    _remove(database, mark, time.time())
                    return mark
        raise ConfigError(f"{self.path}: there is no mark {number}; it may have been removed or replaced before")

    # ---- reading -------------------------------------------------------------------------------------------------

    def all(self, kinds: Sequence[str] = ()) -> list[PersonMark]:
        """All marks, or those of some kinds, in order of their numbers."""
        where = f"WHERE kind IN ({', '.join('?' * len(kinds))}) " if kinds else ""
        with self._reading() as database:
            return [] if database is None else list(_read(database, f"{where}ORDER BY number", kinds))

    def of(self, dataset: str, trajectory: str) -> list[PersonMark]:
        """The marks of one trajectory."""
        with self._reading() as database:
            where = "WHERE dataset = ? AND trajectory = ? ORDER BY number"
            return [] if database is None else list(_read(database, where, (dataset, trajectory)))

    def by_trajectory(self) -> dict[tuple[str, str], tuple[PersonMark, ...]]:
        """All marks, by dataset and id of the trajectory."""
        found: dict[tuple[str, str], list[PersonMark]] = {}
        for mark in self.all():
            found.setdefault((mark.dataset, mark.id), []).append(mark)
        return {key: tuple(marks) for key, marks in found.items()}

    @property
    def version(self) -> int:
        """The number of the last change; 0 where there was none."""
        with self._reading() as database:
            return 0 if database is None else _newest(database)

    @property
    def last_changed(self) -> float | None:
        """When a mark was last set or removed, in seconds since 1970; None where none ever was."""
        with self._reading() as database:
            if database is None:
                return None
            (at,) = database.execute(
                "SELECT max(at) FROM (SELECT at FROM (SELECT at FROM marks ORDER BY number DESC LIMIT 1) "
                "UNION ALL SELECT at FROM (SELECT at FROM removed ORDER BY change DESC LIMIT 1))"
            ).fetchone()
            return None if at is None else float(at)

    def changes(self, since: int) -> MarkChanges:
        """What changed after a version."""
        with self._reading() as database:
            if database is None:
                return MarkChanges(0, (), (), is_whole=since != 0)
            version = _newest(database)
            is_whole = not 0 <= since <= version
            begin = 0 if is_whole else since
            marks = tuple(_read(database, "WHERE number > ? ORDER BY number", (begin,)))
            removed = database.execute(
                "SELECT number, dataset, trajectory FROM removed WHERE change > ? AND number <= ? ORDER BY change",
                (begin, begin),
            )
            return MarkChanges(version, marks, tuple(RemovedMark(*row) for row in removed), is_whole)

    # ---- the database --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: committed at the end of the block, rolled back if the block raises."""
        self._refuse_unwritable()
        with self._converting(is_writing=True):
            if not self.path.exists():
                create_marks(self.path)
            with self._open("mode=rw") as database:
                database.execute("PRAGMA synchronous = FULL")
                database.execute("BEGIN IMMEDIATE")
                try:
                    yield database
                    database.execute("COMMIT")
                except BaseException:
                    with contextlib.suppress(sqlite3.Error):
                        database.execute("ROLLBACK")
                    raise

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """A snapshot of the file; None if nothing was ever marked."""
        if not self.path.exists():
            yield None
            return
        with self._converting(), self._open(reading_mode(self.path)) as database:
            database.execute("BEGIN")
            yield database

    @contextlib.contextmanager
    def _open(self, mode: str) -> Iterator[sqlite3.Connection]:
        uri = f"{self.path.resolve().as_uri()}?{mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False)
        with contextlib.closing(connection) as database:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version > MARKS_VERSION:
                raise JournalError(
                    f"{self.path}: was written by a newer version of rollout (marks {version}, this one knows "
                    f"{MARKS_VERSION}); upgrade rollout to use the marks of this run"
                )
            if version < 1:
                raise _Damaged("its tables are missing")
            yield database

    def _refuse_unwritable(self) -> None:
        folder = self.path.parent
        if not _is_run(folder):
            raise JournalError(f"{folder}: is not a run directory: there is no {JOURNAL} in it, so nothing to mark")
        if not os.access(folder, os.W_OK) or (self.path.exists() and not os.access(self.path, os.W_OK)):
            raise self._unwritable("no permission, or a read-only disk")

    def _unwritable(self, why: str) -> JournalError:
        return JournalError(
            f"{self.path}: marks cannot be stored here: {why}; make the folder writable, or copy the run directory and "
            "mark the copy"
        )

    @contextlib.contextmanager
    def _converting(self, *, is_writing: bool = False) -> Iterator[None]:
        """Turn errors of the database into errors with advice."""
        try:
            yield
        except (sqlite3.Error, OSError, _Damaged) as error:
            raise self._describe(error, is_writing) from error

    def _describe(self, error: sqlite3.Error | OSError | _Damaged, is_writing: bool) -> JournalError:
        whole = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        code = whole & 0xFF
        if isinstance(error, OSError) or code in _CLOSED:
            why = str(getattr(error, "strerror", None) or error)
            return self._unwritable(why) if is_writing else JournalError(f"{self.path}: cannot be read: {why}")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return JournalError(f"{self.path}: another process has been writing marks for {WAIT:g} s; try again")
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) and whole != sqlite3.SQLITE_IOERR_SHORT_READ:
            return JournalError(f"{self.path}: cannot be used: {error}; make room on the disk")
        return self._damaged(str(error))

    def _damaged(self, what: str) -> JournalError:
        folder = self.path.parent
        return JournalError(
            f"{self.path}: the marks are damaged ({what}); the run itself is not. Move {MARKS}, {MARKS}-wal and "
            f"{MARKS}-shm elsewhere to go on without marks, or save what is readable with a copy of the run: "
            f"rollout recover {folder} -o {folder.with_name(folder.name + '-recovered')}"
        )


class _Damaged(Exception):
    """The content of the database is not valid."""


def create_marks(path: Path) -> None:
    """Create a file without marks. If another process creates it first, that file is kept."""
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
    try:
        with contextlib.closing(sqlite3.connect(temporary, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(f"BEGIN; {MARKS_SCHEMA} PRAGMA user_version = {MARKS_VERSION}; COMMIT;")
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        except OSError:
            # A file system without links.
            if not path.exists():
                temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def _newest(database: sqlite3.Connection) -> int:
    (number,) = database.execute(_NEWEST).fetchone()
    return int(number)


def _read(database: sqlite3.Connection, where: str, values: Sequence[Any]) -> Iterator[PersonMark]:
    for row in database.execute(f"SELECT {_COLUMNS} FROM marks {where}", values):
        try:
            yield msgspec.convert(dict(zip(PersonMark.__struct_fields__, row, strict=True)), PersonMark)
        except msgspec.ValidationError as error:
            raise _Damaged(f"mark {row[0]}: {error}") from error


def _rivals(database: sqlite3.Connection, wanted: PersonMark) -> list[PersonMark]:
    """The same author's marks on the same place that the new mark replaces or repeats."""
    kinds = (wanted.kind, _OPPOSITES.get(wanted.kind, wanted.kind))
    where = "WHERE dataset = ? AND trajectory = ? AND message IS ? AND author = ? AND kind IN (?, ?)"
    found = _read(database, where, (wanted.dataset, wanted.id, wanted.message, wanted.author, *kinds))
    return [mark for mark in found if wanted.kind != "label" or mark.text == wanted.text]


def _remove(database: sqlite3.Connection, mark: PersonMark, at: float) -> None:
    row = (_newest(database) + 1, mark.number, mark.dataset, mark.id, at)
    database.execute("INSERT INTO removed(change, number, dataset, trajectory, at) VALUES (?, ?, ?, ?, ?)", row)
    database.execute("DELETE FROM marks WHERE number = ?", (mark.number,))
