"""The programs of docs/how-to/streaming.md run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from rollout.testing import StubProcess
from tests.api.shop import shop
from tests.conftest import stub_config, write_tasks
from tests.docs.test_docs import ROOT, blocks

TRAINING, EVALUATION = (body for page, body in blocks("python") if page == "docs/how-to/streaming.md")
REWARDS = "def first(trajectory):\n    return float('~' not in trajectory.id)\n"


def test_its_loop_has_a_row_of_tokens_and_advantages_for_each_attempt() -> None:
    Path("rewards.py").write_text(REWARDS)
    tasks = write_tasks(Path("tasks.jsonl"), *(f"task {number}" for number in range(16)))
    with StubProcess({"rules": [{"reply": {"content": "Done and dusted."}}]}) as stub:
        config = stub_config(stub.url, tasks, samples=4, reward="rewards:first", max_turns=1)
        config["models"]["agent"]["token_ids"] = True
        Path("training.yml").write_text(yaml.safe_dump({**config, "datasets": {"d": _as_text(config)}}))
        done = subprocess.run(
            [sys.executable, "-c", TRAINING],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": f"{ROOT}:{Path.cwd()}"},
            check=False,
        )
    assert done.returncode == 0, done.stderr
    rows = [
        re.fullmatch(r"(\d+) ids, (\d+) sampled, advantages up to (-?\d\.\d\d)", line)
        for line in done.stdout.splitlines()
    ]
    assert len(rows) == 16 * 4, "four updates of four groups"
    found = [tuple(map(float, row.groups())) for row in rows if row is not None]
    assert len(found) == len(rows)
    assert all(0 < sampled < ids for ids, sampled, _ in found)
    assert {advantage for _, _, advantage in found} == {1.5, 0.0}, (
        "of one in four that is right; and of no sampled token"
    )


def _as_text(config: dict[str, Any]) -> dict[str, Any]:
    return {**config["datasets"]["data"], "path": str(config["datasets"]["data"]["path"])}


def test_a_checkpoint_is_evaluated_in_a_run_of_its_own() -> None:
    made: dict[str, Any] = {}
    exec(compile(EVALUATION, "docs/how-to/streaming.md", "exec"), made)
    with StubProcess({"rules": [{"reply": {"content": "Done and dusted."}}]}) as stub:
        rewards = [made["evaluate"](shop, step, policy={"api_base": stub.url}) for step in (100, 200)]
    assert rewards == [0.0, 0.0]
    assert Path("runs/eval-100/journal.db").exists()
    assert Path("runs/eval-200/journal.db").exists()
