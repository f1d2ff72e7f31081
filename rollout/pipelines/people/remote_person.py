"""A person who plays the user or the agent of an attempt through a program, such as the server behind `rollout view`.

The engine waits for the person without a short time limit. Everything else works as in any attempt: the world answers
the calls, a model plays the other role, scorers score, and the record says who played.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from rollout.agents.agent import Session
from rollout.agents.users.user import UserReply
from rollout.core.calls import is_too_deep
from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, NO_TOOLS, Message, Toolset
from rollout.core.task import Task
from rollout.core.world import World

Part = Literal["agent", "user"]


class WrittenCall(msgspec.Struct, frozen=True):
    """A tool call as a person writes it."""

    name: str
    arguments: Mapping[str, Any] = {}


def written_arguments(call: WrittenCall) -> str:
    """The arguments of a call as JSON text. Raises ConfigError if they have no such form."""
    try:
        text = msgspec.json.encode(call.arguments).decode()
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"the call of {call.name} cannot be made: its arguments have no JSON form: {error}"
        ) from error
    except RecursionError:
        text = None
    if text is None or is_too_deep(text, call.arguments):
        raise ConfigError(f"the call of {call.name} cannot be made: its arguments are nested too deeply")
    return text


class PersonAction(msgspec.Struct, frozen=True):
    """A turn of a person: words, tool calls, or the end of the conversation."""

    text: str | None = None
    calls: Sequence[WrittenCall] = ()
    is_end: bool = False


class RemotePerson:
    """A person in one attempt. `changed` is called when their turn begins or ends."""

    def __init__(self, part: Part, changed: Callable[[], None] = lambda: None, author: str | None = None) -> None:
        self.part = part
        self.author = author
        """The name that is recorded with what they write."""
        self._changed = changed
        self._asked: asyncio.Future[PersonAction] | None = None
        self.tools: Sequence[JSON] = ()
        """The agent's current tools, in the form that a model receives."""
        self.system: str | None = None
        """The system prompt of the agent; None until its first turn, or if there is none."""

    @property
    def is_waiting(self) -> bool:
        """Whether it is the person's turn."""
        return self._asked is not None and not self._asked.done()

    async def ask(self) -> PersonAction:
        """Wait for the action of the person."""
        self._asked = asyncio.get_running_loop().create_future()
        self._changed()
        try:
            return await self._asked
        finally:
            self._asked = None

    def act(self, action: PersonAction) -> None:
        """Pass on an action of the person. Raises ConfigError if it is not their turn, or the action is empty."""
        asked = self._asked
        if asked is None or asked.done():
            raise ConfigError("it is not your turn; wait until the others have answered")
        if action.calls and (action.text or self.part == "user"):
            raise ConfigError("expected words or calls, not both; a user has words only")
        if not (action.is_end or action.calls or (action.text or "").strip()):
            raise ConfigError("there is nothing to say or to call; write something, or end the conversation")
        for call in action.calls:
            written_arguments(call)
        asked.set_result(action)
        self._changed()


class RemoteUser:
    """A user played by a person."""

    world: World | None = None
    tools: Toolset = NO_TOOLS

    def __init__(self, person: RemotePerson) -> None:
        self._person = person

    async def reply(self, dialogue: Sequence[Message]) -> UserReply:
        action = await self._person.ask()
        text = (action.text or "").strip() or None
        return UserReply(text, "stop" if action.is_end else None, author=self._person.author)


class RemoteAgent:
    """An agent played by a person. Its next step depends on the last message alone, so an interrupted attempt can be
    resumed anywhere."""

    is_stateless = True

    def __init__(self, person: RemotePerson) -> None:
        self._person = person
        self.author = person.author

    async def act(self, task: Task, session: Session) -> None:
        while not session.is_over:
            if session.pending:
                await session.call()
            elif not session.is_asked:
                await session.say()
            else:
                first = session.messages[0]
                self._person.system = first.content if first.role == "system" else None
                self._person.tools = [spec.to_json() for spec in session.tools]
                action = await self._person.ask()
                for call in action.calls:
                    await session.call(call.name, **call.arguments)
                if action.text:
                    await session.say(action.text)
                if action.is_end:
                    return
