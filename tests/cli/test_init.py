"""`rollout init`: each template works before a line of it is changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rollout.pipelines.new_project import KINDS, TEMPLATES
from tests.conftest import Command, read_lines

NEEDS = {"mcp": "mcp", "web": "playwright"}
CHROMIUM = any(shutil.which(name) for name in ("chromium-headless-shell", "chromium"))


def in_project(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from rollout.cli import main; main()", *words]
    return subprocess.run(command, cwd="project", capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_project_passes_check_run_and_its_own_test(kind: str, rollout: Command) -> None:
    if kind in NEEDS:
        pytest.importorskip(NEEDS[kind])
    if kind == "web" and not CHROMIUM:
        pytest.skip("needs Chromium")
    made = rollout("init", "project", "--template", kind)
    assert made.code == 0, made.err
    names = {path.name for path in Path("project").iterdir()}
    assert {"project.yml", "README.md"} <= names
    assert any(name.startswith("test_") for name in names)
    checked = in_project("check", "project.yml", "--no-colors")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "no problems found" in checked.stdout
    ran = in_project("run", "project.yml", "--no-colors")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "no language model" in ran.stdout
    (output,) = Path("project/outputs").glob("*.jsonl")
    lines = read_lines(output)
    assert lines
    assert all(line["success"] and line["metadata"]["scored"] for line in lines)
    # Its tests need nothing but pytest: no plugin, no configuration of ours.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."]
    tested = subprocess.run(command, cwd="project", capture_output=True, text=True, timeout=600, check=False)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "skipped" not in tested.stdout


def test_nothing_is_overwritten(rollout: Command) -> None:
    Path("project").mkdir()
    Path("project/mine.txt").write_text("precious")
    done = rollout("init", "project")
    assert done.code == 2
    assert "project: is there already, and nothing is overwritten; choose another name" in done.err
    assert [path.name for path in Path("project").iterdir()] == ["mine.txt"]


def test_an_unknown_template_is_answered_with_the_nearest(rollout: Command) -> None:
    done = rollout("init", "project", "--template", "pyhton")
    assert done.code == 2
    assert "there is no 'pyhton'; did you mean 'python'?" in done.err
    assert not Path("project").exists()


def test_every_template_is_listed() -> None:
    assert {path.name for path in TEMPLATES.iterdir() if path.name != "__pycache__"} == KINDS.keys()
