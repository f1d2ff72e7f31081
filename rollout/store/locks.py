"""File locks. The system releases them when the process that holds them ends, however it ends."""

from __future__ import annotations

import fcntl
import os

from rollout.core.errors import JournalError


def take_lock(file: int, complaint: str) -> None:
    """Lock an open file for this process. If another process has locked it, close it and raise with this complaint."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise JournalError(complaint) from error
