"""Checks that need no model: the server starts, and the tasks can be solved with its tools."""

from __future__ import annotations

from pathlib import Path

import rollout


def test_every_task_is_solved_by_its_reference_actions(tmp_path: Path) -> None:
    run = rollout.run(
        "project.yml", samples=1, run_dir=tmp_path / "run", output_path=tmp_path / "out.jsonl", progress=False
    )
    assert run.finished == 3
    assert run.solved == 3
