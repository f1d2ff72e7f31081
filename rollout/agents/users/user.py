"""The contract of a simulated user, and what it says.

Four kinds keep it: a model (`model.py`), a fixed list of messages (`scripted.py`), the built-in one (`scripted.py` too)
and a person at the terminal (`person.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import msgspec

from rollout.core.messages import Message, ToolCall, Toolset
from rollout.core.world import World
from rollout.trajectories.generation import Generation
from rollout.trajectories.tree import UserEnd

STOP_TOKENS: dict[str, UserEnd] = {
    "###STOP###": "stop",
    "###TRANSFER###": "transfer",
    "###OUT-OF-SCOPE###": "out_of_scope",
}
_TOKEN = re.compile("|".join(map(re.escape, STOP_TOKENS)))
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


ASKED_AGAIN = "asked_again"
"""The mark of a user's message that only asks for an answer, because the agent had said nothing. It opens no new turn
of the task."""


class UserReply(msgspec.Struct, frozen=True):
    """What the user said, and whether it ended the conversation; or the calls of its own tools it makes first."""

    text: str | None
    """None where there is nothing to say; then `end` or `calls` is set."""
    end: UserEnd | None = None
    generation: Generation | None = None
    """How a model user came to say it: tokens, cost, latency."""
    calls: tuple[ToolCall, ...] = ()
    """Where set, nothing is said yet: the episode makes the calls in the user's world and asks again."""
    asks_again: bool = False
    """Whether it only asks for the answer that the agent did not give."""
    author: str | None = None
    """The person who said it; None for a model or a program."""


class User(Protocol):
    """Who the agent talks to. One instance belongs to one episode.

    `dialogue` is the conversation as a person would have heard it: the user's and the assistant's words, no tool calls,
    no reasoning, and it only ever grows at its end. Where the assistant ended its turn without a word, its message is
    there with an empty `content` (`is_silence`): that is not an answer, and a user must not take it for one. A user
    keeps nothing that is not in it (it may keep what it has already read), so that a resumed episode finds the same
    user again. What goes wrong on its side is a `UserError`.

    A user may have tools of its own (`world`, `tools`), of which the agent sees nothing but what they do to a state
    that both share. It asks for calls in its reply; they and their answers come back in the dialogue, as messages of
    the roles `user` (with `tool_calls`) and `tool`.
    """

    world: World | None
    """Opened and closed by the episode together with the agent's."""
    tools: Toolset
    """What `world` offers; set by the episode when it has opened it."""

    async def reply(self, dialogue: Sequence[Message]) -> UserReply:
        """Say the next thing. An empty dialogue asks for the first message."""
        ...


def is_silence(message: Message) -> bool:
    """Whether this is a turn that the assistant ended without a word."""
    return message.role == "assistant" and not message.content and not message.tool_calls


def is_spoken(message: Message) -> bool:
    """Whether both sides heard it, or it is something that a user did with its own tools."""
    return message.role != "tool" and not message.tool_calls


def read_reply(text: str) -> tuple[str | None, UserEnd | None]:
    """Take stop tokens, `[[…]]` markers and thoughts out of a user's text. The first token decides the end."""
    found = _TOKEN.search(text)
    end = STOP_TOKENS[found.group()] if found is not None else None
    words = strip_markers(_THOUGHT.sub("", _TOKEN.sub("", text))).strip()
    return words or None, end


def strip_markers(text: str) -> str:
    """The text without the `[[` and `]]` around its concrete values."""
    return text.replace("[[", "").replace("]]", "")
