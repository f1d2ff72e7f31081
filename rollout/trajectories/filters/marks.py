"""Marks, and the verdict that follows from all marks of a trajectory.

A mark says which filter found what, where, and what the filter's policy asks for. The verdict is the same whatever the
order of the marks:

- one `drop_trajectory` drops it;
- otherwise the first turn with `truncate_before` ends it: that turn and all after it are not learnt;
- turns with `mask_turn` are context for the others and are not learnt themselves;
- where nothing is left to learn, it is dropped after all;
- `keep` changes nothing and is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from rollout.trajectories.filters.turns import Turn

Policy = Literal["drop_trajectory", "mask_turn", "truncate_before", "keep"]
Verdict = Literal["drop", "truncate", "mask", "keep"]
VERDICTS: tuple[Verdict, ...] = ("drop", "truncate", "mask", "keep")


class Found(msgspec.Struct, frozen=True):
    """What a filter found. Without a turn it is said of the whole trajectory."""

    reason: str
    evidence: str = ""
    turn: int | None = None


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was found, by whom, and what is to be done about it."""

    filter: str
    policy: Policy
    reason: str
    evidence: str = ""
    turn: int | None = None


class Settled(msgspec.Struct, frozen=True):
    """What becomes of a trajectory."""

    verdict: Verdict = "keep"
    why: tuple[str, ...] = ()
    """The filters that decided it, by name."""
    masked: tuple[int, ...] = ()
    """Turns that are context only, of those that are left."""
    end: int | None = None
    """Set where it is truncated: only the messages before this place are left."""


class Filtered(msgspec.Struct, frozen=True):
    """One line of `filters.jsonl`."""

    id: str
    dataset: str
    group: str
    status: str
    """What the trajectory's own record says; a filter never changes it."""
    verdict: Verdict
    why: tuple[str, ...]
    masked: tuple[int, ...]
    """Numbers of turns."""
    masked_messages: tuple[int, ...]
    """The same turns by their places in the messages."""
    end: int | None
    counts_in_group: bool
    """Whether it is part of its group's statistics (mean reward, accuracy)."""
    marks: tuple[Mark, ...]
    turns: tuple[Turn, ...]
    digest: str
    """Of its messages: a record is only about the trajectory that it was made of."""


def settle(marks: Sequence[Mark], turns: Sequence[Turn]) -> Settled:
    """The verdict."""
    dropping = [mark for mark in marks if mark.policy == "drop_trajectory"]
    if dropping:
        return Settled("drop", _names(dropping))
    cutting = [mark for mark in marks if mark.policy == "truncate_before"]
    masking = [mark for mark in marks if mark.policy == "mask_turn"]
    taking = cutting + masking
    if not taking:
        return Settled()
    # What is said of the whole leaves nothing that could be kept beside it.
    cut = min((-1 if mark.turn is None else mark.turn for mark in cutting), default=len(turns))
    left = set(range(max(cut, 0)))
    masked = left & {mark.turn for mark in masking if mark.turn is not None}
    if left == masked or any(mark.turn is None for mark in taking):
        return Settled("drop", _names(taking))
    if cutting:
        decided = [mark for mark in taking if mark.turn == cut or mark.turn in masked]
        return Settled("truncate", _names(decided), tuple(sorted(masked)), turns[cut].message)
    return Settled("mask", _names(masking), tuple(sorted(masked)))


def _names(marks: Sequence[Mark]) -> tuple[str, ...]:
    return tuple(sorted({mark.filter for mark in marks}))
