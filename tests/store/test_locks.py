"""Locks of files: one that another process holds, and file systems that have none."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rollout.core.errors import JournalError
from rollout.store import running
from rollout.store.files.output_files import open_output
from rollout.store.journal import open_journal
from rollout.store.recovery.recover import recover
from rollout.store.run_dir import JOURNAL, LOCK, lock_run
from rollout.store.running import is_running

TAKEN: list[Callable[[Path], object]] = [
    open_journal,
    lambda run: recover(run, run.with_name("recovered")),
    lambda run: open_output(run / "out.jsonl"),
]
"""What takes a lock."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory that nobody has locked."""
    os.close(lock_run(tmp_path / "run"))
    (tmp_path / "run" / JOURNAL).write_bytes(b"")
    return tmp_path / "run"


def refuse(file: int, operation: int) -> None:
    """What a file system without locks answers."""
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.mark.parametrize("take", TAKEN, ids=["journal", "recovery", "output"])
def test_a_file_system_without_locks_is_not_taken_for_another_process(
    run: Path, take: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(JournalError, match=r"cannot be locked: No locks available; .* file system") as raised:
        take(run)
    assert "another" not in str(raised.value)


def test_no_run_is_going_on_where_there_are_no_locks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LOCKS", Path("nowhere"))
    monkeypatch.setattr(fcntl, "flock", refuse)
    assert not is_running(run)


def test_a_lock_that_is_held_is_said_to_be(run: Path) -> None:
    lock = os.open(run / LOCK, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for take in TAKEN[:2]:
        with pytest.raises(JournalError, match="another process is running this run"):
            take(run)
    os.close(lock)
