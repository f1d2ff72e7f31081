"""Nothing lost, nothing doubled after kill -9."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.kills import run_kill_test


def test_killed_run_resumes_without_losing_doubling_or_paying_twice(tmp_path: Path) -> None:
    run_kill_test(tmp_path / "k", conversations=24, kills=4, live=8, latency=0.01, seed=1)


@pytest.mark.slow
def test_two_hundred_conversations_survive_thirty_kills(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counted = run_kill_test(tmp_path / "k", conversations=200, kills=32, live=32, latency=0.02, seed=2)
    assert counted["kills"] >= 30
    with capsys.disabled():
        print(f"\nkill test: {counted}")  # noqa: T201
