"""A row of token ids: what the model was given and sampled, with masks, logprobs and advantages.

Only ids that the model sampled can have a loss. Everything else in a row (prompts, observations, the user's words, what
a chat template puts in between) has the mask 0, the logprob 0 and the advantage 0.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import msgspec

from rollout.trajectories.rows.exchange import Exchange, Ids, StepKey
from rollout.trajectories.rows.stretches import Stretch

NOT_LEARNT = -100
"""The label that PyTorch's losses pass over."""


class TokenSpan(msgspec.Struct, frozen=True):
    """A part of a row: what a step sampled, or context."""

    length: int
    key: StepKey | None = None
    """The step that sampled it; None for context."""
    is_learnt: bool = False
    given: tuple[StepKey, int] | None = None
    """The step whose first tokens it begins with, and how many they are."""


class TokenRow(msgspec.Struct, frozen=True):
    """One row."""

    trajectory: str
    ids: array[int]
    spans: tuple[TokenSpan, ...]
    """They cover the row from its first id to its last."""
    logprobs: array[float] | None = None
    """Of all ids, 0 where nothing was sampled; None where some sampled id has none on record."""
    advantages: array[float] | None = None
    is_exact: bool = True

    @property
    def loss_mask(self) -> list[int]:
        mask: list[int] = []
        for span in self.spans:
            mask += [int(span.is_learnt)] * span.length
        return mask

    @property
    def labels(self) -> list[int]:
        """The ids themselves where there is a loss, else what losses pass over."""
        labels: list[int] = []
        for span in self.spans:
            begin = len(labels)
            labels += self.ids[begin : begin + span.length] if span.is_learnt else [NOT_LEARNT] * span.length
        return labels

    @property
    def prompt_length(self) -> int:
        """How many ids stand before the first one that was sampled."""
        length = 0
        for span in self.spans:
            if span.key is not None:
                break
            length += span.length
        return length


def token_row(trajectory: str, stretch: Stretch, advantages: Sequence[float] | None = None) -> TokenRow:
    """The row of a stretch whose exchanges all have ids, each going on behind the one before it. `advantages`: one for
    each of its exchanges."""
    exchanges = stretch.exchanges
    known = [_known(exchange) for exchange in exchanges]
    spans: list[TokenSpan] = []
    ids = known[-1].prompt + known[-1].completion
    scores = array("d", bytes(8 * len(ids)))
    shares = array("d", bytes(8 * len(ids)))
    has_scores, end = True, 0
    for place, (exchange, own) in enumerate(zip(exchanges, known, strict=True)):
        begin = len(own.prompt)
        if begin > end:
            spans.append(TokenSpan(begin - end))
        end = begin + len(own.completion)
        spans.append(TokenSpan(end - begin, exchange.key, exchange.is_learnt, exchange.given))
        if own.logprobs is None:
            has_scores = False
        else:
            scores[begin:end] = array("d", own.logprobs)
        if advantages is not None and exchange.is_learnt:
            shares[begin:end] = array("d", [advantages[place]]) * (end - begin)
    return TokenRow(
        trajectory,
        ids,
        tuple(spans),
        scores if has_scores else None,
        None if advantages is None else shares,
        all(own.is_exact for own in known),
    )


def _known(exchange: Exchange) -> Ids:
    if exchange.ids is None:
        raise ValueError(f"step {exchange.key} has no token ids; expected a stretch in which all have")
    return exchange.ids
