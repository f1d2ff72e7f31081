"""Suites and environments of somebody else: anything that keeps the contract, named in a dataset."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rollout.agents.monitor import MonitorRules
from rollout.agents.users.user import UserReply
from rollout.config.models import AgentConfig, UserConfig
from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.core.messages import Message, ToolCall, ToolResult, Toolset, ToolSpec
from rollout.core.task import Action, Task
from rollout.core.world import Invocation, Opening, SeedOf, Snapshot, World
from rollout.environments.environment import Defaults, Environment, OpenEnvironment, Traits
from rollout.environments.resources import Resources
from rollout.models.registry import Registry
from rollout.pipelines.wiring.datasets import open_plans
from rollout.scoring.judge import Judge
from rollout.scoring.scorer import Scorer
from rollout.tasks.source import TaskList
from rollout.testing import StubServer
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory
from tests.conftest import read_lines, roll_out, write_tasks

TOOLS = Toolset((ToolSpec("count"), ToolSpec("forget")))
PEEK = Toolset((ToolSpec("peek"),))


class Counter(World):
    """A world that counts calls."""

    def __init__(self) -> None:
        self.count = 0

    async def open(self, task: Task, seed: int) -> Opening:
        self.count = 0
        return Opening(TOOLS)

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        self.count += len(calls)
        return [ToolResult(call.call_id, str(self.count)) for call in calls]

    async def snapshot(self) -> Snapshot | None:
        return None

    async def restore(self, snapshot: Snapshot) -> None: ...

    async def state_key(self) -> str:
        return str(self.count)

    async def close(self) -> None: ...


class Peephole(Counter):
    """What the user sees of it."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    async def open(self, task: Task, seed: int) -> Opening:
        return Opening(PEEK)

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        return [ToolResult(call.call_id, f"seen {await self._world.state_key()}") for call in calls]


class CountScorer:
    name = "count"

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        assert isinstance(world, Counter)
        return Score(self.name, float(world.count == len(task.actions or ())))


class Counting(Environment):
    """One task: count twice, the second time after `forget` was handed out."""

    name = "counting"
    defaults = Defaults(user_guidelines="Peek.", max_turns=3, max_steps_per_turn=4)
    traits = Traits(do_tools_vary=True)

    def __init__(self, **params: Any) -> None:
        if params.get("bad"):
            raise ConfigError("suite_params.bad: is bad")
        self.identity = {"suite": dict(params)}
        task = Task(
            id="twice",
            messages=(Message(role="user", content="Count."),),
            actions=(Action("count"), Action("forget", turn=1)),
            user_actions=(Action("peek", turn=1), Action("peek", turn=2)),
            user_turns=("And again.",),
        )
        self.tasks = TaskList("one task", [task])

    def system_for(self, agent: AgentConfig) -> str | None:
        return "Count."

    def monitor_rules(self, config: Config, *, has_tools: bool) -> MonitorRules | None:
        return None

    @contextlib.asynccontextmanager
    async def open(self, resources: Resources, *, makes_worlds: bool = True) -> AsyncIterator[OpenEnvironment]:
        yield OpenCounting()


class OpenCounting(OpenEnvironment):
    def __init__(self) -> None:
        super().__init__(TOOLS)
        self._first = Toolset(TOOLS.specs[:1])

    def tools_for(self, task: Task, turn: int) -> Toolset:
        return self._first if turn == 0 else TOOLS

    def make_world(self, task: Task) -> Counter:
        return Counter()

    def user_world(self, task: Task, world: World) -> World | None:
        return Peephole(world)

    def scorers(self, judge: Judge | None, seed_of: SeedOf) -> Sequence[Scorer]:
        return [CountScorer()]


class Scripted(Counting):
    defaults = Defaults(user=UserConfig(kind="scripted"), is_user_fixed=True, max_turns=3, max_steps_per_turn=4)


class Toolless(Counting):
    @contextlib.asynccontextmanager
    async def open(self, resources: Resources, *, makes_worlds: bool = True) -> AsyncIterator[OpenEnvironment]:
        opened = OpenCounting()
        opened.user_world = lambda task, world: None  # type: ignore[method-assign]
        yield opened


