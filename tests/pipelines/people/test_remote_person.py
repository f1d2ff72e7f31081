"""A person in the part of the agent or of the user: recorded as any attempt, interrupted and gone on with."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.engine.engine import Engine
from rollout.pipelines.people.growth import Growth, GrowthWish, grow, plan_fresh, plan_growth
from rollout.pipelines.people.people_run import PeopleRun, open_people
from rollout.pipelines.people.remote_person import Part, PersonAction, RemotePerson, WrittenCall
from rollout.testing import StubServer
from rollout.trajectories.trajectory import Trajectory
from tests.conftest import roll_out, stub_config, write_tasks

RUN = Path("run")
CALL = {"tool_calls": [{"name": "echo", "arguments": {"text": "x"}}]}
RULES: list[dict[str, Any]] = [{"when": {"answers": 0}, "reply": CALL}, {"reply": {"content": "Done."}}]


class Player:
    """A person who does the next of some things at each turn."""

    def __init__(self, part: Part, author: str | None = None) -> None:
        self.person = RemotePerson(part, self._changed, author)
        self._asked = asyncio.Event()
        self._is_over = False

    def _changed(self) -> None:
        self._asked.set()

    def leave(self) -> None:
        """The attempt has ended: nobody is asked any more."""
        self._is_over = True
        self._asked.set()

    async def act(self, action: PersonAction) -> None:
        while not self.person.is_waiting:
            assert not self._is_over, "it ended before it was the person's turn"
            self._asked.clear()
            await self._asked.wait()
        self.person.act(action)


def config(url: str, **dataset: Any) -> Config:
    tasks = write_tasks(Path("tasks.jsonl"), "Say x.")
    return Config.model_validate(stub_config(url, tasks, **dataset))


async def play(people: PeopleRun, growth: Growth, settings: Config, part: Part, *actions: PersonAction) -> Trajectory:
    player = Player(part, growth.author)
    async with asyncio.TaskGroup() as group:
        playing = group.create_task(grow(people, growth, settings, person=player.person))
        playing.add_done_callback(lambda done: player.leave())
        for action in actions:
            await player.act(action)
    assert playing.result().error is None
    found = people.journal.trajectory("data", growth.ids[0])
    assert found is not None
    return found


async def test_a_person_as_agent_leaves_a_demonstration() -> None:
    async with StubServer({"rules": RULES}) as stub:
        settings = config(stub.url)
        await roll_out(settings)
        asked = stub.stats.requests
        async with open_people(RUN) as people:
            growth = await plan_fresh(people, "data", "task0", GrowthWish(author="ada", part="agent"))
            call = PersonAction(calls=[WrittenCall("echo", {"text": "by hand"})])
            played = await play(people, growth, settings, "agent", call, PersonAction(text="It said: by hand."))
        assert stub.stats.requests == asked, "no model was asked"
    roles = [message.role for message in played.messages]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert played.messages[2].content == "echo: by hand"
    assert played.messages[3].content == "It said: by hand."
    assert (played.author, played.model, played.status) == ("ada", "person", "completed")
    assert all(generation.is_scripted for generation in played.generated.values())
    assert [body.author for body in played.nodes or () if body.kind != "opening"] == ["ada", None, "ada"]


async def test_a_person_as_user_talks_to_the_model_and_ends_the_conversation() -> None:
    async with StubServer({"rules": RULES}) as stub:
        settings = config(stub.url)
        await roll_out(settings)
        async with open_people(RUN) as people:
            growth = await plan_fresh(people, "data", "task0", GrowthWish(author="bob", part="user"))
            again, end = PersonAction(text="Again, please."), PersonAction(is_end=True)
            played = await play(people, growth, settings, "user", again, end)
    spoken = [message.content for message in played.messages if message.role == "user"]
    assert spoken[1:] == ["Again, please."]
    assert (played.stop_reason, played.user_model, played.author) == ("user_stop", "person", "bob")
    assert {body.author for body in played.nodes or () if body.kind == "user"} == {"bob"}
    assert {body.author for body in played.nodes or () if body.kind == "generation"} == {None}


async def test_a_person_goes_on_from_a_step_of_a_models_attempt() -> None:
    async with StubServer({"rules": RULES}) as stub:
        settings = config(stub.url)
        await roll_out(settings)
        async with open_people(RUN) as people:
            wish = GrowthWish(author="ada", part="agent", message=2)
            growth = await plan_growth(people, "data", "task0", wish)
            played = await play(people, growth, settings, "agent", PersonAction(text="Mine."))
    assert [message.content for message in played.messages][2:] == ["echo: x", "Mine."]
    assert played.branch is not None
    assert played.branch.parent == "task0"


async def test_a_conversation_that_was_interrupted_goes_on_where_it_was() -> None:
    async with StubServer({"rules": RULES}) as stub:
        settings = config(stub.url)
        await roll_out(settings)
        call = PersonAction(calls=[WrittenCall("echo", {"text": "one"})])
        async with open_people(RUN) as people:
            growth = await plan_fresh(people, "data", "task0", GrowthWish(author="ada", part="agent"))
            player, engines = Player("agent"), list[Engine]()
            playing = asyncio.create_task(grow(people, growth, settings, person=player.person, watch=engines.append))
            await player.act(call)
            while not player.person.is_waiting:
                await asyncio.sleep(0)
            engines[0].pause("test")
            engines[0].cut()
            await playing
        async with open_people(RUN) as people:
            played = await play(people, growth, settings, "agent", PersonAction(text="Two."))
    assert [message.content for message in played.messages][2:] == ["echo: one", "Two."]


async def test_a_call_that_no_tool_takes_is_answered_as_a_models_would_be() -> None:
    async with StubServer({"rules": RULES}) as stub:
        settings = config(stub.url)
        await roll_out(settings)
        async with open_people(RUN) as people:
            growth = await plan_fresh(people, "data", "task0", GrowthWish(author="ada", part="agent"))
            call = PersonAction(calls=[WrittenCall("ecko", {})])
            played = await play(people, growth, settings, "agent", call, PersonAction(text="Sorry."))
    assert played.error_kinds == {2: "unknown_tool"}


@pytest.mark.parametrize(
    ("part", "action", "says"),
    [
        ("agent", PersonAction(), "nothing to say or to call"),
        ("user", PersonAction(text="  "), "nothing to say"),
        ("agent", PersonAction(text="x", calls=[WrittenCall("echo")]), "expected words or calls"),
        ("user", PersonAction(calls=[WrittenCall("echo")]), "a user has words only"),
    ],
)
async def test_what_makes_no_turn_is_refused(part: Part, action: PersonAction, says: str) -> None:
    person = RemotePerson(part)
    with pytest.raises(ConfigError, match="not your turn"):
        person.act(PersonAction(text="Hello."))
    asking = asyncio.create_task(person.ask())
    await asyncio.sleep(0)
    with pytest.raises(ConfigError, match=says):
        person.act(action)
    person.act(PersonAction(text="Hello."))
    assert await asking == PersonAction(text="Hello.")


async def test_a_task_that_the_run_has_not_begun_is_refused() -> None:
    async with StubServer({"rules": RULES}) as stub:
        await roll_out(config(stub.url))
        async with open_people(RUN) as people:
            with pytest.raises(ConfigError, match="no attempt at a task 'task7'"):
                await plan_fresh(people, "data", "task7", GrowthWish(author="ada", part="agent"))
