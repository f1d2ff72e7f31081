"""Getting started works from top to bottom, in an empty folder, and so does the Python example of the README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from rollout.testing import StubProcess
from tests.docs.test_docs import ROOT

STEP = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
ROLLOUT = [sys.executable, "-c", "from rollout.cli import main; main()"]


def run_command(command: str) -> None:
    program, *arguments = command.split()
    if program == "cd":
        os.chdir(arguments[0])
        return
    line = {"rollout": ROLLOUT, "python": [sys.executable]}[program] + arguments
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_every_file_and_command_of_getting_started_works_in_its_order() -> None:
    page = (ROOT / "docs" / "getting-started" / "index.md").read_text(encoding="utf-8")
    with StubProcess() as server:
        for language, title, body in STEP.findall(page):
            if title:
                Path(title).write_text(body.replace("http://127.0.0.1:8000/v1", server.url), encoding="utf-8")
            elif language == "bash" and "pip install" not in body:  # tests/first_hour.py installs
                for command in body.splitlines():
                    run_command(command)
    assert Path("portal.jsonl").read_text(encoding="utf-8")
    assert Path("data/sft.parquet").exists()
    assert Path("data/per_step.parquet").exists()


def test_the_python_example_of_the_readme_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = (body for language, _, body in STEP.findall(readme) if language == "python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 18
    Path("example.py").write_text(example.replace("openai/gpt-5", "builtin/oracle"), encoding="utf-8")
    run_command("python example.py")


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 500
