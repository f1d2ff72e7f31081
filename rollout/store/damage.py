"""Errors of unreadable journals.

A journal can be damaged in more ways than its readers can list: pages that SQLite cannot follow, bodies that cannot be
decoded, rows that refer to missing rows. `reads_journal` makes a whole class of readers total: whatever the data of the
journal makes them raise becomes one `JournalError` that names the file and says what to do.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from rollout.core.errors import JournalError

DATA_ERRORS = (
    sqlite3.Error, msgspec.MsgspecError, UnicodeError, TypeError, ValueError, LookupError, AttributeError,
    RecursionError,
)  # fmt: skip
"""Exceptions that bad data causes in a reader."""
_DAMAGE = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
"""SQLite's primary result codes for a database whose content is at fault; an ERROR is a missing table or column."""
MAKE_ROOM = "if the disk is full, make room, then run again with --resume"
C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])


def damaged(path: Path, what: str) -> JournalError:
    """The error of a damaged journal: the file, what is wrong with it, and what to do."""
    folder = path.parent
    return JournalError(
        f"{path}: the journal is damaged ({what}); save what is readable as a new run: "
        f"rollout recover {folder} -o {folder.with_name(folder.name + '-recovered')}"
    )


def missing(what: str) -> LookupError:
    """The error of a missing row that another row refers to, for `reads_journal` to convert."""
    return LookupError(f"{what} is missing")


def read_error(path: Path, error: Exception) -> JournalError:
    """What an error says about a journal: that it is damaged, or why its file cannot be used at the moment."""
    if isinstance(error, JournalError):
        return error
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF not in _DAMAGE and code != sqlite3.SQLITE_IOERR_SHORT_READ:
            advice = f"; {MAKE_ROOM}" if code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) else ""
            return JournalError(f"{path}: cannot be used: {error}{advice}")
        return damaged(path, str(error))
    text = error.args[0] if isinstance(error, LookupError) and error.args else error
    return damaged(path, str(text) or type(error).__name__)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert errors that bad data of the journal at `path` causes inside."""
    try:
        yield
    except DATA_ERRORS as error:
        if _is_ours(error):
            raise
        raise read_error(path, error) from error


def reads_journal(reader: C) -> C:
    """Make every method of a class that has a `path` raise `JournalError` on bad data, iterators included."""
    for name, member in list(vars(reader).items()):
        if inspect.isfunction(member) and not name.startswith("__"):
            setattr(reader, name, reads_data(member))
    return reader


def reads_data(method: F) -> F:
    """Make one method of an object that has a `path` raise `JournalError` on bad data."""

    @functools.wraps(method)
    def convert(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            result = method(self, *args, **kwargs)
        except DATA_ERRORS as error:
            if _is_ours(error):
                raise
            raise read_error(self.path, error) from error
        return _iterate(self.path, result) if inspect.isgenerator(result) else result

    return cast(F, convert)


def _iterate(path: Path, found: Iterable[Any]) -> Iterator[Any]:
    with reading(path):
        yield from found


def _is_ours(error: Exception) -> bool:
    """Whether an error is the caller's and not the data's: a closed connection, an interrupted query."""
    is_interrupted = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
    return is_interrupted or isinstance(error, sqlite3.ProgrammingError)
