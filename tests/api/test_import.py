"""The package from outside: what importing it costs, and that a user's typed program passes a strict type checker."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import rollout

ROOT = Path(rollout.__file__).parents[1]
HEAVY = ("aiohttp", "pydantic", "ray", "rich", "yaml", "typer", "asyncio")
PROGRAM = '''
from __future__ import annotations

import random
from pathlib import Path

import rollout


class Cart(rollout.World):
    """A cart."""

    def __init__(self, task: rollout.Task) -> None:
        self.items: dict[str, int] = {}

    async def setup(self, task: rollout.Task, seed: int) -> str:
        return f"Welcome to {task.info['shop']}."

    @rollout.tool
    async def add(self, item: str, count: int = 1) -> str:
        """Put an item into the cart."""
        self.items[item] = self.items.get(item, 0) + count
        return f"{count} x {item}"

    @rollout.tool(name="pay", is_write=True)
    def pay_now(self) -> str:
        """Pay."""
        self.finish()
        return "paid"


@rollout.scorer
def filled(task: rollout.Task, world: Cart) -> float:
    return len(world.items.keys() & task.info["want"].keys()) / len(task.info["want"])


@rollout.scorer(name="short")
async def is_short(trajectory: rollout.Trajectory) -> rollout.Score:
    return rollout.Score("short", float(len(trajectory.messages) < 10), partial=0.5)


shop = rollout.Environment(
    tasks=[
        rollout.Task("t1", "A mug.", info={"want": {"mug": 1}}, actions=[rollout.call("add", item="mug")]),
        rollout.Task(id="t2", messages=[rollout.Message(role="user", content="Two mugs.")]),
    ],
    world=Cart,
    scorers=[filled, is_short],
    system="You run a small shop.",
    max_steps_per_turn=4,
)


async def clerk(request: rollout.Request) -> rollout.Generation:
    number = random.Random(request.seed).randint(1, 3)
    call = rollout.ToolCall("1", "add", '{"item": "mug"}')
    body = request.chat()
    message = rollout.Message(role="assistant", content=str(number + len(body["messages"])), tool_calls=(call,))
    return rollout.Generation(message, usage=rollout.Usage(prompt_tokens=1))


async def planner(task: rollout.Task, session: rollout.Session) -> None:
    await session.generate("Plan.")
    answer: rollout.Message = await session.generate([{"role": "user", "content": "Is it good?"}])
    while answer.tool_calls:
        results: list[rollout.Message] = await session.call()
        answer = await session.generate()
    await session.call("add", item="mug")
    reply: str | None = await session.say(answer.content)


class Patient:
    async def act(self, task: rollout.Task, session: rollout.Session) -> None:
        await session.generate()


agent: rollout.Agent = Patient()


def main() -> int:
    run: rollout.Run = rollout.run(shop, model=clerk, agent=planner, samples=2, run_dir=Path("runs/shop"))
    again = rollout.load_run(run.path)
    trajectories: rollout.Trajectories = again.trajectories.where(lambda one: one.tool_calls > 1, success=True)
    for trajectory in trajectories[:2]:
        reward: float | None = trajectory.reward
        last: str | None = trajectory.messages[-1].content
        generation: rollout.Generation | None = trajectory.generated.get(1)
        print(trajectory.id, reward, last, generation, trajectory.score("filled"))
    tree: rollout.TaskTree = run.tree("t1")
    print(tree.draw())
    with rollout.stream(shop, model=clerk, samples=2) as groups:
        for group in groups:
            rewards: list[float | None] = group.rewards
            print(group.task.id, rewards, [one.status for one in group.trajectories])
    count: int = rollout.export(trajectories, format="openai", path="shop.jsonl")
    return count


async def amain() -> None:
    run = await rollout.arun([shop], model="builtin/oracle", agent={"temperature": 0.5})
    print(run.mean_reward)
    async with rollout.stream({"a": shop}, model=clerk, agent=agent) as groups:
        async for group in groups:
            print(group.is_useful)


try:
    main()
except rollout.ConfigError as error:
    print(error, error.kind)
'''


def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, rollout; print(sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


def test_every_public_name_can_be_reached_in_a_new_process() -> None:
    code = "import rollout\nfor name in rollout.__all__: assert getattr(rollout, name).__doc__, name"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_every_public_method_has_a_docstring() -> None:
    silent = [
        f"{name}.{method}"
        for name in rollout.__all__
        if inspect.isclass(kind := getattr(rollout, name))
        for method, found in vars(kind).items()
        if not method.startswith("_") and inspect.isfunction(found) and not inspect.getdoc(found)
    ]
    assert silent == []


def test_a_typed_program_passes_a_strict_type_checker(tmp_path: Path) -> None:
    assert (ROOT / "rollout" / "py.typed").is_file()
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    # Silent about the package itself, as it is where a package is installed; its types count all the same.
    options = ["--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={tmp_path / 'cache'}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(script)],
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_runs_as_the_command() -> None:
    ended = subprocess.run([sys.executable, "-m", "rollout", "--version"], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("rollout ")
