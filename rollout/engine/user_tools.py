"""The calls of a user with tools of its own, in one episode: where its calls go, which are open, what came of them.

The agent sees none of it. Its nodes lie on the path all the same, so that a resumed episode brings the user's world
back as it brings back the agent's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rollout.agents.users.user import User
from rollout.core.calls import CallReader, answer_calls
from rollout.core.errors import UserError
from rollout.core.messages import NO_TOOLS, ToolCall, ToolResult
from rollout.core.task import Task
from rollout.core.world import World
from rollout.trajectories.tree import NodeBody


class UserSide:
    """The user's world of one episode, if it has one. Fed node by node, live and on resume alike."""

    def __init__(self, user: User | None) -> None:
        self._user = user
        self._reader = CallReader(NO_TOOLS)
        self.pending: tuple[ToolCall, ...] = ()
        self.steps = 0
        """How often it has called something since it last spoke."""
        self.calls: list[dict[str, Any]] = []
        """All its calls with their results, for the record."""

    async def open(self, task: Task, seed: int) -> None:
        """Open the user's world, and tell the user what it offers."""
        if self._user is not None and self._user.world is not None:
            self._user.tools = (await self._user.world.open(task, seed)).tools
            self._reader = CallReader(self._user.tools)

    @property
    def world(self) -> World | None:
        """The user's world; None where the user has no tools of its own."""
        return None if self._user is None else self._user.world

    @property
    def has_world(self) -> bool:
        """Whether the user has tools of its own."""
        return self.world is not None

    async def answer(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """The answers to the user's calls."""
        if self._user is None or self._user.world is None:
            raise UserError(f"the user called {calls[0].name} and has no tools")
        return await answer_calls(calls, self._reader, self._user.world)

    def absorb(self, body: NodeBody, turn: int, message: int) -> None:
        """Record a call, or the answer to the first open call.

        `turn` is the one that the user is about to open, `message` the number of messages said so far.
        """
        assert body.message is not None
        if body.kind == "user_call":
            self.steps += 1
            self.pending = body.message.tool_calls
            self.calls += [
                {"turn": turn, "message": message, "name": call.name, "arguments": call.arguments}
                for call in self.pending
            ]
        else:
            self.calls[len(self.calls) - len(self.pending)]["result"] = body.message.content
            self.pending = self.pending[1:]
