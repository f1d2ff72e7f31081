"""The suite tau2, over a folder laid out as a clone of tau2-bench is; and over a real clone, where one is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollout.config.models import AgentConfig
from rollout.config.schema import Dataset
from rollout.core.calls import CallReader
from rollout.core.errors import ConfigError
from rollout.core.messages import Message, ToolCall
from rollout.core.task import Action, Task
from rollout.core.world import Invocation
from rollout.environments.find import find_environment
from rollout.environments.suites.tau2.environment import OpenTau2, Tau2
from rollout.environments.suites.tau2.world import Tau2World
from rollout.pipelines.saved_config import saved_config
from rollout.pipelines.score import open_scoring, rescore
from rollout.store.reading.reader import open_reader
from rollout.testing import StubServer
from rollout.trajectories.line import comparable
from rollout.trajectories.score import Score
from tests.conftest import read_lines, roll_out, write_yaml
from tests.environments.opening import opened
from tests.environments.suites.lamps import write_clone
from tests.trajectories.lines import trajectory


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One folder for all tests: a process can load one clone."""
    yield write_clone(tmp_path_factory.mktemp("tau2") / "clone")
    for name in [name for name in sys.modules if name.partition(".")[0] == "tau2"]:
        del sys.modules[name]


@pytest.fixture
def suite(clone: Path) -> Tau2:
    return Tau2(path=clone, domain="lamps")


def task_of(suite: Tau2, name: str) -> Task:
    return next(task for task in suite.tasks if task.id == name)


def config(clone: Path, **dataset: Any) -> dict[str, Any]:
    return {
        "datasets": {
            "lamps": {
                "suite": "tau2",
                "suite_params": {"path": str(clone), "domain": "lamps"},
                "output_path": "out.jsonl",
                "agent": "builtin/oracle",
                "user": "builtin/user",
                **dataset,
            }
        }
    }


async def begun(suite: Tau2, name: str, seed: int = 1) -> Tau2World:
    world = opened(suite, OpenTau2).make_world(task_of(suite, name))
    await world.open(task_of(suite, name), seed)
    return world


def call(name: str, **arguments: Any) -> Invocation:
    return Invocation("c", name, arguments)


# ---- what is read from the folder ------------------------------------------------------------------------------------


def test_domain_brings_its_tools_policy_and_tasks(suite: Tau2) -> None:
    writes = {spec.name: spec.is_write for spec in opened(suite).toolset.specs}
    assert writes == {"calculate": False, "find_lamp": False, "reset_lamp": True, "scrap_lamp": True}
    assert opened(suite).toolset.by_name["reset_lamp"].parameters["required"] == ["lamp_id"]
    assert suite.system_for(AgentConfig()) == "Reset what stays dark."
    assert suite.defaults.user_guidelines == "You are a customer with a remote control."
    assert suite.tasks.ids == ["light", "hours", "went_before", "own_data"]


def test_split_chooses_tasks(clone: Path) -> None:
    assert Tau2(path=clone, domain="lamps", split="all").tasks.ids[-1] == "unused"
    with pytest.raises(ConfigError, match=r"suite_params\.split: .*no split none; there are \['base', 'all'\]"):
        Tau2(path=clone, domain="lamps", split="none")


def test_reference_becomes_turns_of_both_sides(suite: Tau2) -> None:
    light = task_of(suite, "light")
    assert light.actions == (Action("reset_lamp", {"lamp_id": "L1"}, 0),)
    assert light.user_actions == (Action("look", {}, 0), Action("press", {}, 1))
    assert light.info["instruction"] == "My lamp L1 stays dark."
    assert "Lamp L1." in light.user_system_prompt
    went_before = task_of(suite, "went_before")
    assert [message.role for message in went_before.messages] == ["user", "assistant", "tool", "assistant"]
    assert [action.turn for action in went_before.actions or ()] == [1]


