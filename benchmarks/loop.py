"""The bare loop: how many turns of an agent it makes for a second of CPU, and whether waiting is ever done in a row.

The model answers at once and in process, so nothing but the engine runs: view, tree, journal, tools. A turn is a
generation and the call that it asks for.

    python -m benchmarks.loop
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.engine import tasks_file
from rollout.config.schema import Config
from rollout.core.errors import ModelError
from rollout.core.messages import Message, ToolCall
from rollout.models.model import Request
from rollout.pipelines.run import open_run
from rollout.trajectories.generation import Generation

CHAINS, TURNS = 512, 10


async def instant(text: str) -> str:
    """Answers at once."""
    return text


async def waiting(text: str) -> str:
    """Takes 0.2 s without using any."""
    await asyncio.sleep(0.2)
    return text


def blocking(text: str) -> str:
    """Takes 0.1 s and its thread with it."""
    time.sleep(0.1)
    return text


class _Calls:
    """A model that calls a tool so often, so many times at once, and then says that it is done."""

    capabilities: frozenset[Any] = frozenset()
    tool, turns, at_once = "instant", TURNS, 1

    def __init__(self) -> None:
        self.name = type(self).__name__

    async def generate(self, request: Request) -> Generation:
        made = sum(1 for message in request.messages if message.role == "assistant")
        if made == self.turns:
            return Generation(Message(role="assistant", content="Done."))
        calls = tuple(ToolCall(f"call_{made}_{n}", self.tool, '{"text": "x"}') for n in range(self.at_once))
        return Generation(Message(role="assistant", tool_calls=calls))

    async def close(self) -> None:
        """Nothing is held."""


class Instant(_Calls):
    """The bare loop."""


class FourAtOnce(_Calls):
    """Four calls in one message."""

    tool, turns, at_once = "waiting", 1, 4


class Blocking(_Calls):
    """One call that blocks a thread."""

    tool, turns = "blocking", 1


class OneInEightFails(_Calls):
    """Every eighth conversation fails."""

    turns = 1

    async def generate(self, request: Request) -> Generation:
        question = next(message.content or "" for message in request.messages if message.role == "user")
        if int(question.removeprefix("Question number ").partition(":")[0]) % 8 == 0:
            raise ModelError("this one fails")
        return await super().generate(request)


async def run(model: type[_Calls], episodes: int, live: int) -> tuple[float, float, dict[str, int]]:
    """Seconds, CPU seconds and statuses of so many conversations."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = Config.model_validate(
            {
                "max_workers": live,
                "enable_monitor": False,
                "retries": {"attempts": 1},
                "datasets": {
                    "bench": {
                        "path": tasks_file(folder, episodes),
                        "output_path": folder / "out.jsonl",
                        "tools": [f"benchmarks.loop:{model.tool}"],
                        "agent": f"benchmarks.loop:{model.__name__}",
                        "max_steps_per_turn": TURNS + 2,
                    }
                },
            }
        )
        async with open_run(config, folder / "run", resume=False) as opened:
            wall, cpu = time.perf_counter(), time.process_time()
            await opened.engine.run()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert opened.summary is not None
    return wall, cpu, dict(opened.summary.total.statuses)


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for live in (64, 512):
            _, cpu, _ = runner.run(run(Instant, CHAINS, live))
            turns = CHAINS * TURNS
            print(f"{CHAINS} chains of {TURNS} turns, {live} live: {turns / cpu:,.0f} turns for a second of CPU")
        wall, _, _ = runner.run(run(FourAtOnce, 1, 1))
        print(f"4 parallel calls of 0.2 s in one message: {wall:.2f} s")
        wall, _, _ = runner.run(run(Blocking, 16, 16))
        print(f"16 conversations with a synchronous tool of 0.1 s: {wall:.2f} s")
        _, _, statuses = runner.run(run(OneInEightFails, 8, 8))
        print(f"8 conversations of which one fails: {statuses}")


if __name__ == "__main__":
    main()
