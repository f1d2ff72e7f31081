"""Runs that earlier versions wrote open, resume, score and export as they did then.

`tests/fixtures/runs` was written by the version before the rooms were rebuilt (schema 1 of the journal): `finished` and
`web` ended by themselves, `half` was killed with SIGKILL in the middle of two branches of a tree. Paths in them are
placeholders.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout.cli import main
from rollout.environments.web.rates import WebRates
from rollout.tasks.jsonl import TaskFile
from tests.conftest import read_lines

SHIPPED = Path(__file__).parents[2] / "rollout" / "examples"
FIXTURES = Path(__file__).parents[1] / "fixtures" / "runs"


def lay_out(name: str) -> None:
    """Put a run of an earlier version into the working directory, as if it had been made there."""
    shutil.copytree(FIXTURES / name, ".", dirs_exist_ok=True)
    here = str(Path().resolve())
    with sqlite3.connect("run/journal.db") as connection:
        connection.execute("UPDATE meta SET value = replace(value, '{FOLDER}', ?)", (here,))
    connection.close()
    text = Path("run/run.json").read_text()
    Path("run/run.json").write_text(text.replace("{FOLDER}", here).replace("{SHIPPED}", str(SHIPPED)))


def command(*words: str) -> None:
    """Run a command that succeeds."""
    with pytest.raises(SystemExit) as left:
        main([*words])
    assert left.value.code in (0, None)


def ids_of(name: str) -> list[tuple[str, str]]:
    return [(line["id"], line["task_id"]) for line in lines_of(name)]


def lines_of(name: str) -> list[dict[str, Any]]:
    return sorted(read_lines(Path(f"out/{name}.jsonl")), key=lambda line: str(line["id"]))


@pytest.mark.parametrize("is_migrated", [False, True])
def test_the_mean_reward_of_a_run_without_rewards_is_its_rate_of_success(is_migrated: bool) -> None:
    lay_out("finished")
    if is_migrated:
        command("run", "config.yml", "--resume")
    run = rollout.load_run("run")
    rewards = [trajectory.reward for trajectory in run.trajectories]
    known = [reward for reward in rewards if reward is not None]
    assert run.mean_reward == pytest.approx(sum(known) / len(known))


def test_a_finished_run_resumes_without_doing_anything() -> None:
    lay_out("finished")
    before = {path: path.read_bytes() for path in Path("out").iterdir()}
    command("run", "config.yml", "--resume")
    assert {path: path.read_bytes() for path in Path("out").iterdir()} == before
    assert json.loads(Path("run/metrics.json").read_text())["total"]["solved"] == 14


def test_a_killed_run_resumes_to_the_ids_of_an_undisturbed_one() -> None:
    """Ids, not lines: what the built-in oracle says in the steps that are left has changed since."""
    lay_out("finished")
    undisturbed = {name: ids_of(name) for name in ("chains", "trees")}
    shutil.rmtree("run")
    shutil.rmtree("out")
    lay_out("half")
    kept = {name: lines_of(name) for name in ("chains", "trees")}
    command("run", "config.yml", "--resume")
    assert {name: ids_of(name) for name in ("chains", "trees")} == undisturbed
    for name, before in kept.items():
        assert [line for line in lines_of(name) if line in before] == before


@pytest.mark.parametrize("name", ["finished", "web"])
def test_scores_of_an_earlier_run_stay_what_they_were(name: str) -> None:
    lay_out(name)
    command("score", "run", "--write")
    scored = read_lines(Path("run/scores.jsonl"))
    assert scored
    for line in scored:
        assert line["success"] == line["recorded"]["success"], line


def test_the_marks_of_an_earlier_run_stay_what_they_were() -> None:
    lay_out("finished")
    before = Path("run/filters.jsonl").read_bytes()
    command("filter", "run")
    assert Path("run/filters.jsonl").read_bytes() == before


@pytest.mark.parametrize("name", ["finished", "half"])
def test_an_earlier_run_is_exported_and_becomes_training_rows(name: str) -> None:
    lay_out(name)
    command("export", "run", "--format", "trl", "-o", "trl.jsonl")
    command("train-data", "run", "-o", "rows", "--form", "prefix_merge", "--text", "-f", "jsonl")
    lines = {(line["id"]): line for dataset in ("chains", "trees") for line in lines_of(dataset)}
    exported = read_lines(Path("trl.jsonl"))
    assert len(exported) == len(lines)
    for record in exported:
        assert record["messages"][0]["role"] == "system"
        assert record["tools"]
    assert any(Path().glob("rows*"))


def test_steps_and_rates_of_an_earlier_web_run_are_read() -> None:
    lay_out("web")
    before = json.loads(Path("run/metrics.json").read_text())["web"]["web"]
    rates = WebRates()
    tasks = TaskFile(Path("tasks.jsonl"))
    for trajectory in rollout.load_run("run").trajectories:
        rates.take(trajectory, tasks.read(tasks.ids.index(trajectory.task_id)).info)
    after = rates.result()
    assert {key: after[key] for key in before} == before
