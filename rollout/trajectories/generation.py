"""The result of one model call: the message, and everything a trainer or an auditor asks about it later."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from typing import Literal

import msgspec

from rollout.core.messages import Message

FIRST_TOKENS = 20
"""How many tokens of a generation count as its beginning."""
FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "abort", "unknown"]
ID_BYTES = 4


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens, as the server counted them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A try that failed before the one that succeeded. Attempts stay on record."""

    kind: str
    text: str
    waited: float | None = None
    status: int | None = None


DriftCause = Literal["reasoning", "window", "images", "tools", "calls", "text", "template"]
"""Why a prompt does not begin with what was given and sampled before: see `rollout.trajectories.token_path`."""


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Token-exact record of one generation, where the server gives ids.

    The prompt is kept as what it adds: the first `shared` ids are those of the generation before it on the path (its
    prompt and its completion, one after the other), `new` follows. Ids are packed, four bytes each, logprobs as
    single-precision floats, in memory and in the journal alike: a tenth of a tuple of ints. `of` packs, and the
    properties give arrays. `rollout.trajectories.token_view` puts a path together again.
    """

    shared: int = 0
    """How many ids the prompt has in common with what came before; 0 where nothing did."""
    new: bytes = b""
    sampled: bytes = b""
    scores: bytes = b""
    entropies: tuple[float, ...] = ()
    """Of the first tokens, in nats, over the alternatives that the server gave (`top_logprobs`)."""
    drift: DriftCause | None = None
    """Set where the prompt leaves what came before, that is where `shared` is less than all of it."""
    pieces: bytes = b""
    """Only within the journal: see `rollout.store.token_pieces`."""

    @classmethod
    def of(
        cls,
        prompt_ids: Iterable[int] = (),
        completion_ids: Iterable[int] = (),
        logprobs: Iterable[float] = (),
        entropies: Iterable[float] = (),
    ) -> Tokens:
        """The record of a generation by itself: all of its prompt is new."""
        packed = array("f", logprobs).tobytes()
        return cls(0, pack_ids(prompt_ids), pack_ids(completion_ids), packed, tuple(entropies))

    @property
    def new_ids(self) -> array[int]:
        """What the prompt adds to the ids that it shares."""
        return array("I", self.new)

    @property
    def completion_ids(self) -> array[int]:
        """What was sampled, the end of the turn included where it was sampled."""
        return array("I", self.sampled)

    @property
    def logprobs(self) -> array[float]:
        """One for each sampled id, or none at all."""
        return array("f", self.scores)

    @property
    def prompt_length(self) -> int:
        return self.shared + len(self.new) // ID_BYTES


class Prefix(msgspec.Struct, frozen=True):
    """The first tokens of an answer, as sampled earlier."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """One for each id."""


def pack_ids(ids: Iterable[int]) -> bytes:
    """Ids in the form in which they are kept."""
    return array("I", ids).tobytes()


class Generation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One answer of a model."""

    message: Message
    finish_reason: FinishReason = "stop"
    usage: Usage = Usage()
    cost: float = 0.0
    model: str = ""
    latency: float = 0.0
    """Seconds from the request that succeeded to its whole answer."""
    seed: int | None = None
    tokens: Tokens | None = None
    weight_version: str | None = None
    failures: tuple[Failure, ...] = ()
    is_masked: bool = False
    """Whether a secret in the message was masked. It then differs from what the model wrote, and its tokens are
    dropped."""
    is_scripted: bool = False
    """Whether the agent's program wrote the message and no model sampled it. It is context and never trained on."""

    @property
    def is_exact(self) -> bool:
        """Whether the tokens are the ones the model was given and sampled, not a later re-encoding."""
        return self.tokens is not None and self.tokens.prompt_length > 0 and bool(self.tokens.sampled)

    @property
    def surprisal(self) -> float | None:
        """The mean of −log p over the sampled tokens; None without logprobs."""
        logprobs = self.tokens.logprobs if self.tokens is not None else ()
        return -sum(logprobs) / len(logprobs) if logprobs else None

    @property
    def first_entropy(self) -> float | None:
        """How uncertain the model was at the beginning: the mean entropy of the first tokens, or their mean surprisal
        where the alternatives are not known; None without logprobs."""
        if self.tokens is None:
            return None
        known = self.tokens.entropies or [-logprob for logprob in self.tokens.logprobs[:FIRST_TOKENS]]
        return sum(known) / len(known) if known else None


def entropy_of(logprobs: Iterable[float]) -> float:
    """The entropy of a token, in nats, over the alternatives that are known: at most what it really is."""
    return -sum(math.exp(logprob) * logprob for logprob in logprobs if logprob > -math.inf)
