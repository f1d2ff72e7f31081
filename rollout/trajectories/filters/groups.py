"""Filters over groups: the attempts at one task, by what they were worth.

Nothing is known of a group with too few attempts that have a reward, so nothing is said of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Protocol

import msgspec

from rollout.trajectories.filters.marks import Found

CONSTANT = 1e-3
"""A group whose rewards deviate no more than this is constant (SimpleTIR)."""


class GroupFilter(Protocol):
    """A filter that takes or leaves whole groups."""

    @property
    def reward(self) -> str:
        """The rule by which an attempt is worth something: see `rollout.trajectories.rewards`."""
        ...

    def judge(self, rewards: Sequence[float]) -> Found | None:
        """What is wrong with a group whose attempts are worth this, if anything."""
        ...


class ConstantGroups(msgspec.Struct, frozen=True):
    """Groups in which all attempts are worth the same: nothing tells them apart (DAPO)."""

    reward: str
    min_attempts: int

    def judge(self, rewards: Sequence[float]) -> Found | None:
        if len(rewards) < self.min_attempts or statistics.pstdev(rewards) > CONSTANT:
            return None
        return Found("its group is constant", f"{len(rewards)} attempts, all worth {rewards[0]:g}")


class AccuracyBand(msgspec.Struct, frozen=True):
    """Groups that are too hard or too easy (SimpleTIR)."""

    low: float
    high: float
    reward: str
    min_attempts: int

    def judge(self, rewards: Sequence[float]) -> Found | None:
        if len(rewards) < self.min_attempts:
            return None
        mean = statistics.fmean(rewards)
        if self.low <= mean <= self.high:
            return None
        side = "below" if mean < self.low else "above"
        bound = self.low if mean < self.low else self.high
        return Found(f"its group's mean is {side} {bound:g}", f"{mean:.3g} over {len(rewards)} attempts")
