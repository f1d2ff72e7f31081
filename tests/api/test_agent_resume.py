"""Agents of one's own after a pause: what is recorded is not asked again, whatever the agent did with its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import rollout

ActFunction = Callable[[rollout.Task, rollout.Session], Awaitable[None]]
ROUNDS = 4


class Shelf(rollout.World):
    def __init__(self) -> None:
        self.items: list[str] = []

    @rollout.tool
    def put(self, item: str) -> str:
        """Put something onto the shelf."""
        self.items.append(item)
        return f"{len(self.items)} items"


shelf = rollout.Environment(tasks=["Fill the shelf."], world=Shelf, name="shelf")


async def all_at_once(task: rollout.Task, session: rollout.Session) -> None:
    while (await session.generate()).tool_calls:
        await session.call()


async def one_by_one(task: rollout.Task, session: rollout.Session) -> None:
    while (answer := await session.generate()).tool_calls:
        for call in answer.tool_calls:
            await session.call(call)


async def only_the_first(task: rollout.Task, session: rollout.Session) -> None:
    while (answer := await session.generate()).tool_calls:
        await session.call(answer.tool_calls[0])


async def only_the_last(task: rollout.Task, session: rollout.Session) -> None:
    while (answer := await session.generate()).tool_calls:
        await session.call(answer.tool_calls[-1])


async def none_of_them(task: rollout.Task, session: rollout.Session) -> None:
    while (await session.generate()).tool_calls:
        pass


async def after_an_aside(task: rollout.Task, session: rollout.Session) -> None:
    while (await session.generate("Go on.")).tool_calls:
        await session.generate([{"role": "user", "content": "Sure?"}])
        await session.call()
        await session.call("put", item=f"extra {session.random.random()}")


async def with_an_aside_in_between(task: rollout.Task, session: rollout.Session) -> None:
    while (answer := await session.generate()).tool_calls:
        await session.call(answer.tool_calls[0])
        await session.generate([{"role": "user", "content": "Sure?"}])
        await session.call(answer.tool_calls[1])


@pytest.mark.parametrize("pause_at", [2, 3, 4])
@pytest.mark.parametrize(
    "agent",
    [all_at_once, one_by_one, only_the_first, only_the_last, none_of_them, after_an_aside, with_an_aside_in_between],
)
async def test_a_paused_attempt_ends_as_an_undisturbed_one_and_no_answer_is_asked_for_twice(
    agent: ActFunction, pause_at: int
) -> None:
    asked = 0

    async def model(request: rollout.Request) -> str | dict[str, Any]:
        nonlocal asked
        asked += 1
        if asked == pause_at:
            running.cancel()
        if request.messages[-1].content == "Sure?":
            return "Yes."
        calling = sum(len(message.tool_calls) == 2 for message in request.messages)
        if calling == ROUNDS:
            return "Done."
        items = [f"{name}{calling}" for name in "ab"]
        return {"tool_calls": [{"id": it, "function": {"name": "put", "arguments": {"item": it}}} for it in items]}

    async def roll_out(run_dir: str) -> rollout.Run:
        return await rollout.arun(shelf, model=model, agent=agent, run_dir=run_dir, progress=False)

    running = asyncio.ensure_future(roll_out("paused"))
    with pytest.raises(asyncio.CancelledError):
        await running
    assert rollout.load_run("paused").finished == 0
    resumed = await roll_out("paused")
    asked_in_all, asked = asked, pause_at
    undisturbed = await roll_out("undisturbed")
    assert asked_in_all == asked - pause_at
    assert resumed.trajectories[0].messages == undisturbed.trajectories[0].messages
