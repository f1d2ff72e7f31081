"""The shop of the documentation, and models and agents of one's own for it."""

from __future__ import annotations

from typing import Any

import rollout


class Cart(rollout.World):
    """A cart that one attempt fills."""

    def __init__(self) -> None:
        self.items: dict[str, int] = {}

    @rollout.tool
    async def add(self, item: str, count: int = 1) -> str:
        """Put an item into the cart."""
        self.items[item] = self.items.get(item, 0) + count
        return f"{count} × {item}"


@rollout.scorer
def filled(task: rollout.Task, trajectory: rollout.Trajectory, world: Cart) -> float:
    return len(world.items.keys() & task.info["want"].keys()) / len(task.info["want"])


def order(task_id: str) -> rollout.Task:
    """A task of the shop."""
    return rollout.Task(
        task_id,
        "Two mugs and a lamp, please.",
        info={"want": {"mug": 2, "lamp": 1}},
        actions=[rollout.call("add", item="mug", count=2), rollout.call("add", item="lamp")],
    )


shop = rollout.Environment(tasks=[order("t1")], world=Cart, scorers=[filled], system="You run a small shop.")
busy_shop = rollout.Environment(tasks=[order(f"t{n}") for n in range(6)], world=Cart, scorers=[filled], name="busy")


async def seller(request: rollout.Request) -> Any:
    """Plans when it is asked to, adds a mug and a lamp, and says that it is done."""
    last = request.messages[-1]
    if last.role == "user" and "plan" in (last.content or ""):
        return "Plan: a mug, then a lamp."
    done = sum(message.role == "tool" for message in request.messages)
    if done < 2:
        arguments = {"item": ("mug", "lamp")[done]}
        return {"tool_calls": [{"id": f"call{done}", "function": {"name": "add", "arguments": arguments}}]}
    return "Done."


async def plan_first(task: rollout.Task, session: rollout.Session) -> None:
    """Plans first, then acts."""
    await session.generate("Before you act, write down a plan in a few lines.")
    answer = await session.generate("Now carry it out.")
    while True:
        while answer.tool_calls:
            await session.call()
            answer = await session.generate()
        if await session.say(answer.content) is None:
            return
        answer = await session.generate()
