"""The environment `counting`: press a button until the display shows a number."""

import rollout


class Display(rollout.World):
    def __init__(self) -> None:
        self.shown = 0

    @rollout.tool
    def look(self) -> str:
        """Look at the display."""
        return str(self.shown)

    @rollout.tool
    def press(self) -> str:
        """Press the button, which adds one. The answer is what the display shows then."""
        self.shown += 1
        return str(self.shown)


@rollout.scorer
def right_count(task: rollout.Task, world: Display) -> bool:
    """Whether the display shows the number that was asked for."""
    return bool(world.shown == task.info["target"])


def counting(highest: int = 3) -> rollout.Environment:
    """Tasks up to `highest`, which is a key of `environment_params`."""
    tasks = [rollout.Task(f"to-{n}", f"Count to {n}", info={"target": n}) for n in range(1, highest + 1)]
    return rollout.Environment(name="counting", tasks=tasks, world=Display, scorers=[right_count])
