"""The contract of a simulated user, and what it says.

Four kinds keep it: a model (`model.py`), a fixed list of messages (`scripted.py`), the built-in one (`scripted.py` too)
and a person at the terminal (`person.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import msgspec

from rollout.messages import Message
from rollout.trajectories.generation import Generation
from rollout.trajectories.tree import UserEnd
from rollout.worlds.world import World

STOP_TOKENS: dict[str, UserEnd] = {
    "###STOP###": "stop",
    "###TRANSFER###": "transfer",
    "###OUT-OF-SCOPE###": "out_of_scope",
}
_TOKEN = re.compile("|".join(map(re.escape, STOP_TOKENS)))
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


class UserReply(msgspec.Struct, frozen=True):
    """What the user said, and whether it ended the conversation."""

    text: str | None
    """None where there is nothing to say; then `end` is set."""
    end: UserEnd | None = None
    generation: Generation | None = None
    """How a model user came to say it: tokens, cost, latency."""


class User(Protocol):
    """Who the agent talks to. One instance belongs to one episode.

    `dialogue` is the conversation as a person would have heard it: the user's and the assistant's words, no tool calls,
    no reasoning, and it only ever grows at its end. A user keeps nothing that is not in it (it may keep what it has
    already read), so that a resumed episode finds the same user again. What goes wrong on its side is a `UserError`.

    A user may have tools and a state of its own that the agent never sees: `world` is that world, opened and closed by
    the episode together with the agent's. None of the shipped kinds uses one yet.
    """

    world: World | None

    async def reply(self, dialogue: Sequence[Message]) -> UserReply:
        """Say the next thing. An empty dialogue asks for the first message."""
        ...


def read_reply(text: str) -> tuple[str | None, UserEnd | None]:
    """Take stop tokens, `[[…]]` markers and thoughts out of a user's text. The first token decides the end."""
    found = _TOKEN.search(text)
    end = STOP_TOKENS[found.group()] if found is not None else None
    words = strip_markers(_THOUGHT.sub("", _TOKEN.sub("", text))).strip()
    return words or None, end


def strip_markers(text: str) -> str:
    """The text without the `[[` and `]]` around its concrete values."""
    return text.replace("[[", "").replace("]]", "")
