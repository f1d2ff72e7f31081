"""A seat in a conversation that a person takes: the part of the user, or that of the agent.

The engine asks the seat, the person answers whenever they are ready. Everything else is as in any attempt: the world
answers the calls, the other part is played by its model, scorers judge, and the record says who played.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from rollout.agents.agent import Session
from rollout.agents.users.user import UserReply
from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, NO_TOOLS, Message, Toolset
from rollout.core.task import Task
from rollout.core.world import World

Part = Literal["agent", "user"]


class WrittenCall(msgspec.Struct, frozen=True):
    """A tool call as a person writes it."""

    name: str
    arguments: Mapping[str, Any] = {}


class Deed(msgspec.Struct, frozen=True):
    """What a person does next: words, calls of tools, or the end of the conversation."""

    text: str | None = None
    calls: Sequence[WrittenCall] = ()
    is_end: bool = False


class Seat:
    """The place of a person in one attempt. `changed` is called whenever the seat begins or stops waiting."""

    def __init__(self, part: Part, changed: Callable[[], None] = lambda: None) -> None:
        self.part = part
        self._changed = changed
        self._asked: asyncio.Future[Deed] | None = None
        self.tools: Sequence[JSON] = ()
        """The tools that an agent is offered now, as a model is sent them."""
        self.system: str | None = None
        """The system prompt of the agent; None until its first turn, or where there is none."""

    @property
    def is_waiting(self) -> bool:
        """Whether it is the person's turn."""
        return self._asked is not None and not self._asked.done()

    async def ask(self) -> Deed:
        """What the person does next. Waits until they do it."""
        self._asked = asyncio.get_running_loop().create_future()
        self._changed()
        try:
            return await self._asked
        finally:
            self._asked = None

    def act(self, deed: Deed) -> None:
        """Answer for the person. Raises ConfigError where it is not their turn, or where they do nothing."""
        asked = self._asked
        if asked is None or asked.done():
            raise ConfigError("it is not your turn; wait until the others have answered")
        if deed.calls and (deed.text or self.part == "user"):
            raise ConfigError("calls and words: expected one of them; a user has words only")
        if not (deed.is_end or deed.calls or (deed.text or "").strip()):
            raise ConfigError("there is nothing to say or to call; write something, or end the conversation")
        asked.set_result(deed)
        self._changed()


class SeatUser:
    """A user who is a person in a seat."""

    world: World | None = None
    tools: Toolset = NO_TOOLS

    def __init__(self, seat: Seat) -> None:
        self._seat = seat

    async def reply(self, dialogue: Sequence[Message]) -> UserReply:
        deed = await self._seat.ask()
        text = (deed.text or "").strip() or None
        return UserReply(text, "stop" if deed.is_end else None)


class SeatAgent:
    """An agent that is a person in a seat. What comes next follows from the last message alone, so an attempt that was
    interrupted goes on from wherever it is."""

    is_stateless = True

    def __init__(self, seat: Seat) -> None:
        self._seat = seat

    async def act(self, task: Task, session: Session) -> None:
        while not session.is_over:
            if session.pending:
                await session.call()
            elif not session.is_asked:
                await session.say()
            else:
                first = session.messages[0]
                self._seat.system = first.content if first.role == "system" else None
                self._seat.tools = [spec.to_json() for spec in session.tools]
                deed = await self._seat.ask()
                for call in deed.calls:
                    await session.call(call.name, **call.arguments)
                if deed.text:
                    await session.say(deed.text)
                if deed.is_end:
                    return
