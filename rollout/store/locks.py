"""File locks. The system releases them when the process that holds them ends, however it ends."""

from __future__ import annotations

import fcntl
import os

from rollout.core.errors import JournalError


def take_lock(file: int, complaint: str) -> None:
    """Lock an open file for this process. Where it cannot be locked, close it. Raises JournalError with this complaint
    if another process has locked it, and OSError where the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(file)
        raise JournalError(complaint) from error
    except OSError as error:
        os.close(file)
        why = f"it cannot be locked: {error.strerror or error}; choose a file system that has file locks"
        raise OSError(error.errno, why) from error
