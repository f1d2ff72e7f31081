"""A shop of a newcomer: one world, one scorer, one task."""

from __future__ import annotations

from rollout.core.task import Task, call
from rollout.core.tools import tool
from rollout.core.world import World
from rollout.environments.environment import Environment
from rollout.scoring.function import scorer
from rollout.trajectories.trajectory import Trajectory


class Cart(World):
    """A cart that one attempt fills."""

    def __init__(self) -> None:
        self.items: dict[str, int] = {}

    @tool
    async def add(self, item: str, count: int = 1) -> str:
        """Put an item into the cart."""
        self.items[item] = self.items.get(item, 0) + count
        return f"{count} × {item}"


@scorer
def filled(task: Task, trajectory: Trajectory, world: Cart) -> float:
    """The share of what was wanted that is in the cart."""
    return len(world.items.keys() & task.info["want"].keys()) / len(task.info["want"])


def task_of(number: int) -> Task:
    return Task(
        f"t{number}",
        "Two mugs and a lamp, please.",
        info={"want": {"mug": 2, "lamp": 1}},
        actions=[call("add", item="mug", count=2), call("add", item="lamp")],
    )


shop = Environment(tasks=[task_of(1)], world=Cart, scorers=[filled], system="You run a small shop.")
many = Environment(tasks=(task_of(number) for number in range(8)), world=Cart, scorers=[filled])
unscored = Environment(tasks=[task_of(1)], world=Cart)
