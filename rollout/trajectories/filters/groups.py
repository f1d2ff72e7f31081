"""Filters over groups: the attempts at one task, by what they were worth.

Nothing is known of a group with too few attempts that have a reward, so nothing is said of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pydantic import Field

from rollout.trajectories.filters.filter import GroupFilter
from rollout.trajectories.filters.marks import Found

CONSTANT = 1e-3
"""A group whose rewards deviate no more than this is constant (SimpleTIR)."""


class ConstantGroups(GroupFilter):
    """Groups whose attempts all have the same reward (DAPO)."""

    min_attempts: int = Field(2, ge=2)
    """Groups with fewer attempts that have a reward are left alone."""

    def judge(self, rewards: Sequence[float]) -> Found | None:
        if len(rewards) < self.min_attempts or statistics.pstdev(rewards) > CONSTANT:
            return None
        return Found("its group is constant", f"{len(rewards)} attempts, all worth {rewards[0]:g}")


class AccuracyBand(GroupFilter):
    """Groups that are too hard or too easy (SimpleTIR)."""

    low: float = 0.1
    """The least mean reward."""
    high: float = 0.9
    """The highest mean reward."""
    min_attempts: int = Field(4, ge=1)
    """Groups with fewer attempts that have a reward are left alone."""

    def judge(self, rewards: Sequence[float]) -> Found | None:
        if len(rewards) < self.min_attempts:
            return None
        mean = statistics.fmean(rewards)
        if self.low <= mean <= self.high:
            return None
        side = "below" if mean < self.low else "above"
        bound = self.low if mean < self.low else self.high
        return Found(f"its group's mean is {side} {bound:g}", f"{mean:.3g} over {len(rewards)} attempts")