def test_environment_is_as_it_was(suite: Tau2) -> None:
    assert "SECRET_OF_ITS_ENV_FILE" not in os.environ
    assert "TAU2_DATA_DIR" not in os.environ


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"domain": "lamps"}, r"suite_params\.path: field required"),
        ({"path": "{clone}"}, r"suite_params\.domain: field required"),
        ({"path": "{clone}", "domain": "lamps", "splits": "x"}, r"suite_params\.splits: .*did you mean 'split'"),
        ({"path": "nowhere", "domain": "lamps"}, r"suite_params\.path: .*nowhere is no clone of tau2-bench"),
        (
            {"path": "{clone}", "domain": "ships"},
            r"suite_params\.domain: there is no 'ships' .*known: lamps, orders, sh",
        ),
        (
            {"path": "{clone}", "domain": "shelves"},
            r"needs a_package_that_nobody_has: pip install 'roll",
        ),
    ],
)
def test_what_is_wrong_is_named(clone: Path, params: dict[str, str], text: str) -> None:
    filled = {key: value.replace("{clone}", str(clone)) for key, value in params.items()}
    with pytest.raises(ConfigError, match=rf"datasets\.mine: tau2: .*{text}"):
        find_environment("mine", Dataset(suite="tau2", suite_params=filled))


def test_second_clone_in_one_process_is_refused(suite: Tau2, tmp_path: Path) -> None:
    other = write_clone(tmp_path / "other")
    with pytest.raises(ConfigError, match="one process can use one clone"):
        Tau2(path=other, domain="lamps")


# ---- worlds ----------------------------------------------------------------------------------------------------------


async def test_what_the_agent_does_shows_on_the_users_side(suite: Tau2) -> None:
    world = await begun(suite, "light")
    light = task_of(suite, "light")
    user_world = opened(suite).user_world(light, world)
    assert user_world is not None
    assert set((await user_world.open(light, 1)).tools.by_name) == {"look", "press"}
    (refused,) = await user_world.call([call("press")])
    assert (refused.content, refused.is_error, refused.error_kind) == ("Error: nothing happens", True, "tool")
    await world.call([call("reset_lamp", lamp_id="L1")])
    assert [result.content for result in await user_world.call([call("press"), call("look")])] == [
        "Click.",
        "The lamp is on.",
    ]
    changes = await world.changes()
    assert changes["user.is_on"].added == ({"value": True},)
    assert changes["lamps"].removed == ({"lamp_id": "L1", "hours": 600, "resets": []},)


def test_task_may_give_its_user_no_tools(suite: Tau2, clone: Path) -> None:
    lamps, hours = opened(suite), task_of(suite, "hours")
    assert lamps.user_world(hours, lamps.make_world(hours)) is None
    by_post = Tau2(path=clone, domain="orders")
    post, light = opened(by_post), task_of(by_post, "light")
    assert post.user_world(light, post.make_world(light)) is None
    assert by_post.defaults.user_guidelines == "You are a customer."


async def test_worlds_share_nothing_and_the_seed_gives_the_ids(suite: Tau2) -> None:
    one, other, third = [await begun(suite, "light", seed) for seed in (1, 1, 2)]
    key = await one.state_key()
    await one.call([call("reset_lamp", lamp_id="L1"), call("scrap_lamp", lamp_id="L2")])
    assert await other.changes() == {}, "neither rows nor what stands on the tools' class are shared"
    assert other.environment.tools.last_numbers == []
    assert await other.state_key() == key
    await other.call([call("reset_lamp", lamp_id="L1"), call("scrap_lamp", lamp_id="L2")])
    await third.call([call("reset_lamp", lamp_id="L1"), call("scrap_lamp", lamp_id="L2")])
    assert await other.changes() == await one.changes()
    assert await other.state_key() == await one.state_key()
    assert await third.changes() != await one.changes()


async def test_reading_changes_nothing_and_copies_nothing(clone: Path) -> None:
    by_post = Tau2(path=clone, domain="orders")
    world = await begun(by_post, "hours")
    (found,) = await world.call([call("find_lamp", hours=1200)])
    assert json.loads(found.content)["lamp_id"] == "L2"
    assert world.environment.tools.db.lamps.touched() == set()
    await world.call([call("reset_lamp", lamp_id="L2")])
    assert world.environment.tools.db.lamps.touched() == {"L2"}


