"""The contract of a model, and what it is asked."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Protocol

import msgspec

from rollout.core.messages import JSON, Message, Toolset
from rollout.core.task import Task
from rollout.trajectories.generation import Generation

__all__ = ["Capability", "Generation", "Model", "Prefix", "Request", "Sampling"]


class Capability(enum.Enum):
    """What a model can do beyond answering a chat."""

    TOKEN_IDS = "token_ids"
    LOGPROBS = "logprobs"
    TOKEN_IN = "token_in"
    PREFIX = "prefix"
    """Goes on from the first tokens of an answer (`Request.prefix`)."""
    IMAGES = "images"
    WEIGHT_VERSION = "weight_version"


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the answer is sampled. None leaves it to the server. `extra` goes into the request body as it is."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_tokens: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    stop: tuple[str, ...] = ()
    logprobs: bool = False
    top_logprobs: int | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    extra: JSON = msgspec.field(default_factory=dict)


class Prefix(msgspec.Struct, frozen=True):
    """The first tokens of an answer, as they were sampled before."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """One for each."""


class Request(msgspec.Struct):
    """One question to a model.

    `messages` and `wire` are the same conversation: as records, and as pieces of JSON that make the array of messages
    when joined by commas. Both belong to the episode's view and grow with it: a model reads them during the call and
    keeps no reference.
    """

    messages: Sequence[Message]
    wire: Sequence[bytes]
    tools: Toolset
    sampling: Sampling
    seed: int | None = None
    task: Task | None = None
    """For the built-in models, which play what the task says. Never sent to a server."""
    turn: int | None = None
    """The conversation turn, as reference actions count them. For the built-in models."""
    path: Sequence[Message] = ()
    """The whole conversation as it is on record, of which `messages` may be a part, or another form. For the built-in
    models."""
    offered: Toolset | None = None
    """The tools that the agent has, where `tools` does not say so. For the built-in models."""
    ids: bytes | bytearray = b""
    """For a model that takes tokens in: the token ids of the conversation so far, packed, as they were given and
    sampled. Empty at its beginning, and where earlier messages are sent otherwise than before."""
    covered: int = 0
    """So many of `messages` are in `ids`, the last of them an answer."""
    prefix: Prefix | None = None
    """What the answer begins with: the model goes on from there, and its answer holds it too. Only asked of models with
    `Capability.PREFIX`."""


class Model(Protocol):
    """Who answers. An implementation is safe to call from many episodes at once and keeps no state of any of them.

    It raises `ModelError` or `DeadlineError` and nothing else, marks an error transient only where the same request
    may succeed later, and lets a cancellation through at once, giving back whatever it held.
    """

    name: str
    capabilities: frozenset[Capability]

    async def generate(self, request: Request) -> Generation:
        """Answer the conversation. The tool calls of the answer have ids that are unique within it."""
        ...

    async def close(self) -> None:
        """Give back connections and processes. Called once, by who opened the model."""
        ...
