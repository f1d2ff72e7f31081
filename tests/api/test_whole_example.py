"""The example of the Python API as a user writes it: against a server, with the oracle, killed, on a cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rollout.models.registry import DIRECT
from rollout.testing.server import StubServer
from rollout.trajectories.line import comparable
from tests.conftest import read_lines

REPOSITORY = Path(__file__).parents[2]
DEFINITIONS = '''
import rollout

class Cart(rollout.World):
    """A cart that one attempt fills."""
    def __init__(self) -> None:                       # may also ask for task, seed
        self.items: dict[str, int] = {}

    @rollout.tool
    async def add(self, item: str, count: int = 1) -> str:
        """Put an item into the cart."""
        self.items[item] = self.items.get(item, 0) + count
        return f"{count} × {item}"

@rollout.scorer
def filled(task: rollout.Task, trajectory: rollout.Trajectory, world: Cart) -> float:
    return len(world.items.keys() & task.info["want"].keys()) / len(task.info["want"])

shop = rollout.Environment(
    tasks=[rollout.Task("t1", "Two mugs and a lamp, please.", info={"want": {"mug": 2, "lamp": 1}},
                        actions=[rollout.call("add", item="mug", count=2), rollout.call("add", item="lamp")])],
    world=Cart, scorers=[filled], system="You run a small shop.")
'''
USE = """
result = rollout.run(shop, model="openai/gpt-5", samples=4, run_dir="runs/shop")     # or await rollout.arun(…)
print(result.solved, result.mean_reward, result.trajectories[0].messages[-1].content)   # trajectories: a lazy sequence

with rollout.stream(shop, model=my_model, strategy="mcts") as groups:                 # also: async with, async for
    for group in groups:
        print(group.task.id, group.rewards)

saved = rollout.load_run("runs/shop")                                                # reads any run, also one going on
best = [t for t in saved.trajectories.where(success=True) if (t.reward or 0) > 0.5]
print(saved.tree("t1").draw())
rollout.export(best, format="trl", path="train.jsonl")
"""
MODEL = """
import asyncio

async def my_model(request):
    with open("asked", "a") as file:
        file.write("x")
    await asyncio.sleep(0.01)
    done = sum(message.role == "tool" for message in request.messages)
    if done < 2:
        return {"tool_calls": [{"function": {"name": "add", "arguments": {"item": ("mug", "lamp")[done]}}}]}
    return "Done."
"""
CALLS = {
    "rules": [
        {"when": {"step": 0}, "reply": {"tool_calls": [{"name": "add", "arguments": {"item": "mug", "count": 2}}]}},
        {"when": {"step": 1}, "reply": {"tool_calls": [{"name": "add", "arguments": {"item": "lamp"}}]}},
        {"reply": {"content": "Both are in your cart."}},
    ]
}


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY)}


def run_script(text: str, *arguments: str) -> str:
    Path("shop.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "shop.py", *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_it_runs_as_it_stands_against_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, whose name for OpenAI's address leads to the stub."""
    async with StubServer(CALLS) as server:
        monkeypatch.setitem(DIRECT, "openai", (server.url, "OPENAI_API_KEY"))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
        names: dict[str, object] = {"__name__": "shop"}
        await asyncio.to_thread(exec, compile(DEFINITIONS + MODEL + USE, "shop.py", "exec"), names)
    assert names["result"].solved == 4  # type: ignore[attr-defined]
    records = read_lines(Path("train.jsonl"))
    assert records[0]["messages"][-1]["content"] == "Both are in your cart."


def test_it_runs_with_the_oracle() -> None:
    printed = run_script(DEFINITIONS + MODEL + USE.replace("openai/gpt-5", "builtin/oracle"))
    assert printed.startswith("4 1.0 Done. Tell me if you need anything else.\nt1 [1.0")
    assert "t1: 4 attempts\nuser: Two mugs and a lamp, please.\n" in printed
    assert Path("train.jsonl").exists()


@pytest.mark.parametrize("strategy", ["chain", "mcts"])
def test_killed_in_the_middle_and_run_again_it_ends_with_the_same_trajectories(strategy: str) -> None:
    how = "samples=24" if strategy == "chain" else 'strategy="mcts"'
    text = f"""{DEFINITIONS}{MODEL}
result = rollout.run(shop, model=my_model, {how}, run_dir="runs/shop", config={{"max_workers": 2}})
print(len(result.trajectories), result.mean_reward)
"""
    calm = run_script(text)
    output = Path("runs/shop/outputs/Cart.jsonl")
    undisturbed = {line["id"]: comparable(line) for line in read_lines(output)}
    whole = Path("asked").stat().st_size
    Path("runs").rename("calm")
    Path("asked").unlink()
    for share in (0.3, 0.6):
        with subprocess.Popen([sys.executable, "shop.py"], env=environment()) as process:
            while not (Path("asked").exists() and Path("asked").stat().st_size > share * whole):
                assert process.poll() is None
                time.sleep(0.002)  # for the process to get that far
            process.send_signal(signal.SIGKILL)
    assert run_script(text) == calm
    lines = read_lines(output)
    assert {line["id"]: comparable(line) for line in lines} == undisturbed
    assert len(lines) == len(undisturbed)


def test_what_only_the_script_defines_runs_on_a_cluster() -> None:
    pytest.importorskip("ray")
    printed = run_script(
        f"""{DEFINITIONS}{MODEL}
async def careful(task, session):
    while (answer := await session.generate()).tool_calls:
        for call in answer.tool_calls:
            await session.call(call)
    await session.say(answer.content)

if __name__ == "__main__":
    result = rollout.run(shop, model=my_model, agent=careful, strategy="mcts", config={{"cluster": "local"}})
    print(len(result.trajectories), result.failed, result.mean_reward)
"""
    )
    assert printed == "16 0 1.0\n"