async def test_snapshot_brings_both_sides_back_in_another_world(suite: Tau2) -> None:
    world, other = await begun(suite, "light"), await begun(suite, "light")
    await world.call([call("reset_lamp", lamp_id="L1"), call("scrap_lamp", lamp_id="L2")])
    await world.act(call("press"), "user")
    snapshot = await world.snapshot()
    assert snapshot is not None
    changed = await world.changes()
    await world.call([call("scrap_lamp", lamp_id="L3")])
    await world.act(call("press"), "user")
    await world.restore(snapshot)
    await other.restore(snapshot)
    assert await world.changes() == await other.changes() == changed
    assert await world.state_key() == await other.state_key() == snapshot.state_key
    (one,) = await world.call([call("reset_lamp", lamp_id="L4")])
    (two,) = await other.call([call("reset_lamp", lamp_id="L4")])
    assert one == two, "the ids to come are the same, too"


async def test_changes_count_from_the_tasks_own_beginning(suite: Tau2) -> None:
    world = await begun(suite, "own_data")
    assert await world.changes() == {}
    assert set(world.environment.tools.db.lamps) == {"L9"}
    assert len(world.environment.tools.db.lamps["L9"].resets) == 1
    assert (await begun(suite, "light")).environment.tools.db.lamps.keys() >= {"L1", "L39"}


async def test_tower_of_powers_does_not_hold_up_the_run(suite: Tau2) -> None:
    world = await begun(suite, "light")
    tower, sum_ = await world.call([call("calculate", expression="9**9**9**9"), call("calculate", expression="2+3")])
    assert tower.is_error
    assert sum_.content == "5"


async def test_unknown_tools_and_wrong_arguments_never_reach_the_environment(suite: Tau2) -> None:
    world = opened(suite).make_world(task_of(suite, "light"))
    reader = CallReader((await world.open(task_of(suite, "light"), 1)).tools)
    for name, arguments in (("press", "{}"), ("reset_lamp", '{"lamp_id": 3}'), ("assert_known", '{"lamp_id": "L1"}')):
        assert not isinstance(reader.read(ToolCall("c", name, arguments)), Invocation)


# ---- scores ----------------------------------------------------------------------------------------------------------


async def scores_of(suite: Tau2, name: str, world: Tau2World, *said: str) -> dict[str, Score]:
    messages = [Message(role="assistant", content=text) for text in said]
    path = trajectory(*messages, id=name)
    task = task_of(suite, name)
    found = [await scorer.score(task, path, world) for scorer in opened(suite).scorers(None, lambda task: 1)]
    return {score.name: score for score in found if score is not None}


async def test_each_part_of_the_reward_basis_is_a_score(suite: Tau2) -> None:
    world = await begun(suite, "light")
    await world.act(call("look"), "user")
    await world.call([call("reset_lamp", lamp_id="L1")])
    await world.act(call("press"), "user")
    scores = await scores_of(suite, "light", world)
    assert {name: score.value for name, score in scores.items()} == {
        "tau2_db": 1.0,
        "tau2_env": 1.0,
        "tau2_actions": 1.0,
    }


async def test_idle_agent_is_told_what_is_missing(suite: Tau2) -> None:
    world = await begun(suite, "light")
    await world.act(call("press"), "user")
    scores = await scores_of(suite, "light", world)
    assert {score.value for score in scores.values()} == {0.0}
    (differing,) = scores["tau2_db"].evidence["tables"]["lamps"]["differing"]
    assert differing["key"] == {"lamp_id": "L1"}
    assert differing["fields"]["resets"]["got"] == []
    assert scores["tau2_env"].evidence["failed"][0]["assertion"] == "assert_on"
    missing = {(action["by"], action["name"]) for action in scores["tau2_actions"].evidence["missing"]}
    assert missing == {("user", "look"), ("assistant", "reset_lamp")}


