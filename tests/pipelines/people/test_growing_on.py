"""Branches that people ask for, in mock domains, MCP servers and browsers; stopped and resumed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.core.messages import Message
from rollout.engine.engine import Engine
from rollout.pipelines.people.corrections import Correction, correct
from rollout.pipelines.people.growth import (
    Growth,
    GrowthWish,
    error_of,
    grow,
    growth_config,
    plan_growth,
    read_growths,
    state_of,
    stop_growth,
    unfinished_growths,
)
from rollout.pipelines.people.people_run import PeopleRun, open_people
from rollout.pipelines.people.remote_person import WrittenCall
from rollout.testing import StubServer
from rollout.trajectories.line import Head
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import NodeBody
from tests.conftest import roll_out, stub_config, write_tasks
from tests.environments.web.test_web_run import answer_after, web_config
from tests.servers.mcp_config import raw_entry

RUN = Path("run")
CALLED = Path("called.txt")
ADD = {"name": "add", "arguments": {"by": 1}}
CORRECTED = Correction(message=1, author="ada", calls=[WrittenCall("add", {"by": 3})])


class CutAfter:
    """An observer that ends an engine where it stands after a number of new nodes, as a killed process would."""

    def __init__(self, nodes: int) -> None:
        self._left = nodes
        self.engine: Engine | None = None

    def watch(self, engine: Engine) -> None:
        self.engine = engine

    def episode_began(self, dataset: str, trajectory: str, opening: Sequence[Message], is_resumed: bool) -> None:
        pass

    def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None:
        self._left -= 1
        if self._left == 0 and self.engine is not None:
            self.engine.pause("test")
            self.engine.cut()

    def episode_ended(self, dataset: str, trajectory: str, head: Head | None) -> None:
        pass


def mcp_config(url: str, **dataset: Any) -> dict[str, Any]:
    servers = {"raw": raw_entry("--log", str(CALLED.resolve()))}
    tasks = write_tasks(Path("tasks.jsonl"), "Add one three times.")
    return stub_config(url, tasks, tools=[], mcpServers=servers, **dataset)


def adds(number: int) -> dict[str, Any]:
    """An agent that adds one until the counter has been answered this often."""
    rules = [{"when": {"answers": count}, "reply": {"tool_calls": [ADD]}} for count in range(number)]
    return {"rules": [*rules, {"reply": {"content": "Done."}}]}


def answers(trajectory: Trajectory) -> list[Any]:
    return [json.loads(message.content or "")["count"] for message in trajectory.messages if message.role == "tool"]


def read(people: PeopleRun, growth: Growth) -> list[Trajectory]:
    found = [people.journal.trajectory(growth.dataset, identifier) for identifier in growth.ids]
    return [each for each in found if each is not None]


async def grow_until_cut(people: PeopleRun, growth: Growth, config: Config, nodes: int) -> None:
    cutting = CutAfter(nodes)
    await grow(people, growth, config, observers=[cutting], watch=cutting.watch)
    await people.journal.flush()


# ---- MCP servers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
async def test_a_correction_grown_on_over_an_mcp_server_and_stopped_anywhere_ends_as_an_undisturbed_one(
    nodes: int,
) -> None:
    async with StubServer(adds(3)) as stub:
        config = Config.model_validate(mcp_config(stub.url))
        await roll_out(config)
        async with open_people(RUN) as people:
            call = WrittenCall("add", {"by": 5})
            fixed = await correct(people, "data", "task0", Correction(message=3, author="ada", calls=[call]))
            growth = await plan_growth(people, "data", fixed.id, GrowthWish(message=3, author="ada", count=2))
            await grow_until_cut(people, growth, config, nodes)
            assert state_of(people.journal, growth) == "unfinished"
        async with open_people(RUN) as people:
            (unfinished,) = unfinished_growths(people.journal)
            assert unfinished.ids == growth.ids
            await grow(people, unfinished, config)
            grown = read(people, growth)
            assert state_of(people.journal, growth) == "done"
    assert [answers(each) for each in grown] == [[1, 6, 7]] * 2, "1 of the original, 5 of the correction, then on"
    assert [each.status for each in grown] == ["completed"] * 2
    assert {each.branch.parent for each in grown if each.branch} == {fixed.id}


async def test_where_the_world_answers_otherwise_the_attempt_fails_instead_of_going_on_elsewhere() -> None:
    look: dict[str, Any] = {"tool_calls": [{"name": "pid", "arguments": {}}]}
    script = {"rules": [{"when": {"answers": 0}, "reply": look}, {"reply": {"content": "Done."}}]}
    async with StubServer(script) as stub:
        config = Config.model_validate(mcp_config(stub.url))
        await roll_out(config)
        async with open_people(RUN) as people:
            growth = await plan_growth(people, "data", "task0", GrowthWish(message=2, author="ada"))
            await grow(people, growth, config)
            (grown,) = read(people, growth)
    assert grown.status == "failed"
    assert grown.error is not None
    assert "pid answered differently from the record" in grown.error.text
    assert grown.reward is None


async def test_nothing_is_grown_behind_an_irreversible_call() -> None:
    async with StubServer(adds(2)) as stub:
        config = Config.model_validate(mcp_config(stub.url, irreversible=["add"]))
        await roll_out(config)
        made = CALLED.read_text().count("add")
        async with open_people(RUN) as people:
            growth = await plan_growth(people, "data", "task0", GrowthWish(message=2, author="ada"))
            growth = await grow(people, growth, config)
            assert growth.error is not None
            assert "a call before message 2, or of it, is irreversible (add)" in growth.error
            assert state_of(people.journal, growth) == "failed"
            assert read(people, growth) == []
    assert CALLED.read_text().count("add") == made


async def test_an_answer_with_an_irreversible_call_is_not_gone_on_from() -> None:
    async with StubServer(adds(2)) as stub:
        config = Config.model_validate(mcp_config(stub.url, irreversible=["add"]))
        await roll_out(config)
        made = CALLED.read_text().count("add")
        async with open_people(RUN) as people:
            with pytest.raises(ConfigError, match="message 1, or of it, is irreversible"):
                await plan_growth(people, "data", "task0", GrowthWish(message=1, author="ada"), config)
            assert read_growths(people.journal) == []
            growth = await plan_growth(people, "data", "task0", GrowthWish(message=1, author="ada"))
            assert "is irreversible" in str((await grow(people, growth, config)).error)
    assert CALLED.read_text().count("add") == made


async def test_the_irreversible_call_of_a_correction_is_made_once() -> None:
    async with StubServer(adds(2)) as stub:
        config = Config.model_validate(mcp_config(stub.url, irreversible=["add"]))
        await roll_out(config)
        before = CALLED.read_text().count("add")
        async with open_people(RUN) as people:
            correction = await correct(people, "data", "task0", CORRECTED)
            wish = GrowthWish(message=1, author="ada")
            with pytest.raises(ConfigError, match="grow 1 attempt"):
                await plan_growth(people, "data", correction.id, msgspec.structs.replace(wish, count=2), config)
            growth = await plan_growth(people, "data", correction.id, wish, config)
            assert (await grow(people, growth, config)).error is None
            assert [answers(each)[0] for each in read(people, growth)] == [3]
            made = CALLED.read_text().count("add")
            with pytest.raises(ConfigError, match=f"was made in {growth.ids[0]}".replace("+", "[+]")):
                await plan_growth(people, "data", correction.id, wish, config)
    assert before < CALLED.read_text().count("add") == made


async def test_an_irreversible_call_of_a_stopped_branch_is_not_made_twice() -> None:
    async with StubServer(adds(2)) as stub:
        config = Config.model_validate(mcp_config(stub.url, irreversible=["add"]))
        await roll_out(config)
        before = CALLED.read_text().count("add")
        async with open_people(RUN) as people:
            correction = await correct(people, "data", "task0", CORRECTED)
            growth = await plan_growth(people, "data", correction.id, GrowthWish(message=1, author="ada"))
            await grow_until_cut(people, growth, config, 1)
            made = CALLED.read_text().count("add")
            assert made == before + 1, "the call of the correction"
            await grow(people, growth, config)
            (grown,) = read(people, growth)
    assert grown.status == "cut"
    assert CALLED.read_text().count("add") == made


async def test_a_server_whose_variables_are_not_recorded_is_not_started_without_them() -> None:
    async with StubServer(adds(2)) as stub:
        document = mcp_config(stub.url)
        document["datasets"]["data"]["mcpServers"]["raw"]["env"] = {"TOKEN": "a-very-secret-value"}
        config = Config.model_validate(document)
        await roll_out(config)
        made = CALLED.read_text().count("add")
        async with open_people(RUN) as people:
            wish = GrowthWish(message=2, author="ada")
            with pytest.raises(ConfigError, match=r"`env` and `headers` of raw are not recorded.*--config FILE"):
                await plan_growth(people, "data", "task0", wish, growth_config(RUN))
            growth = await plan_growth(people, "data", "task0", wish)
            assert "are not recorded" in str((await grow(people, growth, growth_config(RUN))).error)
            assert CALLED.read_text().count("add") == made
            Path("given.yml").write_text(json.dumps(document, default=str))
            assert (await grow(people, growth, growth_config(RUN, Path("given.yml")))).error is None


async def test_relative_paths_are_those_of_the_folder_in_which_the_run_was_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with StubServer(adds(2)) as stub:
        config = Config.model_validate(mcp_config(stub.url))
        await roll_out(config)
        run = RUN.resolve()
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        async with open_people(run) as people:
            growth = await plan_growth(people, "data", "task0", GrowthWish(message=2, author="ada"))
            assert (await grow(people, growth, growth_config(run))).error is None
            assert [answers(each) for each in read(people, growth)] == [[1, 2]]


async def test_a_growth_whose_attempts_all_failed_has_failed_and_says_why() -> None:
    async with StubServer(adds(2)) as stub:
        config = Config.model_validate(mcp_config(stub.url))
        await roll_out(config)
        gone = {"agent": {"api_base": "http://127.0.0.1:9"}}
        broken = Config.model_validate({**mcp_config(stub.url), "models": gone, "retries": {"attempts": 1}})
        async with open_people(RUN) as people:
            growth = await plan_growth(people, "data", "task0", GrowthWish(message=2, author="ada", count=2))
            await grow(people, growth, broken)
            assert state_of(people.journal, growth) == "failed"
            assert str(error_of(people.journal, growth)).startswith("all 2 attempts failed; the first: ")
            await grow(people, growth, config)
            assert (state_of(people.journal, growth), error_of(people.journal, growth)) == ("done", None)


async def test_a_wish_that_was_stopped_by_a_person_is_not_resumed_unless_asked_for() -> None:
    async with StubServer(adds(3)) as stub:
        config = Config.model_validate(mcp_config(stub.url))
        await roll_out(config)
        async with open_people(RUN) as people:
            growth = await plan_growth(people, "data", "task0", GrowthWish(message=2, author="ada"))
            await grow_until_cut(people, growth, config, 1)
            stop_growth(people, growth)
            assert unfinished_growths(people.journal) == []
            assert [state_of(people.journal, each) for each in read_growths(people.journal)] == ["stopped"]
            await grow(people, growth, config)
            assert [answers(each) for each in read(people, growth)] == [[1, 2, 3]]


# ---- domains -----------------------------------------------------------------------------------------------------


async def test_in_a_domain_what_is_grown_on_is_scored_by_the_database_that_it_leads_to() -> None:
    config = Config.model_validate(
        {
            "datasets": {
                "portal": {
                    "mcp_domain": "StudentAcademicPortal",
                    "agent": {"model": "builtin/oracle"},
                    "user": {"model": "builtin/user"},
                    "limit": 3,
                    "output_path": "portal.jsonl",
                }
            }
        }
    )
    opened = await roll_out(config)
    assert opened.summary is not None
    async with open_people(RUN) as people:
        for trajectory in people._run.finished("portal"):
            message = next(place for place, each in enumerate(trajectory.messages) if each.role == "tool")
            wish = GrowthWish(message=message, author="ada")
            growth = await grow(people, await plan_growth(people, "portal", trajectory.id, wish), config)
            assert growth.error is None
            (grown,) = read(people, growth)
            assert grown.scored
            assert grown.success == trajectory.success, "the oracle goes on where it was"
            assert list(grown.messages[: message + 1]) == list(trajectory.messages[: message + 1])


async def test_a_task_that_is_gone_is_named() -> None:
    async with StubServer(adds(1)) as stub:
        config = Config.model_validate(mcp_config(stub.url))
        await roll_out(config)
        write_tasks(Path("tasks.jsonl"), {"id": "other", "messages": [{"role": "user", "content": "Hello."}]})
        async with open_people(RUN) as people:
            growth = await plan_growth(people, "data", "task0", GrowthWish(message=2, author="ada"))
            growth = await grow(people, growth, config)
    assert growth.error is not None
    assert "tasks.jsonl: the task 'task0' is no longer there" in growth.error


async def test_two_processes_cannot_add_to_one_run_at_once() -> None:
    async with StubServer(adds(1)) as stub:
        await roll_out(mcp_config(stub.url))
    async with open_people(RUN):
        with pytest.raises(Exception, match="another process is running this run"):
            async with open_people(RUN):
                pass


async def test_a_run_without_its_steps_is_refused() -> None:
    async with StubServer(adds(1)) as stub:
        await roll_out({**mcp_config(stub.url), "use_checkpoints": False})
    async with open_people(RUN) as people:
        with pytest.raises(ConfigError, match="the steps of task0 were not kept"):
            await plan_growth(people, "data", "task0", GrowthWish(message=2, author="ada"))


# ---- browsers ----------------------------------------------------------------------------------------------------


@pytest.mark.web
@pytest.mark.parametrize("nodes", [1, 3])
async def test_a_correction_on_a_page_is_grown_on_and_stopped_and_resumed(nodes: int) -> None:
    async with StubServer({"rules": answer_after(3)}) as stub:
        config = Config.model_validate(web_config(stub.url))
        await roll_out(config)
        async with open_people(RUN) as people:
            (original,) = people._run.finished("web")
            message = next(place for place, each in enumerate(original.messages) if each.role == "assistant")
            calls = [
                WrittenCall(call.name, json.loads(call.arguments)) for call in original.messages[message].tool_calls
            ]
            written = Correction(message=message, author="ada", content="I count on.", calls=calls)
            fixed = await correct(people, "web", original.id, written)
            growth = await plan_growth(people, "web", fixed.id, GrowthWish(message=message, author="ada"))
            await grow_until_cut(people, growth, config, nodes)
        async with open_people(RUN) as people:
            await grow(people, growth, config)
            (grown,) = read(people, growth)
    assert grown.error is None
    titles = [data["title"] for _, data in sorted(grown.data.items()) if "title" in data]
    assert titles == [data["title"] for _, data in sorted(original.data.items()) if "title" in data]
    assert grown.status == "completed"
