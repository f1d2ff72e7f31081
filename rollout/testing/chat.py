"""A chat-completions request as the stub reads it.

The body is parsed once into records; what is no chat request is refused with the key that is wrong, as a real server
does. The offered tools stay raw bytes: they are the same in every request of an episode, so what follows from them
(names, arguments that satisfy the schema) is remembered by those bytes.

A `Situation` is the request together with what rules ask about: which turn, which step, what was said last.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Any, Literal

import msgspec

from rollout.testing.arguments import synthesise_arguments


class PastFunction(msgspec.Struct, frozen=True, gc=False):
    name: str
    arguments: str = "{}"


class PastCall(msgspec.Struct, frozen=True):
    """A call that an earlier answer asked for."""

    function: PastFunction


class Part(msgspec.Struct, frozen=True):
    """One part of a message that holds more than text."""

    type: str
    text: str | None = None
    image_url: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class ChatMessage(msgspec.Struct, frozen=True):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    tool_calls: list[PastCall] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None

    def text(self) -> str:
        """The text of the message, whatever its form."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text or "" for part in self.content or ())


class Chat(msgspec.Struct, frozen=True):
    """The keys of a request that the stub heeds."""

    model: str
    messages: list[ChatMessage]
    tools: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    tool_choice: Any = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    return_token_ids: bool | None = None
    stream: bool | None = None
    n: int | None = None


class OfferedFunction(msgspec.Struct, frozen=True):
    name: str
    parameters: dict[str, Any] | None = None


class OfferedEntry(msgspec.Struct, frozen=True):
    function: OfferedFunction


class OfferedTool(msgspec.Struct, frozen=True, gc=False):
    """A tool of the request, with arguments that its schema accepts."""

    name: str
    arguments: str


class BadChat(Exception):
    """The body is JSON but no chat request, or no JSON at all."""


_NONCE = re.compile(r'"nonce": "(\w+)"')
_chat_decoder = msgspec.json.Decoder(Chat)
_tools_decoder = msgspec.json.Decoder(list[OfferedEntry] | None)
_encoder = msgspec.json.Encoder()


@lru_cache(maxsize=1024)
def _read_tools(raw: bytes) -> tuple[OfferedTool, ...]:
    return tuple(
        OfferedTool(
            entry.function.name, _encoder.encode(synthesise_arguments(entry.function.parameters or {})).decode()
        )
        for entry in _tools_decoder.decode(raw) or ()
    )


class Situation:
    """A request and where in its conversation it stands."""

    __slots__ = ("answers", "chat", "digest", "key", "number", "offered", "step", "turn")

    def __init__(self, chat: Chat, digest: bytes, offered: tuple[OfferedTool, ...]) -> None:
        turn = step = answers = 0
        for message in chat.messages:
            role = message.role
            if role == "user":
                turn += 1
                step = 0
            elif role == "assistant":
                answers += 1
                step += 1
        self.chat = chat
        self.digest = digest
        """Of the body's bytes: ids, choices and chances all follow from it."""
        self.number = int.from_bytes(digest[:8], "little")
        self.offered = offered
        """Empty as well when `tool_choice` is `none`."""
        self.turn = turn
        """User messages in the request."""
        self.step = step
        """Assistant messages since the last user message."""
        self.answers = answers
        """Assistant messages in the request."""
        self.key = ""
        """The client's key, where the script says that it is repeated."""

    def opening(self) -> str:
        """The text of the first user message."""
        return next((message.text() for message in self.chat.messages if message.role == "user"), "")

    def nonce(self) -> str:
        """The nonce that a judge's instructions ask for; empty where the system message has none."""
        instructions = (message.text() for message in self.chat.messages if message.role == "system")
        found = _NONCE.search(next(instructions, ""))
        return found[1] if found else ""


def read_situation(body: bytes) -> Situation:
    """Read a request body. Raises BadChat with a text that names the wrong key."""
    try:
        chat = _chat_decoder.decode(body)
        offered = _read_tools(tools) if (tools := bytes(chat.tools)) and chat.tool_choice != "none" else ()
    except (ValueError, TypeError, LookupError, RecursionError) as error:  # the last three: a schema that is none
        raise BadChat(f"Invalid request: {error}") from error
    if not chat.messages:
        raise BadChat("Invalid request: `messages` is empty - at `$.messages`")
    if chat.stream:
        raise BadChat("The stub does not stream - at `$.stream`")
    if chat.top_logprobs and not chat.logprobs:
        raise BadChat("When using `top_logprobs`, `logprobs` must be true - at `$.top_logprobs`")
    if chat.n is not None and chat.n != 1:
        raise BadChat("The stub gives one choice - at `$.n`")
    return Situation(chat, hashlib.sha256(body).digest()[:16], offered)
