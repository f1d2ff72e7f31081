"""A path as a trainer eats it: token ids, what kind each of them is, and the logprobs of those that were sampled.

A path is one segment as long as every prompt begins with all that came before it. Where a prompt drifts a new segment
begins: it repeats the ids up to the drift and goes on as that prompt does. Each token that was sampled is `SAMPLED` in
exactly one segment, the one in which it was sampled; where a later one repeats it, it is `ASSISTANT` there.

Ids alone tell what was sampled and what was not. What the rest is (an observation, a user's words, the template's own
marks) takes a tokenizer and a chat template: a `Labels` such as `rollout.models.chat_template.ChatTemplate`. Without
one, and wherever it cannot tell, tokens are `CONTEXT`.
"""

from __future__ import annotations

import enum
import math
from array import array
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from rollout.core.messages import Message
from rollout.trajectories.generation import DriftCause
from rollout.trajectories.tree import NodeBody


class TokenKind(enum.IntEnum):
    """What a token is. Only `SAMPLED` was chosen by the model."""

    CONTEXT = 0
    """Not sampled; more is not known."""
    SAMPLED = 1
    GLUE = 2
    """Written by the chat template: marks of roles and turns, the tools that it lists."""
    OBSERVATION = 3
    """A tool's result, or what a world shows."""
    USER = 4
    SYSTEM = 5
    ASSISTANT = 6
    """An assistant's words that were not sampled here: of a task's opening, or repeated after a drift."""


class Labels(Protocol):
    """Tells the tokens of a context apart."""

    def label(self, ids: Sequence[int], messages: Sequence[tuple[TokenKind, Message]], *, is_first: bool) -> bytes:
        """A kind for each of the ids, which are how `messages` were given to the model: at the beginning of a
        conversation, or behind an answer. `CONTEXT` for all of them where that is unknown."""
        ...


class SampledSpan(msgspec.Struct, frozen=True):
    """Where a generation's completion lies in its segment."""

    generation: int
    """Its number on the path, from 0."""
    start: int
    end: int
    has_logprobs: bool = True
    finish_reason: str = "stop"
    weight_version: str | None = None


class Segment(msgspec.Struct):
    """A part of a path within which every prompt begins with all that came before it."""

    ids: array[int]
    kinds: bytearray
    """A `TokenKind` for each id."""
    logprobs: array[float]
    """For each id; NaN where there is none, that is for all that was not sampled."""
    spans: list[SampledSpan]
    """The completions that were sampled in it."""
    repeated: int = 0
    """The number of ids at the beginning that were part of the segment before."""
    cause: DriftCause | None = None
    """Why it begins; None for the first."""

    @property
    def loss_mask(self) -> list[int]:
        """1 for what was sampled here, 0 for all else."""
        return [int(kind == TokenKind.SAMPLED) for kind in self.kinds]

    def per_token(self, values: Sequence[float]) -> list[float]:
        """A value for each id, out of one for each answer of the path, such as its advantage: that of the answer in
        which the id was sampled, 0 for all else."""
        found = [0.0] * len(self.ids)
        for span in self.spans:
            found[span.start : span.end] = [values[span.generation]] * (span.end - span.start)
        return found


class TokenView(msgspec.Struct):
    """The segments of a path. `is_exact`: every generation came with its ids; otherwise some are missing."""

    segments: list[Segment]
    is_exact: bool


_KINDS: dict[str, TokenKind] = {
    "tool": TokenKind.OBSERVATION,
    "observation": TokenKind.OBSERVATION,
    "user": TokenKind.USER,
    "note": TokenKind.USER,
    "generation": TokenKind.ASSISTANT,
}
_OF_ROLES: dict[str, TokenKind] = {
    "system": TokenKind.SYSTEM,
    "user": TokenKind.USER,
    "assistant": TokenKind.ASSISTANT,
    "tool": TokenKind.OBSERVATION,
}


def view_tokens(bodies: Iterable[NodeBody], labels: Labels | None = None, system: str | None = None) -> TokenView:
    """The tokens of a path, from its opening to its leaf (`Node.path`, `JournalReader.whole_path`). `system` is the
    system prompt as it was sent, which no node holds; only labels need it."""
    segments: list[Segment] = []
    said: list[tuple[TokenKind, Message]] = []
    if system is not None:
        said.append((TokenKind.SYSTEM, Message(role="system", content=system)))
    waiting = 0
    """Where in `said` the messages begin that no prompt has held yet."""
    is_exact, number = True, 0
    for body in bodies:
        message = body.said
        generation = body.generation
        if body.kind != "generation" or generation is None or generation.is_scripted:
            if message is not None:
                said.append((_KINDS.get(body.kind, _OF_ROLES[message.role]), message))
            number += body.kind == "generation"
            continue
        is_exact = is_exact and generation.is_exact
        tokens = generation.tokens
        if tokens is not None and tokens.prompt_length:
            new = tokens.new_ids
            if not segments or tokens.drift is not None:
                segments.append(_begin(segments, tokens.shared, tokens.drift))
            segment = segments[-1]
            # Behind a drift the prompt repeats earlier messages from somewhere within them: they cannot be
            # distinguished.
            knows = labels is not None and tokens.drift is None
            kinds = labels.label(new, said[waiting:], is_first=not segment.ids) if labels and knows else bytes(len(new))
            _extend(segment, new, kinds, array("f", [math.nan]) * len(new))
            sampled, logprobs = tokens.completion_ids, tokens.logprobs
            start, has_logprobs = len(segment.ids), len(logprobs) == len(sampled)
            if not has_logprobs:
                logprobs = array("f", [math.nan]) * len(sampled)
            _extend(segment, sampled, bytes([TokenKind.SAMPLED]) * len(sampled), logprobs)
            segment.spans.append(
                SampledSpan(
                    number,
                    start,
                    len(segment.ids),
                    has_logprobs,
                    generation.finish_reason,
                    generation.weight_version,
                )
            )
        if message is not None:
            said.append((TokenKind.ASSISTANT, message))
        if tokens is not None and tokens.prompt_length:
            waiting = len(said)
        number += 1
    return TokenView(segments, is_exact and bool(segments))


def _begin(segments: list[Segment], shared: int, cause: DriftCause | None) -> Segment:
    if not segments:
        return Segment(array("I"), bytearray(), array("f"), [])
    before = segments[-1]
    sampled, assistant = bytes([TokenKind.SAMPLED]), bytes([TokenKind.ASSISTANT])
    kinds = before.kinds[:shared].replace(sampled, assistant)
    return Segment(before.ids[:shared], kinds, array("f", [math.nan]) * shared, [], shared, cause)


def _extend(segment: Segment, ids: array[int], kinds: bytes, logprobs: array[float]) -> None:
    assert len(ids) == len(kinds) == len(logprobs)
    segment.ids += ids
    segment.kinds += kinds
    segment.logprobs += logprobs
