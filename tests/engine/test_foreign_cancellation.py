"""Foreign code that raises CancelledError ends nothing but its own part: no conversation stays unfinished for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout.core.task import Task
from rollout.core.world import World
from rollout.models.model import Request
from rollout.testing import StubServer
from rollout.trajectories.generation import Generation
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory
from tests.api.shop import order, seller
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

RULES = [{"when": {"step": 0}, "reply": {"call": "cancels"}}, {"reply": {"content": "Done."}}]


async def cancels(text: str = "") -> str:
    """Raises what no tool should."""
    raise asyncio.CancelledError("by a tool")


class CancellingModel:
    """A model of a plugin whose client library cancels itself."""

    name = "cancelling"
    capabilities: frozenset[Any] = frozenset()

    async def generate(self, request: Request) -> Generation:
        raise asyncio.CancelledError

    async def close(self) -> None:
        """Nothing is held."""


class CancellingScorer:
    """A scorer that does the same."""

    name = "cancelling"

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score:
        raise asyncio.CancelledError


async def test_a_tools_cancelled_error_is_a_tool_error() -> None:
    async with StubServer({"rules": RULES}) as stub:
        tools = [f"{__name__}:cancels"]
        opened = await roll_out(stub_config(stub.url, write_tasks(Path("t.jsonl"), "a", "b"), tools=tools))
    assert opened.summary is not None
    assert opened.summary.total.unfinished == 0
    for line in read_lines(Path("out.jsonl")):
        assert line["metadata"]["status"] == "completed"
        assert line["metadata"]["tool_errors"] == {"crash": 1}


async def test_a_models_cancelled_error_fails_the_conversation_with_a_reason() -> None:
    agent = {"model": f"{__name__}:CancellingModel"}
    opened = await roll_out(stub_config("http://127.0.0.1:1/v1", write_tasks(Path("t.jsonl"), "a"), agent=agent))
    assert opened.summary is not None
    assert (opened.summary.total.unfinished, opened.summary.total.failed) == (0, 1)
    (line,) = read_lines(Path("run/failed.jsonl"))
    assert "CancelledError" in line["metadata"]["error"]["text"]


async def test_a_scorers_cancelled_error_leaves_its_part_unscored() -> None:
    async with StubServer({"rules": RULES[1:]}) as stub:
        scoring = {"custom": [f"{__name__}:CancellingScorer"]}
        await roll_out(stub_config(stub.url, write_tasks(Path("t.jsonl"), "a"), scoring=scoring))
    (line,) = read_lines(Path("out.jsonl"))
    assert line["metadata"]["status"] == "completed"
    assert "CancelledError" in line["metadata"]["unscored"]


class Polling(rollout.World):
    """A world with a background task, which it ends as one ends a task: what awaits it gets its CancelledError."""

    async def setup(self) -> None:
        self.poller = asyncio.create_task(asyncio.Event().wait())

    async def teardown(self) -> None:
        self.poller.cancel()
        await self.poller

    @rollout.tool
    async def add(self, item: str, count: int = 1) -> str:
        """Put an item into the cart."""
        return f"{count} × {item}"


class Unclosable(Polling):
    """A world whose `close` raises."""

    async def close(self) -> None:
        await super().close()
        raise OSError("the machine is gone")


class CancelledInClose(Polling):
    """A world whose own `close` raises CancelledError."""

    async def close(self) -> None:
        await self.teardown()


class NeverClosed(Polling):
    """A world whose teardown never returns."""

    async def teardown(self) -> None:
        await asyncio.Event().wait()


@rollout.scorer
def speaks(trajectory: rollout.Trajectory) -> bool:
    """Does not ask for the world, which is closed before."""
    return trajectory.messages[-1].content == "Done."


@rollout.scorer
def looks(world: rollout.World) -> bool:
    """Asks for the world, which is closed when the attempt is recorded."""
    return True


def shop_of(world: type[rollout.World], scorer: Any = looks) -> rollout.Environment:
    return rollout.Environment(tasks=[order(f"t{n}") for n in range(3)], world=world, scorers=[scorer])


@pytest.mark.parametrize("scorer", [speaks, looks])
@pytest.mark.parametrize("world", [Polling, Unclosable, CancelledInClose, NeverClosed])
def test_closing_a_world_is_never_a_result(
    world: type[rollout.World], scorer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("rollout.engine.episode.CLOSE_SECONDS", 0.01, raising=False)
    shop = shop_of(world, scorer)
    run = rollout.run(shop, model=seller, config={"max_workers": 1}, progress=False, run_dir="run")
    assert [(attempt.status, attempt.success) for attempt in run.trajectories] == [("completed", True)] * 3
    assert "could not be run" not in caplog.text
    assert world.__name__ in caplog.text


def test_every_group_is_streamed_though_worlds_cannot_be_closed() -> None:
    with rollout.stream(
        shop_of(Unclosable), model=seller, samples=2, config={"max_workers": 1}, progress=False
    ) as groups:
        assert [len(group.trajectories) for group in groups] == [2, 2, 2]


class CancelledForOne:
    """A scorer that raises CancelledError where nobody expects anything, for the first task alone."""

    name = "cancelled_for_one"

    def applies(self, task: Task) -> bool:
        if task.id == "t0":
            raise asyncio.CancelledError
        return True

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score:
        return Score(self.name, 1.0)


def test_a_foreign_cancelled_error_ends_no_worker(caplog: pytest.LogCaptureFixture) -> None:
    run = rollout.run(shop_of(Polling, CancelledForOne()), model=seller, config={"max_workers": 1}, progress=False)
    assert [attempt.id for attempt in run.trajectories] == ["t1", "t2"]
    assert "t0: could not be run" in caplog.text
