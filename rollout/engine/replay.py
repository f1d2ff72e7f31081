"""Replay: a new world is brought to the end of a path by making the path's calls again.

It serves a conversation that is resumed and a branch of a tree alike. The text of every answer is compared with the
record. Where it differs, the world is not the recorded one, and nothing may go on in it. The data of an observation is
not compared: it may hold what the agent never saw, such as the hosts that a page could not reach.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from rollout.core.comparison import describe_difference, is_same_message
from rollout.core.errors import ReplayMismatch
from rollout.core.messages import ToolCall, ToolResult
from rollout.core.world import Opening
from rollout.trajectories.tree import NodeBody

Answer = Callable[[Sequence[ToolCall]], Awaitable[list[ToolResult]]]


def check_opening(opening: Opening, bodies: Sequence[NodeBody]) -> None:
    """Raise `ReplayMismatch` where a world begins otherwise than these nodes, the first of a path, say."""
    if opening.observation is not None and not is_same_message(bodies[0].message, opening.observation):
        told = describe_difference(bodies[0].message, opening.observation)
        raise ReplayMismatch(f"the world begins differently from the record: {told}")


async def replay(bodies: Sequence[NodeBody], agent: Answer, user: Answer) -> None:
    """Make the calls of a path again, the agent's and the user's, but for those that were undone. Those at its end that
    have no answer on record are left to the caller. Raises `ReplayMismatch`."""
    # An agent may ask its model something aside before it makes the calls of an answer.
    bodies = [body for body in bodies if body.kind != "aside"]
    for place, body in enumerate(bodies):
        calls = body.calls
        recorded = bodies[place + 1 : place + 1 + len(calls)]
        if not recorded:
            continue
        if len(recorded) < len(calls):
            raise ReplayMismatch(f"only {len(recorded)} of {len(calls)} answers are on record")
        made = [(call, answer) for call, answer in zip(calls, recorded, strict=True) if not answer.is_undone]
        results = await (user if body.kind == "user_call" else agent)([call for call, _ in made])
        for (call, answer), result in zip(made, results, strict=True):
            shown = result.to_message()
            if not is_same_message(answer.message, shown):
                told = describe_difference(answer.message, shown)
                raise ReplayMismatch(f"{call.name} answered differently from the record: {told}")


def calls_any(bodies: Sequence[NodeBody], names: Collection[str]) -> bool:
    """Whether a path calls one of these tools."""
    return bool(names) and any(call.name in names for body in bodies for call in body.calls)
