"""What one model call gave: the message, and everything a trainer or an auditor asks about it later."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import msgspec

from rollout.messages import Message

FIRST_TOKENS = 20
"""How many tokens of a generation count as its beginning."""
FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "abort", "unknown"]


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


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Token-exact record of one generation, where the server gives ids."""

    prompt_ids: tuple[int, ...] = ()
    completion_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    """Of the sampled tokens, also where the server gives them without ids."""
    entropies: tuple[float, ...] = ()
    """Of the first tokens, in nats, over the alternatives that the server gave (`top_logprobs`)."""


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

    @property
    def is_exact(self) -> bool:
        """Whether the tokens are the ones the model was given and sampled, not a later re-encoding."""
        return self.tokens is not None and bool(self.tokens.prompt_ids) and bool(self.tokens.completion_ids)

    @property
    def surprisal(self) -> float | None:
        """The mean of −log p over the sampled tokens; None without logprobs."""
        logprobs = self.tokens.logprobs if self.tokens is not None else ()
        return -sum(logprobs) / len(logprobs) if logprobs else None

    @property
    def first_entropy(self) -> float | None:
        """How unsure the model was at the beginning: the mean entropy of the first tokens, or their mean surprisal
        where nothing is known of the alternatives; None without logprobs."""
        if self.tokens is None:
            return None
        known = self.tokens.entropies or [-logprob for logprob in self.tokens.logprobs[:FIRST_TOKENS]]
        return sum(known) / len(known) if known else None


def entropy_of(logprobs: Iterable[float]) -> float:
    """The entropy of a token, in nats, over the alternatives that are known: at most what it really is."""
    return -sum(math.exp(logprob) * logprob for logprob in logprobs if logprob > -math.inf)
