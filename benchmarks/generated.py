"""Large runs for benchmarks, made by the engine itself from a model that answers in process.

Every trajectory has 4 generations and 3 tool calls. Words are drawn from a seeded generator, so no two tasks read
alike, one attempt in twenty repeats its neighbour, and a third of the attempts are solved: filters, groups and
advantages have something to find. A run stopped part-way has episodes in every state.

    python -m benchmarks.generated FOLDER --trajectories 100000
    python -m benchmarks.generated FOLDER --trajectories 100000 --finished 0.5     # stopped half-way
    python -m benchmarks.generated FOLDER --trajectories 10000 --tokens            # with token ids and logprobs

`FOLDER/config.yml` continues it: `PYTHONPATH=. rollout run FOLDER/config.yml --resume`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.messages import Message, ToolCall
from rollout.core.task import Task
from rollout.core.world import World
from rollout.models.model import Capability, Request
from rollout.trajectories.generation import Generation, Tokens, Usage
from rollout.trajectories.line import Head
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import NodeBody

END_AT_FIRST = "ROLLOUT_BENCHMARK_ENDS_AT_FIRST_REQUEST"
"""Environment variable that ends the process at the first request."""
SAMPLES = 4
"""Attempts at each task."""
_SYLLABLES = ("ba", "co", "di", "fu", "ge", "ha", "ji", "ko", "lu", "me", "ni", "po", "ra", "su", "te", "vo")
WORDS = tuple(a + b + c for a in _SYLLABLES for b in _SYLLABLES for c in _SYLLABLES)


def words(count: int, *seed: object) -> str:
    """Some words, the same for the same seed."""
    drawn = random.Random(hashlib.blake2b(repr(seed).encode(), digest_size=8).digest())
    return " ".join(drawn.choices(WORDS, k=count))


async def search(query: str) -> str:
    """Search the catalogue."""
    return words(40, query)


class Varied:
    """A model that makes three calls and then answers, in words of its own."""

    name = "varied"
    capabilities: frozenset[Capability] = frozenset()

    async def generate(self, request: Request) -> Generation:
        if END_AT_FIRST in os.environ:
            # For benchmarks.growth, which asks how long a command takes to its first request.
            os._exit(0)
        return self.answer(request.messages, request.seed or 0)

    def answer(self, messages: Sequence[Message], seed: int) -> Generation:
        step = sum(message.role == "assistant" for message in messages)
        # One attempt in twenty says the same as every other such attempt at its task.
        voice = 0 if seed % 20 == 0 else seed
        said = words(25, messages[0].content, step, voice)
        calls: tuple[ToolCall, ...] = ()
        if step < 3:
            arguments = json.dumps({"query": words(4, messages[0].content, step, voice)})
            calls = (ToolCall(f"call_{step}", "search", arguments),)
        return Generation(
            Message(role="assistant", content=said, tool_calls=calls),
            finish_reason="tool_calls" if calls else "stop",
            usage=Usage(prompt_tokens=60 + 90 * step, completion_tokens=48),
            cost=0.0001,
            model=self.name,
        )

    async def close(self) -> None:
        """Nothing is held."""


class VariedTokens(Varied):
    """The same with token ids and logprobs, as a server gives them that never drifts."""

    name = "varied-tokens"
    capabilities = frozenset({Capability.TOKEN_IDS, Capability.LOGPROBS})

    def answer(self, messages: Sequence[Message], seed: int) -> Generation:
        found = super().answer(messages, seed)
        prompt: list[int] = []
        for message in messages:
            prompt += _ids(message)
        sampled = _ids(found.message)
        return msgspec.structs.replace(found, tokens=Tokens.of(prompt, sampled, [-0.25] * len(sampled)))


def _ids(message: Message) -> list[int]:
    text = message.content or ""
    calls = "".join(call.name + call.arguments for call in message.tool_calls)
    return [1, *(hash_of(word) for word in (text + calls).split()), 2]


def hash_of(word: str) -> int:
    """A token id for a word."""
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=2).digest(), "big")


class Lucky:
    """A scorer by which a third of the attempts are solved."""

    name = "lucky"
    needs_world = False

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score:
        return Score(self.name, float(trajectory.seed % 3 == 0))


class StopAt:
    """An observer that pauses the run when enough attempts have ended."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.pause: Any = None

    def episode_began(self, dataset: str, trajectory: str, opening: Sequence[Message], is_resumed: bool) -> None:
        pass

    def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None:
        pass

    def episode_ended(self, dataset: str, trajectory: str, head: Head | None) -> None:
        self._left -= 1
        if self._left == 0:
            self.pause("enough")


def write_config(folder: Path, trajectories: int, *, tokens: bool = False) -> Path:
    """Tasks and a configuration for this many trajectories; returns the configuration's path."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "tasks.jsonl").open("w") as file:
        for number in range(max(1, trajectories // SAMPLES)):
            message = {"role": "user", "content": f"Task {number}: {words(30, 'task', number)}"}
            file.write(json.dumps({"id": f"t{number:07}", "messages": [message]}) + "\n")
    config = {
        "max_workers": 128,
        "enable_monitor": False,
        "run_dir": str(folder / "run"),
        "datasets": {
            "big": {
                "path": str(folder / "tasks.jsonl"),
                "output_path": str(folder / "big.jsonl"),
                "tools": ["benchmarks.generated:search"],
                "agent": "benchmarks.generated:" + ("VariedTokens" if tokens else "Varied"),
                "samples": SAMPLES,
                "scoring": {"custom": ["benchmarks.generated:Lucky"]},
            }
        },
    }
    path = folder / "config.yml"
    path.write_text(json.dumps(config, indent=1))
    return path


def generate(folder: Path, trajectories: int, *, finished: float = 1.0, tokens: bool = False) -> Path:
    """Make a run of this many trajectories, of which a share is finished; returns its configuration's path."""
    import uvloop

    path = write_config(folder, trajectories, tokens=tokens)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(path, int(trajectories * finished) if finished < 1 else None))
    return path


async def _run(path: Path, stop_at: int | None) -> None:
    from rollout.config import load_config
    from rollout.pipelines.run import open_run

    config = load_config(path)
    assert config.run_dir is not None
    stopper = StopAt(stop_at or 0)
    async with open_run(config, config.run_dir, resume=False, observers=[stopper]) as opened:
        stopper.pause = opened.engine.control.pause
        await opened.engine.run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trajectories", type=int, default=100_000)
    parser.add_argument("--finished", type=float, default=1.0, help="The share that is finished.")
    parser.add_argument("--tokens", action="store_true", help="With token ids and logprobs.")
    options = parser.parse_args()
    print(generate(options.folder, options.trajectories, finished=options.finished, tokens=options.tokens))


if __name__ == "__main__":
    main()