async def test_damage_beside_the_reference_fails(suite: Tau2) -> None:
    world = await begun(suite, "hours")
    await world.call([call("scrap_lamp", lamp_id="L2"), call("scrap_lamp", lamp_id="L3")])
    scores = await scores_of(suite, "hours", world, "It has burnt 1200 hours.")
    assert scores["tau2_db"].value == 0.0
    assert scores["tau2_db"].evidence["tables"]["lamps"]["missing"] == [{"lamp_id": "L3", "hours": 1800, "resets": []}]
    assert scores["tau2_communicate"].value == 1.0, "commas do not matter on either side"
    assert (await scores_of(suite, "hours", world, "Long."))["tau2_communicate"].evidence == {"missing": ["1,200"]}


async def test_one_call_stands_for_one_action_of_its_own_side(suite: Tau2) -> None:
    criteria = suite._domain.sources["light"].evaluation_criteria
    once = list(criteria.actions)
    criteria.actions = [*once, once[1], once[1].model_copy(update={"compare_args": []})]
    try:
        world = await begun(suite, "light")
        await world.act(call("look"), "user")
        await world.act(call("press"), "user")
        await world.call([call("reset_lamp", lamp_id="L1"), call("reset_lamp", lamp_id="L5")])
        scores = await scores_of(suite, "light", world)
        assert len(scores["tau2_actions"].evidence["missing"]) == 1
        await world.call([call("reset_lamp", lamp_id="L1")])
        assert (await scores_of(suite, "light", world))["tau2_actions"].value == 1.0
    finally:
        criteria.actions = once


async def test_assertion_about_what_is_gone_does_not_hold(suite: Tau2) -> None:
    world = await begun(suite, "own_data")
    await world.call([call("scrap_lamp", lamp_id="L9")])
    (failed,) = (await scores_of(suite, "own_data", world))["tau2_env"].evidence["failed"]
    assert "KeyError" in failed["error"]


# ---- runs ------------------------------------------------------------------------------------------------------------


