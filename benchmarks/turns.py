"""Whether a turn costs the same at turn 400 as at turn 10, with a model in process and with one over HTTP.

A turn here is a user message, a tool call, its result and an answer. In process nothing but the engine runs: view,
tree, journal. Over HTTP the whole conversation is sent with each request, as the protocol has it, so the bytes grow;
what is measured is what that costs *us* (the server is another process).

    python -m benchmarks.turns
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.engine import tasks_file
from rollout.config.schema import Config
from rollout.core.messages import Message, ToolCall
from rollout.models.model import Request
from rollout.pipelines.run import open_run
from rollout.testing import StubProcess
from rollout.trajectories.generation import Generation
from rollout.trajectories.line import Head
from rollout.trajectories.tree import NodeBody

TURNS = 410
EPISODES = 8
SCRIPT = {"rules": [{"when": {"step": 0}, "reply": {"call": "any"}}, {"reply": {"content": "Here is what I found."}}]}


class Instant:
    """A model that answers at once: a tool call, then words."""

    name = "instant"
    capabilities: frozenset[Any] = frozenset()

    async def generate(self, request: Request) -> Generation:
        if request.messages[-1].role == "user":
            call = ToolCall(f"call_{len(request.messages)}", "lookup", '{"query": "x"}')
            return Generation(Message(role="assistant", content="One moment.", tool_calls=(call,)))
        return Generation(Message(role="assistant", content="Here is what I found."))

    async def close(self) -> None:
        """Nothing is held."""


class TurnClock:
    """An observer that notes the CPU time at which each turn begins."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}

    def episode_began(self, dataset: str, trajectory: str, opening: Sequence[Message], is_resumed: bool) -> None:
        self.times[trajectory] = [time.process_time()]

    def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None:
        if body.kind == "user":
            self.times[trajectory].append(time.process_time())

    def episode_ended(self, dataset: str, trajectory: str, head: Head | None) -> None:
        pass

    def around(self, turn: int, width: int = 5) -> float:
        """CPU microseconds of a turn, the median over episodes and the turns around it."""
        spans = [
            times[place + 1] - times[place]
            for times in self.times.values()
            for place in range(turn - width, turn + width)
        ]
        return sorted(spans)[len(spans) // 2] * 1e6


async def measure(model: str, api_base: str | None) -> TurnClock:
    clock = TurnClock()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = Config.model_validate(
            {
                "max_workers": 1,
                "enable_monitor": False,
                "models": {model: {"api_base": api_base}},
                "datasets": {
                    "bench": {
                        "path": tasks_file(folder, EPISODES),
                        "output_path": folder / "out.jsonl",
                        "tools": ["benchmarks.engine:lookup"],
                        "agent": model,
                        "user": {"kind": "scripted", "messages": ["And the next one, please."] * TURNS},
                        "max_turns": TURNS + 2,
                    }
                },
            }
        )
        async with open_run(config, folder / "run", resume=False, observers=[clock]) as opened:
            await opened.engine.run()
    assert opened.summary is not None
    assert opened.summary.total.finished == EPISODES, opened.summary.total
    return clock


def main() -> None:
    print(f"{'CPU µs for a turn':24}{'turn 10':>10}{'turn 100':>10}{'turn 400':>10}{'400 / 10':>10}")
    with StubProcess(SCRIPT) as stub, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for label, model, url in (
            ("in process", "benchmarks.turns:Instant", None),
            ("over HTTP", "stub", stub.url),
        ):
            clock = runner.run(measure(model, url))
            early, middle, late = clock.around(10), clock.around(100), clock.around(400)
            print(f"{label:24}{early:10.0f}{middle:10.0f}{late:10.0f}{late / early:9.2f}×")


if __name__ == "__main__":
    main()
