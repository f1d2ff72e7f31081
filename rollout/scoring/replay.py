"""Making a recorded conversation's calls again, on a fresh world, one after the other.

Each answer is compared with the record: where one differs, the world is not the one that the agent acted in, and
whatever its state says means nothing. Only worlds with tables are replayed: the calls of others may have effects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from rollout.errors import ReplayMismatch
from rollout.scoring.calls import Called, calls_of
from rollout.scoring.scorer import Trajectory
from rollout.tasks.task import Task
from rollout.worlds.calls import CallReader
from rollout.worlds.world import Invocation, World


async def replay(world: World, task: Task, seed: int, trajectory: Trajectory) -> AsyncIterator[Called]:
    """Open a world and make the calls of a trajectory in it; yields each call once it is made.

    Raises `ReplayMismatch` where an answer is not the recorded one. Who made the world closes it.
    """
    opening = await world.open(task, seed)
    reader = CallReader(opening.tools)
    for called in calls_of(trajectory):
        read = reader.read(called.call)
        result = (await world.call([read]))[0] if isinstance(read, Invocation) else read
        if result.content != called.answer.content:
            raise ReplayMismatch(
                f"the call {called.call.name} of message {called.message} answers otherwise than recorded"
            )
        yield called


async def replay_all(world: World, task: Task, seed: int, trajectory: Trajectory) -> None:
    """Bring a world to where a trajectory left it. Raises `ReplayMismatch`."""
    async for _ in replay(world, task, seed, trajectory):
        pass
