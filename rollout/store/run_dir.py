"""The run directory: the names of its files, finding one, and the lock that keeps a second writer out.

One process at a time writes a run. The lock is a file lock, so it ends with the process that holds it, however that
process ends. Reading needs no lock.
"""

from __future__ import annotations

import os
from pathlib import Path

from rollout.core.errors import JournalError
from rollout.store.locks import take_lock
from rollout.store.private import PRIVATE_FILE, make_private_folder

JOURNAL = "journal.db"
LOCK = "journal.lock"
RUN_FILE = "run.json"
"""See `rollout.store.files.run_file`."""
METRICS = "metrics.json"
FAILED = "failed.jsonl"
FILTERS = "filters.jsonl"
"""The marks of `rollout filter`."""
SCORES = "scores.jsonl"
"""The marks of `rollout score --write`."""
MARKS = "marks.db"
"""The marks of people: see `rollout.store.marks`."""
BLOBS = "blobs"
LOGS = "logs"
PEOPLE = "people"
"""What people add to the attempts of the run: a run directory of its own (`rollout.pipelines.people`). Marks on these
attempts are in the run's own file."""


def wal_of(journal: Path) -> Path:
    """The write-ahead log of a journal."""
    return journal.with_name(journal.name + "-wal")


def find_run(path: Path) -> Path | None:
    """The run directory that a path means: the folder itself, or `run` in it, as in the output folder of a batch. A run
    whose journal is missing is found by its run file; opening it reports what is missing."""
    places = (path, path / "run")
    for name in (JOURNAL, RUN_FILE):
        for place in places:
            if (place / name).is_file():
                return place
    return None


def lock_run(run_dir: Path) -> int:
    """Lock a run directory, which is created if needed. Close the returned file descriptor to release the lock."""
    try:
        make_private_folder(run_dir)
        lock = os.open(run_dir / LOCK, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        take_lock(lock, f"{run_dir}: another process is running this run; wait for it or choose another run_dir")
    except OSError as error:
        raise JournalError(f"run_dir: {run_dir} cannot be used: {error.strerror or error}") from error
    return lock
