"""The package of `examples/plugin`: installed, each of its plug-ins is found by the name of its entry point."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from rollout.core.plugins import Group

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "examples" / "plugin"
PROJECT = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
Rollout = Callable[..., str]


@pytest.fixture
def rollout(tmp_path: Path) -> Rollout:
    """The command `rollout` in an environment that has the package: laid out as pip does it, without a build."""
    site = tmp_path / "site"
    shutil.copytree(PLUGIN / "src", site)
    info = site / f"{PROJECT['name'].replace('-', '_')}-{PROJECT['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PROJECT['name']}\nVersion: {PROJECT['version']}\n")
    groups = PROJECT["entry-points"].items()
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\n" + "".join(f"{name} = {at}\n" for name, at in points.items()) for group, points in groups)
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)]), "COLUMNS": "120"}

    def call(*arguments: str) -> str:
        command = [sys.executable, "-c", "from rollout.cli import main; main()", *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"rollout {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return call


def read_lines(path: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def test_every_command_of_its_readme_works(rollout: Rollout) -> None:
    (block,) = re.findall(r"```text\n(.*?)```", (PLUGIN / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    install, *commands = block.splitlines()
    assert install == "pip install -e examples/plugin"
    for command in commands:
        rollout(*command.split()[1:])
    lines = read_lines("outputs/counting.jsonl")
    assert {score["name"] for line in lines for score in line["metadata"]["scores"]} == {"right_count", "few_calls"}
    attempts: dict[str, list[bool]] = {}
    for line in lines:
        attempts.setdefault(line["task_id"], []).append(line["success"])
    assert sorted(attempts) == ["to-1", "to-2", "to-3", "to-4"]
    # The strategy goes on until an attempt succeeds.
    assert all(not any(succeeded[:-1]) for succeeded in attempts.values())
    assert any(len(succeeded) > 1 for succeeded in attempts.values())
    # The agent looks by itself first.
    assert {record["calls"][0] for record in read_lines("calls.jsonl")} == {"look"}
    assert len(read_lines("calls.jsonl")) == len(lines)
    rows = read_lines("data/solve_rate.jsonl")
    assert {row["task_id"]: row["attempts"] for row in rows} == {task: len(made) for task, made in attempts.items()}


def test_its_filter_takes_parameters_and_marks_turns(rollout: Rollout) -> None:
    rollout("run", "examples/plugin/counting.yml")
    rollout("filter", "runs/counting", "--set", "chatty.words=0")
    marks = [mark for line in read_lines("runs/counting/filters.jsonl") for mark in line["marks"]]
    assert {mark["reason"] for mark in marks if mark["filter"] == "chatty"} == {"more than 0 words"}


def test_it_depends_on_this_distribution() -> None:
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
    assert PROJECT["dependencies"] == [ours]


def test_it_has_at_most_150_lines() -> None:
    files = [PLUGIN / "pyproject.toml", *PLUGIN.rglob("*.py")]
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= 150


def test_it_has_one_plug_in_of_each_kind() -> None:
    # Sites and memories are parts of the web environment and of one form of rows.
    assert set(PROJECT["entry-points"]) == set(get_args(Group)) - {"rollout.sites", "rollout.memories"}
    for points in PROJECT["entry-points"].values():
        for name, place in points.items():
            point = importlib.metadata.EntryPoint(name, place, "")
            source = PLUGIN / "src" / Path(*point.module.split(".")).with_suffix(".py")
            assert re.search(
                rf"^(async def|def|class) {point.attr}\b", source.read_text(encoding="utf-8"), re.MULTILINE
            )
