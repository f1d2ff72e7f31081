"""The training loop of docs/how-to/streaming.md runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

from rollout.store.reading.reader import open_reader
from tests.docs.test_docs import ROOT, blocks
from tests.engine.test_trees import PORTAL

CONFIG = {
    "seed": 3,
    "max_workers": 4,
    "mock_servers": {"isolation": "none"},
    "datasets": {"portal": {**PORTAL, "output_path": "out.jsonl", "limit": 16, "samples": 4}},
}


def test_its_loop_trains_on_groups_as_they_come() -> None:
    (example,) = (body for page, body in blocks("python") if page == "docs/how-to/streaming.md")
    assert len(re.sub(r"\n\s*\n", "\n", example).splitlines()) <= 30
    Path("training.yml").write_text(yaml.safe_dump(CONFIG))
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    attempts = [line for line in printed if re.match(r"\S+ [0-3] (0\.0|1\.0) \[", line)]
    assert len(attempts) >= 16
    with open_reader(Path("runs/training")) as reader:
        versions = {
            body.generation.weight_version
            for episode in range(1, 65)
            for body in reader.nodes(episode)
            if body.generation is not None and body.kind == "generation"
        }
    assert {None, "update-1"} <= versions
