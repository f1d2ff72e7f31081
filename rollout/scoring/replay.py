"""Making a recorded conversation's calls again, on a fresh world, one after the other.

Each answer is compared with the record: where one differs, the world is not the one that the agent acted in, and
whatever its state says means nothing. Only worlds with tables are replayed: the calls of others may have effects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Collection

from rollout.core.calls import CallReader, answer_calls
from rollout.core.errors import ReplayMismatch
from rollout.core.messages import NO_TOOLS, ToolCall
from rollout.core.task import Task
from rollout.core.world import World
from rollout.scoring.calls import Called, calls_of
from rollout.trajectories.line import UserCall
from rollout.trajectories.trajectory import Trajectory


async def replay(
    world: World,
    task: Task,
    seed: int,
    trajectory: Trajectory,
    user_world: World | None = None,
    *,
    irreversible: Collection[str] = (),
) -> AsyncIterator[Called]:
    """Open a world and make the calls of a trajectory in it; yields each call once it is made.

    Where the user has tools of its own, its calls are made in `user_world`, between those of the agent. Raises
    `ReplayMismatch` where an answer is not the recorded one, and before a call of an `irreversible` tool. Who made the
    worlds closes them.
    """
    opening = await world.open(task, seed)
    reader = CallReader(opening.tools)
    user_tools = (await user_world.open(task, seed)).tools if user_world is not None else NO_TOOLS
    user_reader, user_calls = CallReader(user_tools), deque(trajectory.user_calls if user_world is not None else ())
    for called in calls_of(trajectory):
        if called.message < len(task.messages):
            # What the opening tells of went before; a world that knows of it opens with it.
            continue
        while user_world is not None and user_calls and user_calls[0].message <= called.message:
            await _make_user_call(user_calls.popleft(), user_reader, user_world)
        if called.call.name in irreversible:
            raise ReplayMismatch(
                f"the call {called.call.name} of message {called.message} is irreversible and is not made again"
            )
        if not called.is_undone:
            (result,) = await answer_calls([called.call], reader, world)
            if result.content != called.answer.content:
                raise ReplayMismatch(
                    f"the call {called.call.name} of message {called.message} answers differently from the record"
                )
        yield called
    for user_call in user_calls:
        assert user_world is not None
        await _make_user_call(user_call, user_reader, user_world)


async def _make_user_call(made: UserCall, reader: CallReader, world: World) -> None:
    (result,) = await answer_calls([ToolCall("user", made.name, made.arguments)], reader, world)
    if result.content != made.result:
        raise ReplayMismatch(f"the user's call {made.name} before message {made.message} answers otherwise")


async def replay_all(
    world: World,
    task: Task,
    seed: int,
    trajectory: Trajectory,
    user_world: World | None = None,
    *,
    irreversible: Collection[str] = (),
) -> None:
    """Bring a world to where a trajectory left it. Raises `ReplayMismatch`."""
    async for _ in replay(world, task, seed, trajectory, user_world, irreversible=irreversible):
        pass
