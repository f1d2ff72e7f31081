"""Files that are changed, moved or deleted from outside while this process has them open.

Writing to a file that was deleted or moved succeeds, and what was written is lost. So code that keeps a file open
for long looks from time to time whether its name still leads to it.
"""

from __future__ import annotations

import enum
import logging
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from rollout.core.errors import JournalError
from rollout.store.run_dir import wal_of

log = logging.getLogger(__name__)


class Change(enum.Enum):
    """Something that another process did to a file. The value completes the sentence "<file> …"."""

    GONE = "was deleted or moved"
    REPLACED = "was replaced by another file"
    RESIZED = "was changed by another program"
    TOUCHED = "may have been changed"
    """Only its modification time differs, which network file systems also correct by themselves."""


def find_change(path: Path, known: os.stat_result) -> Change | None:
    """What happened to a file since its status was `known`; None if nothing did."""
    try:
        now = os.stat(path)
    except OSError:
        return Change.GONE
    if not os.path.samestat(now, known):
        return Change.REPLACED
    if now.st_size != known.st_size:
        return Change.RESIZED
    return Change.TOUCHED if now.st_mtime_ns != known.st_mtime_ns else None


class JournalWatch:
    """Notices that the journal of a running run is gone, and saves what it held if that is possible."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._db = connection
        self._status = os.stat(path)
        self.is_gone = False
        """Whether the file was deleted, moved or replaced while it was open."""

    def check(self) -> None:
        """Look for the file; warn once if it is gone."""
        if not self.is_gone and find_change(self._path, self._status) in (Change.GONE, Change.REPLACED):
            self.is_gone = True
            log.warning(
                "%s was deleted, moved or replaced while this run was writing it. Finished trajectories are still "
                "written to the output, but the run cannot be resumed without its journal: put the file back if you "
                "have it",
                self._path,
            )

    def make_error(self, outputs: Sequence[Path]) -> JournalError:
        """The error to end the run with, which says what can be done. `outputs` hold the finished trajectories.

        If the write-ahead log is still there, the whole journal is written into it first, for `rollout recover`.
        """
        folder = self._path.parent
        advice = f"Its finished trajectories are in {', '.join(map(str, outputs))}. " if outputs else ""
        if self._is_saved_in_wal():
            way = f"rollout recover {folder} -o {folder.with_name(folder.name + '-recovered')}"
            advice += f"All of it is in {wal_of(self._path).name}; save it as a new run: {way}"
        else:
            advice += "Put it back if it was moved, or start again with --no-resume"
        return JournalError(f"{self._path}: was deleted, moved or replaced while this run was writing it. {advice}")

    def _is_saved_in_wal(self) -> bool:
        """Write the whole database into its write-ahead log, if that still lies beside the database's name."""
        wal = wal_of(self._path)
        if self._path.exists() or not wal.is_file():
            return False
        try:
            self._db.execute("PRAGMA wal_autocheckpoint = 0")
            before = wal.stat().st_size
            self._db.execute("VACUUM")
        except (sqlite3.Error, OSError):
            return False
        return wal.is_file() and wal.stat().st_size > before