def config(**dataset: Any) -> dict[str, Any]:
    return {
        "datasets": {
            "data": {
                "suite": "tests.environments.suites.test_suites:Counting",
                "output_path": "out.jsonl",
                "agent": "builtin/oracle",
                "user": "builtin/user",
                **dataset,
            }
        }
    }


async def test_suite_gives_tasks_tools_user_world_limits_and_scores() -> None:
    await roll_out(config())
    (line,) = read_lines(Path("out.jsonl"))
    assert line["success"]
    assert line["metadata"]["scores"] == [{"name": "count", "value": 1.0, "decides": True}]
    assert [entry["turn"] for entry in line["metadata"]["prompts"]] == [0, 1]
    assert [(made["turn"], made["result"]) for made in line["metadata"]["user_calls"]] == [(1, "seen 1"), (2, "seen 2")]
    assert line["metadata"]["total_turns"] == 2
    assert all(message["role"] != "tool" or message["content"] in "12" for message in line["messages"])


async def test_datasets_own_limits_come_first() -> None:
    await roll_out(config(max_turns=1, user=None))
    (line,) = read_lines(Path("out.jsonl"))
    assert line["metadata"]["stop_reason"] == "agent_done"


async def test_run_of_a_suite_with_other_parameters_is_not_resumed() -> None:
    await roll_out(config(suite_params={"of": 1}), pause_when=lambda progress: True)
    with pytest.raises(Exception, match=r"suite was .*'of': 1.*is .*'of': 2"):
        await roll_out(config(suite_params={"of": 2}))


