"""An iteration saved from its journal: whole, again and again, interrupted or not. The pages are made by functions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rollout.environments.web.rates import WebRates, calculate_rollout_metrics
from rollout.pipelines import web_saving
from rollout.pipelines.web_saving import save_iteration
from rollout.testing import StubServer
from rollout.trajectories.pt import read_pt
from rollout.trajectories.saved import read_saved
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

TOOLS = ["tests.trajectories.web_lines:click", "tests.trajectories.web_lines:goback"]
OUT = Path("save/train_trajectories")
PT = OUT / "train_trajectories.pt.iteration0"
PARQUET = OUT / "train_trajectories.iteration0.parquet"


def calls(name: str, arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


RULES = [
    {"when": {"contains": "break"}, "fault": {"kind": "status", "status": 403, "times": "always"}},
    {"when": {"answers": 0}, "reply": calls("click", {"element": 1})},
    {"when": {"answers": 1}, "reply": calls("click", {"element": "one"})},
    {"when": {"answers": 2}, "reply": calls("goback", {})},
    {"reply": {"content": "It is done."}},
]


@pytest.fixture
async def pages() -> AsyncIterator[StubServer]:
    async with StubServer({"rules": RULES}) as server:
        yield server


def config(url: str, *words: str) -> dict[str, Any]:
    tasks = [
        {
            "id": f"t{number}",
            "messages": [{"role": "user", "content": word}],
            "task_info": {"website": "http://shop.test/", "difficulty": number + 3, "rubric": [{"description": word}]},
        }
        for number, word in enumerate(words)
    ]
    return stub_config(url, write_tasks(Path("tasks.jsonl"), *tasks), tools=TOOLS)


async def test_an_iteration_holds_every_trajectory_on_record(pages: StubServer) -> None:
    await roll_out(config(pages.url, "buy", "look", "break"))
    saved = save_iteration(Path("run"), OUT, "train", 0, {"solution_model": "agent"})
    trajectories = {steps[0]["trajectory_metadata"]["trajectory_id"]: steps for steps in read_pt(PT)}
    assert set(trajectories) == {"t0", "t1", "t2"}
    keys = [step["action"]["action"]["key"] for step in trajectories["t0"]]
    assert keys == ["click", "invalid_step", "goback", "invalid_step"]
    assert [step["action"]["action"]["key"] for step in trajectories["t2"]] == ["error"]
    task = trajectories["t1"][0]["observation"]["task"]
    assert (task["task_name"], task["difficulty"], task["evaluator_reference"]) == (
        "look",
        4,
        [{"description": "look"}],
    )
    assert _metadata()["trajectories"] == 3
    assert saved.files == (PT, PARQUET)
    rates = WebRates()
    for line in [*read_lines(Path("out.jsonl")), *read_lines(Path("run/failed.jsonl"))]:
        rates.take_steps(read_saved(json.dumps(line).encode()), trajectories[line["id"]])
    metrics = rates.result()
    assert metrics["by_status"]["failed"] == 1
    assert metrics["by_status"]["goback_rate"] == 0.25
    assert calculate_rollout_metrics("save", "train", None) == metrics["webgym"] == metrics["seed"]


async def test_saving_again_makes_the_same_file_and_leaves_nothing_beside_it(pages: StubServer) -> None:
    await roll_out(config(pages.url, "buy"))
    save_iteration(Path("run"), OUT, "train", 0, {})
    first = PT.read_bytes()
    save_iteration(Path("run"), OUT, "train", 0, {})
    assert PT.read_bytes() == first
    assert sorted(path.name for path in OUT.iterdir()) == [PARQUET.name, PT.name]


async def test_an_interrupted_run_is_saved_as_far_as_it_is_and_whole_when_resumed(pages: StubServer) -> None:
    settings = config(pages.url, *["buy"] * 6) | {"max_workers": 1}
    await roll_out(settings, pause_when=lambda progress: progress.done >= 2)
    save_iteration(Path("run"), OUT, "train", 0, {})
    assert 0 < _metadata()["trajectories"] < 6
    assert _metadata()["unfinished"] == 6 - _metadata()["trajectories"]
    await roll_out(settings)
    save_iteration(Path("run"), OUT, "train", 0, {})
    assert _metadata()["trajectories"] == len(read_lines(Path("out.jsonl"))) == 6
    assert _metadata()["unfinished"] == 0
    ids = [steps[0]["trajectory_metadata"]["trajectory_id"] for steps in read_pt(PT)]
    assert ids == [line["id"] for line in read_lines(Path("out.jsonl"))], "in the order of the output"


async def test_an_error_on_the_way_leaves_the_files_that_were_there(
    pages: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await roll_out(config(pages.url, "buy", "look"))
    save_iteration(Path("run"), OUT, "train", 0, {})
    before = {path: path.read_bytes() for path in OUT.iterdir()}

    def torn(*given: Any, **named: Any) -> list[Any]:
        raise RuntimeError("killed here")

    monkeypatch.setattr(web_saving, "steps_of", torn)
    with pytest.raises(RuntimeError, match="killed here"):
        save_iteration(Path("run"), OUT, "train", 0, {})
    assert {path: path.read_bytes() for path in OUT.iterdir()} == before


async def test_what_was_sent_stands_with_the_answers_that_it_led_to() -> None:
    async with StubServer({"rules": RULES}, keep_requests=True) as stub:
        await roll_out(config(stub.url, "buy"))
        sent = [request["messages"] for request in stub.requests]
    save_iteration(Path("run"), OUT, "train", 0, {})
    (steps,) = read_pt(PT)
    assert [json.loads(step["response"]["raw_prompt"]) for step in steps] == sent


async def test_without_pyarrow_the_other_files_are_saved_and_it_is_said(
    pages: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await roll_out(config(pages.url, "buy"))
    monkeypatch.setattr(web_saving, "_has_pyarrow", lambda: False)
    saved = save_iteration(Path("run"), OUT, "train", 0, {})
    assert saved.files == (PT,)
    assert "rollout-engine[train]" in saved.notes[0]


async def test_a_run_without_nodes_is_saved_from_its_lines(pages: StubServer) -> None:
    await roll_out(config(pages.url, "buy") | {"use_checkpoints": False})
    save_iteration(Path("run"), OUT, "train", 0, {})
    (steps,) = read_pt(PT)
    assert [step["action"]["action"]["key"] for step in steps] == ["click", "click", "goback", "invalid_step"]


@pytest.mark.export
async def test_parquet_has_the_steps_of_the_pt_file(pages: StubServer) -> None:
    datasets = pytest.importorskip("datasets")
    pandas = pytest.importorskip("pandas")
    await roll_out(config(pages.url, "buy", "look", "break"))
    save_iteration(Path("run"), OUT, "train", 0, {})
    frame = pandas.read_parquet(PARQUET)
    assert set(frame["status"]) == {"completed", "failed"}
    rows = datasets.load_dataset("parquet", data_files=str(PARQUET), split="train", cache_dir="cache")
    for row, steps in zip(rows, read_pt(PT), strict=True):
        assert json.loads(row["task"]) == steps[0]["observation"]["task"]
        assert json.loads(row["metadata"])["status"] == row["status"]
        assert len(row["steps"]) == len(steps)
        for cell, step in zip(row["steps"], steps, strict=True):
            action = cell.pop("action")
            assert action["action"]["key"] == step["action"]["action"]["key"]
            assert json.loads(action["action"]["arguments"]) == step["action"]["action"]["arguments"]
            assert cell["observation"] == {name: value for name, value in step["observation"].items() if name != "task"}
            for name in ("response", "reward", "same_as_next_screenshot"):
                assert cell[name] == step[name]


@pytest.mark.export
async def test_parquet_is_written_in_groups(pages: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("rollout.trajectories.exports.parquet.GROUP_BYTES", 1)
    await roll_out(config(pages.url, "buy", "look", "see"))
    save_iteration(Path("run"), OUT, "train", 0, {})
    assert parquet.ParquetFile(PARQUET).num_row_groups == 3


def _metadata() -> dict[str, Any]:
    import pickle
    import zipfile

    with zipfile.ZipFile(PT) as archive:
        found: dict[str, Any] = pickle.loads(archive.read("archive/data.pkl"))["metadata"]
    return found
