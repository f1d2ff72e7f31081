"""The states that steps start from, on record: along chains and branches, after a kill, and where none can be told."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from rollout.core.errors import WorldError
from rollout.environments.functions import FunctionWorld
from rollout.store.reading.reader import open_reader
from rollout.testing import StubServer
from rollout.trajectories.line import comparable
from tests.conftest import read_lines, roll_out, stub_config, write_tasks
from tests.engine.test_trees import OUT, tree_config


def with_states(config: dict[str, Any]) -> dict[str, Any]:
    for dataset in config["datasets"].values():
        dataset["record_states"] = True
    return config


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_each_step_knows_the_state_that_it_started_from(isolation: str) -> None:
    await roll_out(with_states(tree_config(isolation)))
    lines = {line["id"]: line for line in read_lines(OUT)}
    opening: dict[str, set[str]] = {}
    changed = False
    for line in lines.values():
        states = line["metadata"]["states"]
        assert len(states) == line["metadata"]["generations"]
        assert all(states)
        opening.setdefault(line["task_id"], set()).add(states[0])
        changed = changed or len(set(states)) > 1
        branch = line["metadata"]["branch"]
        if "parent" in branch:
            shared = sum(count for _, count in branch["lineage"])
            assert states[: shared + 1] == lines[branch["parent"]]["metadata"]["states"][: shared + 1]
    assert all(len(keys) == 1 for keys in opening.values()), "every attempt at a task begins in the same state"
    assert changed, "calls that write lead to another state"


async def test_states_stand_on_the_first_node_and_after_each_round_of_calls() -> None:
    await roll_out(with_states(tree_config()))
    with open_reader(Path("run")) as reader:
        nodes = reader.nodes(1)
    assert nodes[0].state_key is not None
    for body, following in zip(nodes[1:], [*nodes[2:], None], strict=True):
        is_last_result = body.kind == "tool" and (following is None or following.kind != "tool")
        assert (body.state_key is not None) == is_last_result


async def test_states_are_not_recorded_unless_asked() -> None:
    await roll_out(tree_config())
    assert not any("states" in line["metadata"] for line in read_lines(OUT))
    with open_reader(Path("run")) as reader:
        assert not any(body.state_key for body in reader.nodes(1))


async def test_states_survive_a_stop() -> None:
    config = with_states(tree_config())
    await roll_out(config, Path("whole"))
    whole = {line["id"]: comparable(line) for line in read_lines(OUT)}
    OUT.unlink()
    for step in (5, 30, 80):
        await roll_out(config, pause_when=lambda progress, step=step: progress.generations >= step)
    await roll_out(config)
    assert {line["id"]: comparable(line) for line in read_lines(OUT)} == whole


async def test_a_world_that_cannot_tell_its_state_goes_on_without(
    stub: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    places = itertools.count()

    async def state_key(self: FunctionWorld) -> str:
        raise WorldError(f"nobody knows at {next(places)}")

    monkeypatch.setattr(FunctionWorld, "state_key", state_key)
    await roll_out(stub_config(stub.url, write_tasks(tmp_path / "tasks.jsonl", "one", "two"), record_states=True))
    lines = read_lines(OUT)
    assert [line["metadata"]["status"] for line in lines] == ["completed"] * 2
    for line in lines:
        assert line["metadata"]["states"] == [None] * line["metadata"]["generations"]
    told = [record.message for record in caplog.records if "a state has no key" in record.message]
    assert told == ["data: record_states: a state has no key: nobody knows at 0"]
