"""Whether a run is going on, found out without taking its lock.

Linux lists the locks that processes hold in `/proc/locks`. Elsewhere a shared lock is tried and released at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from rollout.store.run_dir import LOCK

LOCKS = Path("/proc/locks")


def is_running(run_dir: Path) -> bool:
    """Whether a process of this machine is writing the run."""
    lock = run_dir / LOCK
    try:
        inode = lock.stat().st_ino
    except OSError:
        return False
    held = _held_inodes()
    return inode in held if held is not None else _is_locked(lock)


def _held_inodes() -> set[int] | None:
    """The inodes of files that a process has locked as a run does; None where the system does not list them."""
    try:
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return None
    found = set()
    for line in lines:
        # `9: FLOCK  ADVISORY  WRITE 3288 fe:00:2182557 0 EOF`; waiting processes have `->` behind the number.
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[3] == "WRITE":
            with contextlib.suppress(ValueError):
                found.add(int(words[5].rpartition(":")[2]))
    return found


def _is_locked(lock: Path) -> bool:
    try:
        file = os.open(lock, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # There are no locks, so no run can be going on.
    finally:
        os.close(file)
    return False
