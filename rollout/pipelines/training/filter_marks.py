"""The marks of `rollout filter` in the terms of training data: steps instead of messages."""

from __future__ import annotations

import msgspec

from rollout.trajectories.filters.marks import Filtered


class Marks(msgspec.Struct, frozen=True):
    """What is not to be learnt of one trajectory. The default: nothing was said."""

    refusal: str | None = None
    """Why it is left out as a whole; None where it is not."""
    masked: frozenset[int] = frozenset()
    """The steps whose answers are context only."""
    end: int | None = None
    """The first step that is cut off, with all after it."""
    counts_in_group: bool = True
    """Whether it is part of its group's statistics."""


def marks_of(record: Filtered) -> Marks:
    """The marks that follow from a record of `filters.jsonl`."""
    refusal = f"filter {', '.join(record.why)}" if record.verdict == "drop" else None
    end = None if record.end is None else sum(turn.message < record.end for turn in record.turns)
    return Marks(refusal, frozenset(record.masked), end, record.counts_in_group)
