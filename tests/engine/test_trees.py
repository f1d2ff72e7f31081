"""Trees: attempts that share a beginning, in the journal, in the lines, and after a kill."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rollout.store.reading.reader import open_reader
from rollout.testing import StubServer
from rollout.trajectories.line import comparable, encode_line
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

OUT = Path("out.jsonl")
PORTAL = {
    "mcp_domain": "StudentAcademicPortal",
    "output_path": OUT,
    "agent": {"model": "builtin/oracle", "params": {"wrong_argument": 0.2, "stop_early": 0.1}},
    "user": "builtin/user",
    "max_turns": 20,
    "max_steps_per_turn": 15,
    "limit": 4,
}


def tree_config(isolation: str = "none", **strategy: Any) -> dict[str, Any]:
    params = {"trees": 2, "expansions": 2, "rounds": 2, **strategy}
    return {
        "seed": 3,
        "mock_servers": {"isolation": isolation},
        "datasets": {"portal": {**PORTAL, "strategy": {"name": "random_tree", "params": params}}},
    }


def by_id() -> dict[str, dict[str, Any]]:
    return {line["id"]: line for line in read_lines(OUT)}


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_a_branch_shares_its_beginning_and_no_more(isolation: str) -> None:
    opened = await roll_out(tree_config(isolation))
    lines = by_id()
    assert len(lines) == 4 * 10
    assert opened.engine.replay_mismatches == 0
    branched = [line for line in lines.values() if "parent" in line["metadata"]["branch"]]
    assert len(branched) >= 10
    for line in branched:
        branch = line["metadata"]["branch"]
        parent = lines[branch["parent"]]
        shared = branch["shared_messages"]
        assert shared > 1
        assert line["messages"][:shared] == parent["messages"][:shared]
        assert line["messages"][shared]["role"] == "assistant", "what is generated anew"
    assert any(line["messages"] != lines[line["metadata"]["branch"]["parent"]]["messages"] for line in branched)
    assert {line["metadata"]["status"] for line in lines.values()} <= {"completed", "truncated"}


async def test_what_is_shared_is_paid_for_once() -> None:
    await roll_out(tree_config())
    metrics = json.loads(Path("run/metrics.json").read_text())
    whole = sum(line["metadata"]["generations"] for line in by_id().values())
    with open_reader(Path("run")) as reader:
        nodes = [body for episode in range(1, 41) for body in reader.nodes(episode) if body.kind == "generation"]
    assert metrics["total"]["generations"] == len(nodes) < whole


async def test_lines_of_branches_are_made_again_from_the_journal() -> None:
    await roll_out(tree_config())
    before = OUT.read_bytes()
    OUT.unlink()
    await roll_out(tree_config())
    assert OUT.read_bytes() == before


async def test_what_is_read_of_a_run_has_whole_branches() -> None:
    await roll_out(tree_config())
    with open_reader(Path("run")) as reader:
        assert [encode_line(one, one.messages) for one in reader.trajectories("portal")] == OUT.read_bytes().splitlines(
            keepends=True
        )


@pytest.mark.parametrize("after", [3, 20, 60, 110])
async def test_a_tree_that_was_stopped_grows_on_as_if_it_had_not_been(after: int) -> None:
    await roll_out(tree_config(), Path("whole"))
    whole = {line["id"]: comparable(line) for line in read_lines(OUT)}
    OUT.unlink()
    for step in (after, after * 2, after * 3):
        await roll_out(tree_config(), pause_when=lambda progress, step=step: progress.generations >= step)
    await roll_out(tree_config())
    assert {line["id"]: comparable(line) for line in read_lines(OUT)} == whole


async def test_the_same_seed_grows_the_same_tree_however_many_work_at_once() -> None:
    grown = []
    for workers in (1, 7):
        await roll_out({**tree_config(), "max_workers": workers}, Path(f"run{workers}"), resume=False)
        grown.append({line["id"]: comparable(line) for line in read_lines(OUT)})
    assert grown[0] == grown[1]


async def test_a_branch_of_an_attempt_that_failed_later_stays_where_it_is() -> None:
    await roll_out(tree_config())
    whole = {line["id"]: comparable(line) for line in read_lines(OUT)}
    parent = next(
        line["metadata"]["branch"]["parent"] for line in whole.values() if "parent" in line["metadata"]["branch"]
    )
    database = sqlite3.connect("run/journal.db")
    database.execute("UPDATE trajectories SET status = 'failed' WHERE id = ?", (parent,))
    database.execute("DELETE FROM grown")
    database.commit()
    database.close()
    await roll_out(tree_config())
    again = {line["id"]: comparable(line) for line in read_lines(OUT)}
    assert again.keys() == whole.keys()


async def test_a_tree_of_a_journal_from_before_it_had_beginnings_is_read_and_grows_on() -> None:
    await roll_out(tree_config())
    whole = OUT.read_bytes()
    database = sqlite3.connect("run/journal.db")
    database.execute("PRAGMA user_version = 1")
    database.execute("ALTER TABLE trajectories DROP COLUMN reward")
    database.execute("DROP TABLE beginnings")
    # Only what did not start at the trunk had a row then.
    database.execute("DELETE FROM branches WHERE parent = -1")
    database.execute("DELETE FROM grown")
    database.commit()
    database.close()
    with open_reader(Path("run")) as reader:
        assert b"".join(encode_line(one, one.messages) for one in reader.trajectories("portal")) == whole
    await roll_out(tree_config())
    assert OUT.read_bytes() == whole


GROUPED: list[dict[str, Any]] = [
    {"strategy": {"name": "random_tree", "params": {"trees": 2, "expansions": 2}}},
    {"samples": 4, "dynamic": {"groups": 2, "oversample": 2.0}},
]


def edited_config(url: str, words: str, dataset: dict[str, Any]) -> dict[str, Any]:
    path = write_tasks(Path("tasks.jsonl"), words, "another")
    dataset = dict(dataset)
    dynamic = {"dynamic": dataset.pop("dynamic")} if "dynamic" in dataset else {}
    return {**stub_config(url, path, **dataset), **dynamic, "max_workers": 1}


def first_words() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in read_lines(OUT):
        found.setdefault(line["task_id"], set()).add(line["messages"][0]["content"])
    return found


@pytest.mark.parametrize("dataset", GROUPED, ids=["tree", "dynamic"])
async def test_an_edited_task_does_not_grow_on_in_the_tree_of_the_old_one(
    stub: StubServer, dataset: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    await roll_out(edited_config(stub.url, "old", dataset), pause_when=lambda progress: progress.generations == 6)
    assert [line["id"] for line in read_lines(OUT)] == ["task0"]
    opened = await roll_out(edited_config(stub.url, "new", dataset))
    assert first_words() == {"task0": {"old"}, "task1": {"another"}}
    assert "task0: the task's opening changed" in caplog.text
    assert opened.summary is not None
    assert opened.summary.total.unfinished > 0, "it is not told to be whole"
    await roll_out(edited_config(stub.url, "old", dataset))
    assert first_words() == {"task0": {"old"}, "task1": {"another"}}
    assert len([line for line in read_lines(OUT) if line["task_id"] == "task0"]) > 1, "with its old words it goes on"


@pytest.mark.parametrize("dataset", GROUPED, ids=["tree", "dynamic"])
async def test_an_edited_task_of_which_nothing_has_ended_starts_anew(stub: StubServer, dataset: dict[str, Any]) -> None:
    await roll_out(edited_config(stub.url, "old", dataset), pause_when=lambda progress: progress.generations == 2)
    await roll_out(edited_config(stub.url, "new", dataset))
    assert first_words() == {"task0": {"new"}, "task1": {"another"}}
    whole = OUT.read_bytes()
    with open_reader(Path("run")) as reader:
        assert b"".join(encode_line(one, one.messages) for one in reader.trajectories("data")) == whole


async def test_sums_of_a_run_are_those_of_its_trajectories() -> None:
    config = tree_config()
    config["datasets"]["portal"] |= {"strategy": "chain", "samples": 2}
    await roll_out(config)
    total = json.loads(Path("run/metrics.json").read_text())["total"]
    lines = by_id().values()
    assert total["turns"] == sum(line["metadata"]["total_turns"] for line in lines) > 0
    assert total["generations"] == sum(line["metadata"]["generations"] for line in lines)
