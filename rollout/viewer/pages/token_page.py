"""The tokens of an attempt, step by step: what each prompt added, and what was sampled."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rollout.trajectories.filters.marks import Filtered
from rollout.trajectories.generation import Generation
from rollout.viewer.answers.pages import StepTokens, Token, TokenStep
from rollout.viewer.pages.trajectory_page import ReadTrajectory

NO_TOKENS = "The model's server gave no token ids."
NO_TEXT = "Only ids are on record; their texts need the model's tokenizer."


def read_tokens(read: ReadTrajectory, filtered: Filtered | None) -> StepTokens:
    """The tokens of an attempt."""
    masked = set(filtered.masked_messages) if filtered is not None else set()
    end = filtered.end if filtered is not None else None
    if filtered is not None and filtered.verdict == "drop":
        # A record of one that is dropped names no messages.
        end = 0
    steps = [
        TokenStep(
            message=index,
            weight_version=generation.weight_version,
            is_exact=generation.is_exact,
            shared=generation.tokens.shared,
            drift=generation.tokens.drift,
            tokens=tuple(_tokens(generation, is_masked=index in masked or (end is not None and index >= end))),
        )
        for index, generation in sorted(read.trajectory.generated.items())
        if generation.tokens is not None
    ]
    return StepTokens(tuple(steps), NO_TEXT if steps else NO_TOKENS)


def _tokens(generation: Generation, *, is_masked: bool) -> Iterator[Token]:
    tokens = generation.tokens
    assert tokens is not None
    for number in tokens.new_ids:
        yield Token(text=None, id=number, kind="prompt", logprob=None)
    logprobs = tokens.logprobs
    known = len(logprobs) == len(tokens.completion_ids)
    for place, number in enumerate(tokens.completion_ids):
        logprob = logprobs[place] if known else None
        if logprob is not None and not math.isfinite(logprob):
            logprob = None
        yield Token(text=None, id=number, kind="masked" if is_masked else "sampled", logprob=logprob)