async def test_monitor_keeps_out_of_a_suites_conversations() -> None:
    settings = config(agent={"model": "builtin/oracle", "params": {"void_turn": 1}})
    settings["monitor_max_empty_replies"] = 1
    await roll_out(settings)
    (line,) = read_lines(Path("out.jsonl"))
    assert line["metadata"]["stop_reason"] == "max_turns", "the user asks again until there are no turns left"


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        (
            {"suite": "nothing"},
            r"datasets\.data\.suite: there is no suite 'nothing'; known: bfcl_multi_turn, miniwob, tau2",
        ),
        ({"suite": "tests.environments.suites:Nothing"}, "cannot be imported"),
        (
            {"suite_params": {"bad": True}},
            r"datasets\.data: tests\.environments\.suites\.test_suites:Counting: suite_params\.bad: is bad",
        ),
        ({"path": "a.jsonl", "mode": "no_tool"}, r"datasets\.data: path, mode: leave out"),
        ({"suite": "tests.environments.suites.test_suites:Scripted"}, r"datasets\.data\.user: leave out"),
        ({"user": None}, r"datasets\.data\.user: needed because max_turns is 3"),
        ({"agent": "local/smollm2"}, r"datasets\.data\.agent\.model: local/smollm2 .*differ by task"),
    ],
)
async def test_what_a_dataset_says_wrongly_is_named(dataset: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        await roll_out(config(**dataset))


# ---- users with tools of their own -----------------------------------------------------------------------------------


async def test_user_that_only_calls_and_never_speaks_comes_to_an_end() -> None:
    rules = [
        {"when": {"model": "user"}, "reply": {"tool_calls": [{"name": "peek", "arguments": {}}]}},
        {"reply": {"content": "Yes?"}},
    ]
    async with StubServer({"rules": rules}, keep_requests=True) as server:
        settings = config(agent={"model": "agent"}, user={"model": "user"})
        settings["models"] = {name: {"api_base": server.url, "model": name} for name in ("agent", "user")}
        await roll_out(settings)
        asked = [request for request in server.requests if request["model"] == "user"]
    (line,) = read_lines(Path("out.jsonl"))
    assert line["metadata"]["stop_reason"] == "user_silent"
    assert len(line["metadata"]["user_calls"]) == 4
    assert len(asked) == 5
    assert asked[0]["messages"][0]["content"].startswith("Peek.")
    assert line["metadata"]["usage"]["user"]["prompt_tokens"] > 0


async def test_user_calls_that_do_not_exist_are_answered_with_an_error() -> None:
    rules = [
        {"when": {"model": "user", "step": 0}, "reply": {"tool_calls": [{"name": "count", "arguments": {}}]}},
        {"when": {"model": "user"}, "reply": {"content": "Bye. ###STOP###"}},
        {"reply": {"content": "Yes?"}},
    ]
    async with StubServer({"rules": rules}) as server:
        settings = config(agent={"model": "agent"}, user={"model": "user"})
        settings["models"] = {name: {"api_base": server.url, "model": name} for name in ("agent", "user")}
        await roll_out(settings)
    (line,) = read_lines(Path("out.jsonl"))
    (made,) = line["metadata"]["user_calls"]
    assert "There is no tool 'count'" in made["result"], "the agent's tools are not the user's"
    assert line["metadata"]["stop_reason"] == "user_stop"


class Meddler:
    """A user that calls tools although it has none."""

    world: World | None = None
    tools = Toolset()

    async def reply(self, dialogue: Sequence[Message]) -> UserReply:
        return UserReply(None, calls=(ToolCall("c", "peek"),))


async def test_call_by_a_user_without_tools_is_the_users_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollout.pipelines.wiring.agent.BuiltinUser", lambda task, seed: Meddler())
    await roll_out(config(suite="tests.environments.suites.test_suites:Toolless"))
    (line,) = read_lines(Path("run/failed.jsonl"))
    assert line["metadata"]["error"]["kind"] == "user"


async def test_plan_offers_the_same_tools_whenever_it_is_asked() -> None:
    checked = Config.model_validate(config())
    async with Registry({}) as registry, open_plans(checked, ["data"], registry) as (plan,):
        task, offered = plan.read_task(0), plan.environment.tools_for
        assert [offered(task, turn).wire for turn in (0, 1, 0, 2)] == [
            offered(task, turn).wire for turn in (0, 2, 0, 1)
        ]
        assert plan.system == "Count."


# ---- the key `environment` -------------------------------------------------------------------------------------------

READY = Counting()
HERE = "tests.environments.suites.test_suites"


@pytest.mark.parametrize("name", ["Counting", "READY"])
async def test_environment_key_takes_a_class_or_an_object(name: str) -> None:
    await roll_out(config(suite=None, environment=f"{HERE}:{name}"))
    (line,) = read_lines(Path("out.jsonl"))
    assert (line["task_id"], line["success"]) == ("twice", True)


async def test_path_of_a_dataset_replaces_the_tasks_of_its_environment() -> None:
    actions = [{"name": "count", "arguments": {}}]
    task = {"id": "once", "messages": [{"role": "user", "content": "Count."}], "task_info": {"actions": actions}}
    path = write_tasks(Path("tasks.jsonl"), task)
    await roll_out(config(suite=None, environment=f"{HERE}:Counting", path=path, max_turns=1, user=None))
    (line,) = read_lines(Path("out.jsonl"))
    assert (line["task_id"], line["success"]) == ("once", True)
    assert READY.tasks.ids == ["twice"], "the environment itself is not changed"


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        ({"environment": "nothing"}, r"datasets\.data\.environment: there is no environment 'nothing'"),
        ({"environment": f"{HERE}:TOOLS"}, "is no environment"),
        ({"environment": f"{HERE}:READY", "environment_params": {"a": 1}}, "takes no parameters"),
        ({"environment": f"{HERE}:READY", "tools": ["a:b"]}, r"datasets\.data: tools: leave out"),
        ({"environment": f"{HERE}:Counting", "environment_params": {"bad": True}}, r"suite_params\.bad: is bad"),
    ],
)
async def test_wrong_environment_keys_are_named(dataset: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        await roll_out(config(suite=None, **dataset))


async def test_all_problems_of_all_datasets_are_told_at_once() -> None:
    settings = config(suite="nothing")
    settings["datasets"]["other"] = {"path": "missing.jsonl", "agent": "builtin/nobody", "max_turns": 3}
    with pytest.raises(ConfigError) as refused:
        await roll_out(settings)
    told = str(refused.value)
    for text in ("datasets.data.suite", "missing.jsonl", "builtin/nobody", "datasets.other.user: needed"):
        assert text in told