async def test_reference_of_both_sides_solves_every_task_that_needs_no_judge(clone: Path) -> None:
    await roll_out(config(clone))
    lines = {line["id"]: line for line in read_lines(Path("out.jsonl"))}
    assert {name: line["success"] for name, line in lines.items()} == {
        "light": True,
        "hours": True,
        "went_before": False,
        "own_data": True,
    }
    scores = {score["name"]: score["value"] for score in lines["went_before"]["metadata"]["scores"]}
    assert scores == {"tau2_db": 1.0, "nl_assertions": None}, "what a judge must say is open, so there is no verdict"
    assert not lines["went_before"]["metadata"]["scored"]
    light = lines["light"]
    assert [message["role"] for message in light["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
    assert light["metadata"]["user_calls"] == [
        {"turn": 0, "message": 0, "name": "look", "arguments": "{}", "result": "The lamp is off."},
        {"turn": 1, "message": 4, "name": "press", "arguments": "{}", "result": "Click."},
    ]
    assert "user_calls" not in lines["hours"]["metadata"]


async def test_dataset_may_let_the_state_alone_decide(clone: Path) -> None:
    await roll_out(config(clone, scoring={"decide": ["tau2_db"]}))
    assert all(line["success"] and line["metadata"]["scored"] for line in read_lines(Path("out.jsonl")))


async def test_run_is_scored_again_with_what_the_user_did(clone: Path) -> None:
    await roll_out(config(clone, agent={"model": "builtin/oracle", "params": {"stop_early": 0.5}}, samples=4))
    lines = {line["id"]: line for line in read_lines(Path("out.jsonl"))}
    assert {line["success"] for line in lines.values()} == {True, False}
    async with open_scoring(saved_config(Path("run")), ["lamps"]) as (scoring,):
        with open_reader(Path("run")) as reader:
            again = [one async for one in rescore(reader, scoring)]
    assert len(again) == 16
    for one in again:
        line = lines[one.recorded.id]
        assert one.replayed, one.verdict.unscored
        assert one.success == line["success"]
        assert [score.record() for score in one.verdict.scores] == line["metadata"]["scores"]


async def test_idle_agent_solves_nothing_that_changes_something(clone: Path) -> None:
    await roll_out(config(clone, agent={"model": "builtin/oracle", "params": {"stop_early": 1}}))
    assert [line["id"] for line in read_lines(Path("out.jsonl")) if line["success"]] == []


async def test_user_is_brought_back_with_what_it_has_done(clone: Path) -> None:
    await roll_out(config(clone), Path("whole"))
    whole = {line["id"]: comparable(line) for line in read_lines(Path("out.jsonl"))}
    Path("out.jsonl").unlink()
    starts = 0
    while True:
        starts += 1
        opened_run = await roll_out(config(clone), pause_when=lambda progress: progress.generations >= 1)
        if opened_run.engine.progress.running == 0 and len(read_lines(Path("out.jsonl"))) == len(whole):
            break
    assert starts > 2, "it was interrupted in the middle of conversations"
    assert opened_run.engine.replay_mismatches == 0
    assert {line["id"]: comparable(line) for line in read_lines(Path("out.jsonl"))} == whole


async def test_model_user_calls_its_tools_before_it_speaks(clone: Path) -> None:
    rules = [
        {"when": {"model": "user", "step": 0}, "reply": {"tool_calls": [{"name": "look", "arguments": {}}]}},
        {"when": {"model": "user"}, "reply": {"content": "It stays dark. ###STOP###"}},
        {"reply": {"content": "Hello."}},
    ]
    async with StubServer({"rules": rules}, keep_requests=True) as server:
        settings = config(clone, agent={"model": "agent"}, user={"model": "user"}, limit=1)
        settings["models"] = {"agent": {"api_base": server.url}, "user": {"api_base": server.url, "model": "user"}}
        await roll_out(settings)
        asked = [request for request in server.requests if request["model"] == "user"]
    (line,) = read_lines(Path("out.jsonl"))
    assert line["metadata"]["user_calls"][0]["result"] == "The lamp is off."
    assert [tool["function"]["name"] for tool in asked[0]["tools"]] == ["look", "press"]
    assert asked[0]["messages"][0]["content"].startswith("You are a customer with a remote control.")
    assert [message["role"] for message in asked[-1]["messages"]][-2:] == ["assistant", "tool"]
    assert all("tool_calls" not in message for message in line["messages"])


def test_dry_run_says_what_would_run_and_asks_for_a_user(clone: Path) -> None:
    settings = config(clone)
    good = _rollout("run", str(write_yaml(Path("good.yml"), settings)), "--dry-run")
    assert good.returncode == 0, good.stdout + good.stderr
    assert "4 trajectories; no problems found" in good.stdout
    del settings["datasets"]["lamps"]["user"]
    bad = _rollout("run", str(write_yaml(Path("bad.yml"), settings)), "--dry-run")
    assert bad.returncode == 2
    assert "user: needed because max_turns is 50" in bad.stdout


def _rollout(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from rollout.cli import main; main()", *arguments]
    environment = {**os.environ, "COLUMNS": "160"}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)


CLONE = os.environ.get("TAU2_BENCH")
EXPECTED = {"mock": (7, 9), "airline": (50, 50), "retail": (74, 74), "telecom": (114, 114)}
"""What the reference alone solves, of what needs no judge. Two of mock's tasks need what is in no reference."""


@pytest.mark.skipif(CLONE is None, reason="TAU2_BENCH names no clone of tau2-bench")
@pytest.mark.parametrize("domain", EXPECTED)
def test_reference_solves_the_domains_of_a_real_clone(domain: str) -> None:
    settings = config(Path(str(CLONE)))
    settings["datasets"]["lamps"]["suite_params"]["domain"] = domain
    done = _rollout("run", str(write_yaml(Path("real.yml"), settings)))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = read_lines(Path("out.jsonl"))
    scored = [line["success"] for line in lines if line["metadata"]["scored"]]
    assert (sum(scored), len(scored)) == EXPECTED[domain]
