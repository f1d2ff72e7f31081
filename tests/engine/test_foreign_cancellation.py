"""Foreign code that raises CancelledError ends nothing but its own part: no conversation stays unfinished for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from rollout.core.task import Task
from rollout.core.world import World
from rollout.models.model import Request
from rollout.testing import StubServer
from rollout.trajectories.generation import Generation
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory
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
