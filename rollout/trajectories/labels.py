"""Labels: what the model was sent besides the messages, put to the trajectory.

A trajectory holds no system prompt and no tools; they are the same for a whole dataset and lie once in the run's blob.
A label is the line with the system prompt as first message and the tools under `tools`, both with the very bytes of the
blob, which are the bytes of the requests. Everything else in the line stays as it is.

An `Example` is a labelled trajectory as exporters see it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, Message, encode_message
from rollout.trajectories.line import Head
from rollout.trajectories.saved import BadLine, SavedLine
from rollout.trajectories.trajectory import Trajectory

_encode = msgspec.json.Encoder().encode
_read_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class NoPrompt(ConfigError):
    """Nobody knows what the model of a trajectory was sent. The text says what would help."""


class Prompt(msgspec.Struct, frozen=True):
    """System prompt and tools of a dataset's agent."""

    system: str | None
    wire: bytes
    """The tools as they are sent: a JSON list."""
    tools: list[JSON]


class _Blob(msgspec.Struct):
    system: str | None
    tools: msgspec.Raw


def read_prompt(blob: bytes) -> Prompt:
    """Read what `Plan.prompt` wrote. Raises msgspec's errors on anything else."""
    found = msgspec.json.decode(blob, type=_Blob)
    return Prompt(found.system, bytes(found.tools), msgspec.json.decode(found.tools, type=list[JSON]))


def add_label(line: SavedLine, prompt: Prompt) -> bytes:
    """The labelled line, with its newline."""
    messages = [bytes(raw) for raw in _read_list(line.fields["messages"])]
    if prompt.system is not None:
        messages.insert(0, encode_message(Message(role="system", content=prompt.system)))
    labelled: dict[str, msgspec.Raw] = {}
    for key, raw in line.fields.items():
        labelled[key] = raw
        if key == "messages":
            labelled[key] = msgspec.Raw(b"[" + b",".join(messages) + b"]")
            labelled["tools"] = msgspec.Raw(prompt.wire)
    return _encode(labelled) + b"\n"


class Example(Head, frozen=True, kw_only=True):
    """One record of an export in the making: the head of a trajectory with what is written of its messages."""

    messages: tuple[Message, ...]
    """The system prompt first, where there is one."""
    tools: list[JSON]
    offers: dict[int, list[JSON]] = msgspec.field(default_factory=dict)
    """Where the tools changed: those of each turn from which on they were others. The first user message is turn 0."""
    context: int | None = None
    """Set where only what comes after this many messages is to be learnt (`--per-turn`)."""
    masked: frozenset[int] = frozenset()
    """The places of answers that are context only: see `rollout.trajectories.filters`."""
    has_images: bool = False
    """Whether images were sent to the model of the trajectory that it is of."""
    image_path: Callable[[str], str] | None = None
    """The path of an image's file, by the image's name; None where the files are not known. Raises BadLine."""

    @property
    def learnt_from(self) -> int:
        """The place from which on answers may be learnt: what the task opens with is context, as `context` is."""
        if self.context is not None:
            return self.context
        return int(bool(self.messages) and self.messages[0].role == "system") + self.opening

    @property
    def has_reasoning(self) -> bool:
        return any(message.reasoning is not None for message in self.messages)

    def image_paths(self) -> list[str]:
        """The files of its images, in the order of the messages. Raises BadLine."""
        if self.image_path is None:
            raise BadLine("the files of its images are not known")
        return [self.image_path(name) for message in self.messages for name in message.images]


def make_example(
    line: SavedLine,
    prompt: Prompt | None,
    offers: dict[int, list[JSON]] | None = None,
    image_path: Callable[[str], str] | None = None,
) -> Example:
    """A trajectory with its prompt; None for a line that is labelled. Raises BadLine."""
    messages = tuple(line.messages)
    if prompt is None:
        tools = _read_tools(line.fields["tools"])
    else:
        tools = prompt.tools
        if prompt.system is not None:
            messages = (Message(role="system", content=prompt.system), *messages)
    messages, has_images = _as_seen(line, messages)
    return Example(
        line.id,
        line.task_id,
        line.success,
        line.metadata,
        messages=messages,
        tools=tools,
        offers=offers or {},
        has_images=has_images,
        image_path=image_path,
    )


def example_of(trajectory: Trajectory) -> Example:
    """A trajectory that knows its prompt, as exporters see it."""
    system = () if trajectory.system is None else (Message(role="system", content=trajectory.system),)
    messages, has_images = _as_seen(trajectory, (*system, *trajectory.messages))
    return Example(
        trajectory.id,
        trajectory.task_id,
        trajectory.success,
        trajectory.metadata,
        messages=messages,
        tools=trajectory.tools,
        offers=trajectory.tools_by_turn,
        has_images=has_images,
        image_path=trajectory.image_path,
    )


def _as_seen(head: Head, messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], bool]:
    """Messages without images where the model was sent none, and whether it was sent some. Where that is not on
    record, the images stay, and formats refuse them."""
    if head.view is None or not any(message.images for message in messages):
        return messages, False
    if head.view.get("images"):
        return messages, True
    return tuple(msgspec.structs.replace(message, images=()) for message in messages), False


def _read_tools(raw: msgspec.Raw) -> list[JSON]:
    """The tools of a labelled line. AgentSkiller's labels hold the whole or the parameters as JSON within a string."""
    try:
        tools = _unwrap(msgspec.json.decode(raw)) or []
        for tool in tools:
            function = tool.get("function", tool)
            function["parameters"] = _unwrap(function.get("parameters")) or {"type": "object", "properties": {}}
    except (msgspec.MsgspecError, AttributeError, TypeError) as error:
        raise BadLine(f"tools cannot be read: {error}") from error
    return list(tools)


def _unwrap(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, str) and value else value
