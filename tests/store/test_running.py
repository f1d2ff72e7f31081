"""Whether a run is going on, found out without its lock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rollout.store import running
from rollout.store.run_dir import lock_run
from rollout.store.running import is_running


@pytest.mark.parametrize("locks", [running.LOCKS, Path("nowhere")])
def test_run_is_going_on_while_its_lock_is_held(locks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LOCKS", locks)
    run = tmp_path / "run"
    assert not is_running(run)
    lock = lock_run(run)
    assert is_running(run)
    os.close(lock)
    assert not is_running(run)
    os.close(lock_run(run))
