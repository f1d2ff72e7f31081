"""The contract of a model: what it is asked, and what it must keep.

A request holds what is sent to the model and nothing else: no task, no reference actions, nothing of the user's brief.
Policies that need a task's answer key keep another contract: `rollout.models.reference`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Protocol

import msgspec

from rollout.core.messages import JSON, Message, Toolset
from rollout.trajectories.generation import Generation, Prefix

__all__ = ["Capability", "Generation", "Model", "Prefix", "Request", "Sampling"]


class Capability(enum.Enum):
    """An ability beyond answering a chat."""

    TOKEN_IDS = "token_ids"
    """Returns the ids that it was given and sampled (`Generation.tokens`)."""
    LOGPROBS = "logprobs"
    """Returns the log-probabilities of what it sampled."""
    TOKEN_IN = "token_in"
    """Takes the conversation as token ids (`Request.ids`)."""
    PREFIX = "prefix"
    """Continues an answer from its first tokens (`Request.prefix`)."""
    IMAGES = "images"
    """Is shown images."""
    WEIGHT_VERSION = "weight_version"
    """Says which version of its weights answered."""


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sampling parameters. None leaves one to the server. `extra` goes into the request body unchanged."""

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


class Request(msgspec.Struct):
    """One request to a model: what is sent, and nothing else.

    `messages` and `wire` are the same conversation: as records, and as pieces of JSON that form the array of messages
    when joined by commas. Both belong to the episode's view and grow with it: a model reads them during the call and
    keeps no reference.
    """

    messages: Sequence[Message]
    wire: Sequence[bytes]
    tools: Toolset
    sampling: Sampling
    seed: int | None = None
    ids: bytes | bytearray = b""
    """For models with `Capability.TOKEN_IN`: the packed token ids of the conversation so far, as given and sampled.
    Empty at the start, and where earlier messages are sent in a form that differs from before."""
    covered: int = 0
    """The number of `messages` that `ids` covers. The last of them is an answer."""
    prefix: Prefix | None = None
    """The beginning of the answer. The model continues from there and returns the prefix as part of its answer. Only
    set for models with `Capability.PREFIX`."""

    def chat(self) -> JSON:
        """The messages and tools as dicts, for a client of chat completions: `create(model=…, **request.chat())`."""
        body: JSON = {"messages": [entry for piece in self.wire for entry in msgspec.json.decode(b"[" + piece + b"]")]}
        return {**body, "tools": msgspec.json.decode(self.tools.wire)} if len(self.tools) else body


class Model(Protocol):
    """Answers requests. An implementation is safe to call from many episodes at once and keeps no state of any of them.

    It raises `ModelError` or `DeadlineError` and nothing else, marks an error transient only where the same request
    may succeed later, and lets a cancellation through at once, releasing whatever it held.
    """

    name: str
    capabilities: frozenset[Capability]

    async def generate(self, request: Request) -> Generation:
        """Answer the conversation. The ids of the answer's tool calls are unique within it."""
        ...

    async def close(self) -> None:
        """Release connections and processes. Called once, by the owner of the model: a run closes what it made of a
        class or a name, and leaves an object that it was given to the program that made it."""
        ...
