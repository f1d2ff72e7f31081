"""Messages, tool calls, tool results and tools, as small frozen records.

Every room uses these records, so this module imports none of them. A record is parsed once, where it enters, and is
never validated again. Its JSON form is the chat-completions form that servers, our JSONL files and trainers use.
`encode_message` makes it once for each message; views only join what was encoded.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import msgspec

Role = Literal["system", "user", "assistant", "tool"]
JSON = dict[str, Any]
WorldEnd = Literal["answered", "world_done"]
WORLD_ENDS: tuple[WorldEnd, ...] = get_args(WorldEnd)
MALFORMED_CALL = "malformed_call"
"""The name of a call that could not be read out of a model's text, and the kind of error that answers it."""
CALL_BEGIN, CALL_END = "<tool_call>", "</tool_call>"
"""The marks around a call that a model writes into its text."""
WRITTEN_CALL = f'{CALL_BEGIN}{{"name": "<tool>", "arguments": {{…}}}}{CALL_END}'
"""How a model is asked to write a call into its text (`tool_format: text`)."""
_THOUGHT, _THOUGHT_END = "<think>", "</think>"
_BLANKS = "\u115f\u1160\u2800\u3164\uffa0"
"""Characters that count as letters or symbols and show nothing."""


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One call that an assistant message asks for. `arguments` is the text the model wrote, valid JSON or not."""

    id: str
    name: str
    arguments: str = "{}"


class Message(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One message. Only the fields of its role are set."""

    role: Role
    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: str | None = None
    images: tuple[str, ...] = ()
    """Names of blobs, never the bytes."""
    raw: str | None = None
    """The model's exact text, where calls or reasoning were parsed from it; None where `content` is all of it."""

    @property
    def text(self) -> str:
        """The whole text that the model wrote."""
        return self.raw if self.raw is not None else self.content or ""

    def without_reasoning(self) -> Message:
        """A copy without reasoning, as later turns show it where reasoning is cleared."""
        return self if self.reasoning is None else msgspec.structs.replace(self, reasoning=None)


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as it is offered to a model."""

    name: str
    description: str = ""
    parameters: JSON = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    is_write: bool | None = None
    """Whether it changes the world; None where that is not declared."""
    takes_numerals: bool = False
    """Whether `"12"` is read as 12 where its schema wants a number."""

    def to_json(self) -> JSON:
        """The form that is sent: `{"type": "function", "function": {…}}`."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }

    @staticmethod
    def from_json(entry: JSON) -> ToolSpec:
        """Read the form that `to_json` writes, or the bare inner object that some files hold. Raises KeyError,
        TypeError, AttributeError or ValueError if the entry is not a tool."""
        function = entry.get("function", entry)
        spec = ToolSpec(
            name=function["name"],
            description=function.get("description") or "",
            parameters=function.get("parameters") or {"type": "object", "properties": {}},
        )
        if not isinstance(spec.name, str) or not spec.name.isprintable() or not spec.name:
            raise ValueError(f"name: expected the name of a tool, got {spec.name!r}")
        if not isinstance(spec.description, str):
            raise TypeError(f"{spec.name}: description: expected a text")
        if not isinstance(spec.parameters, dict):
            raise TypeError(f"{spec.name}: parameters: expected a JSON schema")
        return spec


IMAGE_ENDINGS = frozenset({"png", "jpeg", "jpg", "webp", "gif", "bmp", "tiff", "svg", "avif", "heic", "ico"})


class Image(msgspec.Struct, frozen=True):
    """An image that a tool showed. The engine keeps the bytes once, under `name`; messages hold the name alone."""

    mime_type: str
    data: bytes

    @property
    def name(self) -> str:
        """The hash of the bytes with the usual ending: equal images, equal names. A server that calls its image
        something else does not choose the name of a file."""
        ending = self.mime_type.rpartition("/")[2].partition("+")[0].lower()
        return f"{hashlib.sha256(self.data).hexdigest()[:16]}.{ending if ending in IMAGE_ENDINGS else 'bin'}"


class ToolResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a world answered to one call, under that call's id."""

    call_id: str
    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    error_kind: str | None = None
    """`unknown_tool`, `bad_arguments`, `malformed_call`, `timeout`, `crash`, or what the tool itself said (`tool`)."""
    is_undone: bool = False
    """Whether the world is as if this call had never been made. A replay leaves it out: it might succeed this time."""
    end: WorldEnd | None = None
    """Set where this call ended the episode: the agent gave its answer, or the world is over."""
    data: JSON | None = None
    """The facts that `content` puts into words, for programs: metrics, scorers, views. The model is never sent it, and
    a replay does not compare it. A world chooses the keys; the values are plain JSON. Two keys have a meaning for every
    world: `title` names what is shown, `error` is what went wrong."""

    def to_message(self) -> Message:
        """The observation that the agent reads."""
        names = tuple(image.name for image in self.images)
        return Message(role="tool", content=self.content, tool_call_id=self.call_id, images=names)


def message_to_json(message: Message) -> JSON:
    """The chat-completions form of a message, as a plain dict."""
    out: JSON = {"role": message.role, "content": message.content}
    if message.tool_calls:
        out["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        out["tool_call_id"] = message.tool_call_id
    if message.reasoning is not None:
        out["reasoning_content"] = message.reasoning
    if message.images:
        out["images"] = list(message.images)
    if message.raw is not None:
        out["raw"] = message.raw
    return out


_encoder = msgspec.json.Encoder()


def encode_message(message: Message) -> bytes:
    """The chat-completions form of a message, as JSON bytes."""
    return _encoder.encode(message_to_json(message))


def encode_for_model(message: Message, image_urls: Sequence[str]) -> bytes:
    """The form in which a message with images is sent: the images behind the text, as far as their URLs are given.

    The names of blobs mean nothing to a server, and some refuse what they do not know, so those are not sent.
    """
    out = message_to_json(message)
    out.pop("images", None)
    if image_urls:
        parts: list[JSON] = [{"type": "text", "text": message.content}] if message.content else []
        out["content"] = [*parts, *({"type": "image_url", "image_url": {"url": url}} for url in image_urls)]
    return _encoder.encode(out)


def message_from_json(entry: JSON, unnamed: str = "call") -> Message:
    """Read one message of a task file or a saved trajectory. Calls without an id get one that begins with `unnamed`.

    Raises KeyError or TypeError if the entry is not a message."""
    calls = tuple(
        ToolCall(
            id=call.get("id") or f"{unnamed}_{index}",
            name=call["function"]["name"],
            arguments=_as_text(call["function"].get("arguments")),
        )
        for index, call in enumerate(entry.get("tool_calls") or ())
    )
    return msgspec.convert(
        {
            "role": entry["role"],
            "content": _joined(entry.get("content")),
            "tool_calls": calls,
            "tool_call_id": entry.get("tool_call_id"),
            "reasoning": entry.get("reasoning_content") or entry.get("reasoning"),
            "images": tuple(entry.get("images") or ()),
            "raw": entry.get("raw"),
        },
        Message,
    )


class _Function(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str
    arguments: str | None = None


class _Call(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    function: _Function
    id: str | None = None
    type: str | None = None


class _Entry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message in the form that `encode_message` writes."""

    role: Role
    content: str | None = None
    tool_calls: tuple[_Call, ...] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    images: tuple[str, ...] | None = None
    raw: str | None = None


_read_own = msgspec.json.Decoder(tuple[_Entry, ...]).decode
_read_any = msgspec.json.Decoder(list[JSON]).decode


def decode_messages(encoded: bytes | msgspec.Raw) -> tuple[Message, ...]:
    """Read a JSON list of messages. Those in our own form are read about three times as quickly as `message_from_json`
    reads them. Raises what that raises, and msgspec's errors."""
    try:
        return tuple(map(_as_message, _read_own(encoded)))
    except msgspec.MsgspecError:
        return tuple(map(message_from_json, _read_any(encoded)))


def _as_message(entry: _Entry) -> Message:
    calls = tuple(
        [
            ToolCall(
                call.id or f"call_{index}",
                call.function.name,
                "{}" if call.function.arguments is None else call.function.arguments,
            )
            for index, call in enumerate(entry.tool_calls)
        ]
        if entry.tool_calls
        else ()
    )
    reasoning = entry.reasoning_content or None
    return Message(entry.role, entry.content, calls, entry.tool_call_id, reasoning, entry.images or (), entry.raw)


def has_words(text: str | None) -> bool:
    """Whether a text says anything to a reader: not where it is white space, invisible characters or a thought
    that a server left in the answer."""
    said = (text or "").strip()
    if said.startswith(_THOUGHT):
        said = said.rpartition(_THOUGHT_END)[2] if _THOUGHT_END in said else ""
    return not all(map(_is_invisible, said))


def _is_invisible(char: str) -> bool:
    return char in _BLANKS or char.isspace() or unicodedata.category(char) in ("Cc", "Cf")


def _joined(content: Any) -> Any:
    """Content given as a list of text parts, as one text."""
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return "".join(str(part.get("text") or "") for part in content)
    return content


def _as_text(arguments: Any) -> str:
    if arguments is None:
        return "{}"
    return arguments if isinstance(arguments, str) else _encoder.encode(arguments).decode()


_read_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_values = msgspec.json.Decoder(dict[str, Any]).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeEncodeError, RecursionError)


def with_readable_calls(message: Message) -> Message:
    """The message with every call's arguments a JSON object.

    Servers parse the calls of earlier answers again and refuse the whole conversation over a broken one. So that is
    sent as `{"malformed_arguments": "<what the model wrote>"}`; the tree keeps the model's own text.
    """
    if all(map(is_readable, message.tool_calls)):
        return message
    calls = tuple(
        call if is_readable(call) else ToolCall(call.id, call.name, _encoder.encode(_malformed(call)).decode())
        for call in message.tool_calls
    )
    return msgspec.structs.replace(message, tool_calls=calls)


def read_arguments(call: ToolCall) -> JSON:
    """A call's arguments as an object, by the same rule for a text that is none."""
    try:
        return _read_values(call.arguments)
    except _UNREADABLE:
        return _malformed(call)


def write_calls(calls: Sequence[ToolCall]) -> str:
    """The calls as a model writes them into its text: without the marks of our own record."""
    written = (
        f'{CALL_BEGIN}\n{{"name": {msgspec.json.encode(call.name).decode()}, "arguments": {call.arguments or "{}"}}}\n'
        f"{CALL_END}"
        for call in calls
        if call.name != MALFORMED_CALL
    )
    return "\n".join(written)


def is_readable(call: ToolCall) -> bool:
    """Whether a call's arguments are a JSON object."""
    try:
        _read_object(call.arguments)
    except _UNREADABLE:
        return False
    return True


def _malformed(call: ToolCall) -> JSON:
    return {"malformed_arguments": call.arguments}


class Toolset:
    """The tools that one agent is offered, with the bytes that say so to a server."""

    __slots__ = ("by_name", "specs", "wire")

    def __init__(self, specs: tuple[ToolSpec, ...] = ()) -> None:
        self.specs = specs
        self.by_name = {spec.name: spec for spec in specs}
        self.wire = _encoder.encode([spec.to_json() for spec in specs]) if specs else b""
        if len(self.by_name) != len(specs):
            twice = sorted({spec.name for spec in specs if [s.name for s in specs].count(spec.name) > 1})
            raise ValueError(f"tool names must be unique; offered twice: {', '.join(twice)}")

    def __len__(self) -> int:
        return len(self.specs)

    def __iter__(self) -> Iterator[ToolSpec]:
        return iter(self.specs)


NO_TOOLS = Toolset()
