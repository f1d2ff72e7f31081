"""Environments from parts: a World class, tasks, scorers; run, paused, searched, scored again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.core.task import Task
from rollout.environments.environment import Environment
from rollout.pipelines.score import open_scoring, rescore
from rollout.scoring.function import FunctionScorer, as_scorer
from rollout.store.reading.reader import open_reader
from rollout.tasks.given import open_tasks
from rollout.trajectories.line import comparable
from rollout.trajectories.score import Score
from tests.conftest import read_lines, roll_out
from tests.environments import shop

OUT = Path("out.jsonl")
ERRING = {"model": "builtin/oracle", "params": {"wrong_argument": 0.3, "stop_early": 0.2}}


def config(name: str = "shop", **dataset: Any) -> dict[str, Any]:
    described = {"environment": f"tests.environments.shop:{name}", "output_path": OUT, "agent": "builtin/oracle"}
    return {"datasets": {"data": {**described, **dataset}}}


async def test_a_world_class_runs_and_its_scorer_sees_its_state() -> None:
    await roll_out(config())
    (line,) = read_lines(OUT)
    assert line["success"]
    assert line["metadata"]["scores"] == [{"name": "filled", "value": 1.0, "partial": 1.0, "decides": True}]
    assert [message["content"] for message in line["messages"] if message["role"] == "tool"] == ["2 × mug", "1 × lamp"]


async def test_without_scorers_the_state_is_compared_with_the_reference() -> None:
    await roll_out(config("unscored", agent={**ERRING, "params": {"wrong_argument": 0.2}}, samples=8))
    lines = read_lines(OUT)
    assert {line["success"] for line in lines} == {True, False}
    for line in lines:
        state = next(score for score in line["metadata"]["scores"] if score["name"] == "state")
        assert (state["value"] == 1.0) == line["success"]


async def test_attempts_that_were_paused_go_on_as_undisturbed_ones() -> None:
    await roll_out(config("many", agent=ERRING, samples=2))
    calm = sorted((comparable(line) for line in read_lines(OUT)), key=lambda line: str(line["id"]))
    OUT.unlink()
    settings = config("many", agent=ERRING, samples=2)
    await roll_out(settings, Path("other"), pause_when=lambda progress: progress.tool_calls == 7)
    assert len(read_lines(OUT)) < len(calm)
    await roll_out(settings, Path("other"))
    assert sorted((comparable(line) for line in read_lines(OUT)), key=lambda line: str(line["id"])) == calm


async def test_a_tree_branches_by_snapshots_of_the_world() -> None:
    await roll_out(config(agent=ERRING, strategy={"name": "mcts", "params": {"simulations": 8}}))
    lines = read_lines(OUT)
    assert len(lines) == 8
    branched = [line for line in lines if "parent" in line["metadata"]["branch"]]
    assert branched
    for line in branched:
        results = [message["content"] for message in line["messages"] if message["role"] == "tool"]
        items = {text.rpartition("× ")[2] for text in results if "×" in text}
        value = len(items & {"mug", "lamp"}) / 2
        assert line["metadata"]["scores"][0]["value"] == value, "its world holds what its own path put in, no more"


async def test_a_run_is_scored_again_by_replaying_it() -> None:
    settings = config(agent=ERRING, samples=6)
    await roll_out(settings)
    async with open_scoring(Config.model_validate(settings), ["data"]) as (scoring,):
        with open_reader(Path("run")) as reader:
            again = [one async for one in rescore(reader, scoring)]
    assert len(again) == 6
    assert all(one.replayed for one in again)
    assert all(one.success == one.recorded.success for one in again)


# ---- tasks -----------------------------------------------------------------------------------------------------------


def test_tasks_come_as_objects_dicts_texts_files_and_generators(tmp_path: Path) -> None:
    entry = {"id": "b", "messages": [{"role": "user", "content": "Hello"}]}
    assert open_tasks([Task("a", "Hi"), entry, "Hey"]).ids == ["a", "b", "2"]
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"id": "c", "messages": []}\n')
    assert open_tasks(path).ids == open_tasks(str(path)).ids == ["c"]
    spooled = open_tasks(Task(f"g{number}", f"Message {number}", info={"n": number}) for number in range(1000))
    assert len(spooled) == 1000
    assert spooled.read(998).info == {"n": 998}
    assert [task.messages[0].content for task in spooled][:2] == ["Message 0", "Message 1"]
    assert spooled.fingerprint == open_tasks(iter(list(spooled))).fingerprint


@pytest.mark.parametrize("given", [[Task("a"), Task("a")], iter([Task("a"), Task("a")])])
def test_two_tasks_of_one_id_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="two tasks have the id 'a'"):
        open_tasks(given)


def test_what_is_no_task_is_named_by_its_place() -> None:
    with pytest.raises(ConfigError, match="entry 1 is no task"):
        open_tasks(["fine", {"id": "x"}])


# ---- scorers ---------------------------------------------------------------------------------------------------------


async def test_scorer_functions_may_be_async_and_return_bools_scores_or_nothing() -> None:
    async def late(task: Task) -> bool:
        return task.id == "t1"

    def with_evidence() -> Score:
        return Score("evidence", 0.5, evidence={"seen": 1})

    def silent(trajectory: Any) -> None:
        return None

    scores = [await as_scorer(one).score(Task("t1"), None, None) for one in (late, with_evidence, silent)]  # type: ignore[arg-type]
    assert scores[0] is not None
    assert (scores[0].name, scores[0].value) == ("late", 1.0)
    assert scores[1] is not None
    assert scores[1].evidence == {"seen": 1}
    assert scores[2] is None
    assert not FunctionScorer(late).needs_world
    assert shop.filled.needs_world


@pytest.mark.parametrize("given", [3, "text", lambda reward: 1.0], ids=["number", "text", "unknown argument"])
def test_what_is_no_scorer_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="scorer"):
        as_scorer(given)


async def test_a_world_that_is_no_world_is_told_before_the_run() -> None:
    class NotAWorld:
        pass

    environment = Environment(tasks=["Hello"], world=NotAWorld)  # type: ignore[arg-type]
    from rollout.environments.resources import Resources

    with pytest.raises(ConfigError, match=r"NotAWorld is no subclass of rollout\.World"):
        environment.open(Resources())
