"""One rule of rewards for a dataset: recorded, streamed, searched and filtered by."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.core.task import Task
from rollout.environments.environment import Environment
from rollout.pipelines.run import open_run
from rollout.scoring.function import scorer
from rollout.store.reading.reader import open_reader
from rollout.strategies.find import make_strategy
from rollout.testing import StubServer
from rollout.trajectories.rewards import reward_rule
from rollout.trajectories.stop import StopReason
from rollout.trajectories.trajectory import Trajectory
from tests.conftest import Command, read_lines, roll_out, stub_config, write_tasks
from tests.trajectories.lines import trajectory

OUT = Path("out.jsonl")
VALUES = (0.2, 0.6, 0.33, 0.5)


@scorer
def graded(trajectory: Trajectory) -> float:
    """Another value for each attempt at a task."""
    return VALUES[int(trajectory.id.partition("~")[2] or 0)]


@scorer
def infinite() -> float:
    return float("inf")


def worth(trajectory: Trajectory) -> float:
    """Reads the verdict, the messages, the nodes and the record of an attempt."""
    assert trajectory.nodes is not None
    assert trajectory.scored
    assert list(trajectory.generated) == [
        place for place, message in enumerate(trajectory.messages) if message.role == "assistant"
    ]
    score = trajectory.score("graded")
    assert score is not None
    assert score.value is not None
    return score.value + trajectory.turns


def solved(trajectory: Trajectory) -> bool:
    return trajectory.success


def broken(trajectory: Trajectory) -> float:
    return 1 / 0


def endless(trajectory: Trajectory) -> float:
    return float("inf")


async def late(trajectory: Trajectory) -> float:
    return 1.0


not_a_function = 1.0


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return write_tasks(tmp_path / "tasks.jsonl", "One", "Two", "Three")


def config(stub: StubServer, tasks: Path, scorers: tuple[str, ...] = ("graded",), **dataset: Any) -> dict[str, Any]:
    custom = [f"tests.engine.test_reward_rule:{name}" for name in scorers]
    return stub_config(stub.url, tasks, samples=4, scoring={"custom": custom}, **dataset)


async def streamed(settings: dict[str, Any]) -> list[tuple[list[float | None], bool]]:
    groups = []
    async with open_run(Config.model_validate(settings), Path("run"), resume=True) as opened:
        async for group in opened.engine.stream():
            groups.append((group.rewards, group.is_useful))
    return groups


async def test_a_single_custom_scorer_gives_the_reward(stub: StubServer, tasks: Path) -> None:
    assert await streamed(config(stub, tasks)) == [(list(VALUES), True)] * 3
    for line in read_lines(OUT):
        assert line["metadata"]["reward"] == line["metadata"]["scores"][0]["value"]
        assert not line["success"]


async def test_reward_of_the_dataset_wins(stub: StubServer, tasks: Path) -> None:
    assert await streamed(config(stub, tasks, reward="success")) == [([0.0] * 4, False)] * 3


async def test_two_scorers_that_decide_make_it_success(stub: StubServer, tasks: Path) -> None:
    scorers = ("graded", "infinite")
    assert await streamed(config(stub, tasks, scorers)) == [([0.0] * 4, False)] * 3


async def test_one_of_several_scores_can_be_the_reward(stub: StubServer, tasks: Path) -> None:
    settings = config(stub, tasks, ("graded", "infinite"), reward="score:graded")
    assert await streamed(settings) == [(list(VALUES), True)] * 3


async def test_a_value_that_is_no_number_is_no_reward(stub: StubServer, tasks: Path) -> None:
    assert await streamed(config(stub, tasks, ("infinite",))) == [([None] * 4, False)] * 3


async def test_dynamic_sampling_finds_groups_by_reward_also_after_a_resume(stub: StubServer, tasks: Path) -> None:
    settings = {**config(stub, tasks), "dynamic": {"groups": 2}, "max_workers": 1}
    await roll_out(settings)
    assert {line["task_id"] for line in read_lines(OUT)} == {"task0", "task1"}
    await roll_out(settings)
    assert len(read_lines(OUT)) == 8, "the journal says that there are enough useful groups"
    with open_reader(Path("run")) as reader:
        assert all(group.is_mixed for group in reader.groups_by_task("data").values())


async def test_early_stop_goes_by_the_reward(stub: StubServer, tasks: Path) -> None:
    settings = config(stub, tasks, strategy={"name": "chain", "stop_when_mixed": True, "at_once": 1})
    await roll_out(settings)
    assert {line["id"] for line in read_lines(OUT)} == {f"task{n}{end}" for n in range(3) for end in ("", "~1")}


def test_search_goes_by_the_datasets_reward_unless_it_names_a_value() -> None:
    choice = Config.model_validate({"datasets": {"d": {"strategy": "mcts"}}}).datasets["d"].strategy
    assert make_strategy(choice).value == "partial"  # type: ignore[attr-defined]
    assert make_strategy(choice, reward="score:a").value == "score:a"  # type: ignore[attr-defined]
    named = choice.model_copy(update={"params": {"value": "success"}})
    assert make_strategy(named, reward="score:a").value == "success"  # type: ignore[attr-defined]


def test_filters_and_training_rows_go_by_the_recorded_reward(tmp_path: Path, tasks: Path, rollout: Command) -> None:
    async def make() -> None:
        async with StubServer() as stub:
            await roll_out(config(stub, tasks))

    asyncio.run(make())
    assert rollout("filter", "run").code == 0
    found = [json.loads(line) for line in Path("run/filters.jsonl").read_bytes().splitlines()]
    assert not [line for line in found if "constant_groups" in json.dumps(line)]
    assert rollout("filter", "run", "--set", "constant_groups.reward=success").code == 0
    assert "constant_groups" in Path("run/filters.jsonl").read_text()
    assert rollout("train-data", "run", "-o", "rows", "--text", "-f", "jsonl").code == 0
    rows = read_lines(next(Path("rows").glob("*.jsonl")))
    assert sorted({row["reward"] for row in rows}) == sorted(VALUES)
    assert rollout("train-data", "run", "-o", "other", "--text", "-f", "jsonl", "--reward", "success").code == 0
    assert {row["reward"] for row in read_lines(next(Path("other").glob("*.jsonl")))} == {0.0}


# ---- functions -------------------------------------------------------------------------------------------------------

HERE = "tests.engine.test_reward_rule"


async def test_a_function_can_be_the_reward_of_a_dataset(stub: StubServer, tasks: Path) -> None:
    settings = config(stub, tasks, reward=f"{HERE}:worth")
    assert await streamed(settings) == [([value + 1 for value in VALUES], True)] * 3
    assert {line["metadata"]["reward"] for line in read_lines(OUT)} == {value + 1 for value in VALUES}


talk = Environment(tasks=[Task("one", "Hello")], scorers=[graded], reward=f"{HERE}:worth")


async def test_a_function_can_be_the_reward_of_an_environment(stub: StubServer, tasks: Path) -> None:
    settings = stub_config(stub.url, tasks)
    agent = settings["datasets"]["data"]["agent"]
    settings["datasets"] = {"data": {"environment": f"{HERE}:talk", "agent": agent, "output_path": OUT}}
    await roll_out(settings)
    assert [line["metadata"]["reward"] for line in read_lines(OUT)] == [VALUES[0] + 1]


def test_training_rows_can_go_by_a_function(tmp_path: Path, tasks: Path, rollout: Command) -> None:
    async def make() -> None:
        async with StubServer() as stub:
            await roll_out(config(stub, tasks))

    asyncio.run(make())
    done = rollout("train-data", "run", "-o", "rows", "--text", "-f", "jsonl", "--reward", f"{HERE}:worth")
    assert done.code == 0
    rows = read_lines(next(Path("rows").glob("*.jsonl")))
    assert sorted({row["reward"] for row in rows}) == sorted(value + 1 for value in VALUES)
    done = rollout("train-data", "run", "-o", "none", "--text", "-f", "jsonl", "--reward", "no_module:here")
    assert done.code == 2
    assert "no_module" in done.out + done.err


@pytest.mark.parametrize("name", ["broken", "endless"])
def test_a_function_that_fails_gives_no_reward_and_is_named_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    rule = reward_rule(f"{HERE}:{name}")
    assert [rule(trajectory(id=f"t{number}")) for number in range(3)] == [None] * 3
    assert [f"{HERE}:{name}" in message for message in caplog.messages] == [True]


def test_a_score_that_no_scorer_gives_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    rule = reward_rule("score:graded")
    scored = trajectory(scores=[{"name": "grade", "value": 0.5}])
    assert (rule(scored), rule(scored)) == (None, None)
    (record,) = caplog.records
    assert record.getMessage().endswith("has no score 'graded', so no reward; did you mean 'grade'?")


def test_a_function_may_return_a_bool_and_is_not_asked_about_what_broke() -> None:
    rule = reward_rule(f"{HERE}:solved")
    assert rule(trajectory(success=True)) == 1.0
    assert rule(trajectory(success=False)) == 0.0
    assert rule(trajectory(success=True, reason=StopReason.ERROR)) is None


@pytest.mark.parametrize(("name", "told"), [("late", "async"), ("not_a_function", "not a function"), ("gone", "gone")])
def test_what_cannot_be_asked_is_refused(name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        reward_rule(f"{HERE}:{name}")


@pytest.mark.parametrize("rule", ["nothing", "recorded", "score:"])
async def test_a_reward_that_is_no_rule_is_named(stub: StubServer, tasks: Path, rule: str) -> None:
    with pytest.raises(ConfigError, match=r"datasets\.data\.reward"):
        await roll_out(config(stub, tasks, reward=rule))


def test_lines_of_earlier_versions_have_success_as_their_reward() -> None:
    rule = reward_rule("recorded")
    assert rule(trajectory(success=True, scored=True)) == 1.0
    assert rule(trajectory(success=True, scored=False)) is None
    assert rule(trajectory(reason=StopReason.ERROR, scored=True)) is None
    assert rule(trajectory(scored=True, reward=None)) is None
