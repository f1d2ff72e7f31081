"""A person at the terminal as the user: for trying an agent by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rollout.agents.users.user import UserReply, read_reply
from rollout.core.errors import UserError
from rollout.core.messages import NO_TOOLS, Message, Toolset
from rollout.core.printable import printable
from rollout.core.world import World


class PersonUser:
    """Shows the assistant's words and asks for an answer. An empty line or the end of the input ends it."""

    world: World | None = None
    tools: Toolset = NO_TOOLS

    def __init__(self, ask: Callable[[str], str] = input, brief: str = "") -> None:
        self._ask = ask
        self._brief = brief
        self._shown = 0

    async def reply(self, dialogue: Sequence[Message]) -> UserReply:
        fresh = [message for message in dialogue[self._shown :] if message.role == "assistant"]
        shown = "\n".join(f"assistant: {message.content or '(nothing)'}" for message in fresh)
        if self._shown == 0 and self._brief:
            shown = f"Your part:\n{self._brief}\n\n{shown}"
        self._shown = len(dialogue)
        try:
            # A thread, because reading the terminal blocks and other episodes go on.
            line = await asyncio.to_thread(self._ask, f"{printable(shown)}\nyou: ")
        except EOFError:
            return UserReply(None, end="stop")
        except OSError as error:
            raise UserError(f"the terminal cannot be read: {error}") from error
        text, end = read_reply(line)
        return UserReply(text, end or (None if text is not None else "stop"))
