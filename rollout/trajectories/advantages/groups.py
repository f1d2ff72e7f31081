"""Advantages within groups: how much better a trajectory did than the others at the same task.

A group of one says nothing about its trajectory, and neither does one whose rewards are all equal: the advantage is
exactly 0, never the bare reward and never rounding noise divided by nearly nothing.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import numpy.typing as npt

from rollout.trajectories.advantages.rows import Advantages, Bools, Floats, Ints, Rows, sum_by

EPS = 1e-6
"""What is added to a standard deviation, in all published codes."""

Scale = Literal["std", "none"]
Ddof = Literal[0, 1]
"""What is taken off the count where a standard deviation divides by it."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GroupStatistics:
    """What is known of each group, by its number in `Rows.group`."""

    count: Ints
    """Trajectories with a reward."""
    mean: Floats
    """nan where there is none."""
    std: Floats
    """nan where there are too few for it."""
    low: Floats
    high: Floats

    @property
    def is_constant(self) -> Bools:
        """Whether it can teach nothing: equal rewards, a single one, or none."""
        is_constant: Bools = (self.count == 0) | (self.low == self.high)
        return is_constant


def group_statistics(rewards: npt.ArrayLike, rows: Rows, *, ddof: int = 1) -> GroupStatistics:
    """The statistics of each group. The standard deviation divides by `count - ddof`."""
    return _statistics(rows.of_trajectories(rewards), rows, ddof)


def _statistics(rewards: Floats, rows: Rows, ddof: int) -> GroupStatistics:
    known = np.flatnonzero(~np.isnan(rewards))
    group, values = rows.group[rows.first][known], rewards[known]
    count = np.bincount(group, minlength=rows.groups)
    low, high = np.full(rows.groups, np.inf), np.full(rows.groups, -np.inf)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = sum_by(group, values, rows.groups) / count
        squares = sum_by(group, (values - mean[group]) ** 2, rows.groups)
        std = np.sqrt(np.where(count > ddof, squares / (count - ddof), np.nan))
    empty = count == 0
    return GroupStatistics(count, mean, std, np.where(empty, np.nan, low), np.where(empty, np.nan, high))


def grpo(rewards: npt.ArrayLike, rows: Rows, *, scale: Scale = "std", ddof: Ddof = 1, eps: float = EPS) -> Advantages:
    """GRPO: reward minus the group's mean, divided by its standard deviation plus `eps` (`scale="std"`) or by nothing.

    `ddof=1` is what torch's `std` and so verl, TRL and Tree-GRPO divide by; `ddof=0` is numpy's, in AT²PO.
    """
    own = rows.of_trajectories(rewards)
    statistics = _statistics(own, rows, ddof)
    group = rows.group[rows.first]
    centred = own - statistics.mean[group]
    if scale == "std":
        centred = centred / (statistics.std[group] + eps)
    return Advantages(rows.spread(_without_signal(centred, own, statistics, group)))


def rloo(rewards: npt.ArrayLike, rows: Rows) -> Advantages:
    """RLOO: reward minus the mean of the group's others."""
    own = rows.of_trajectories(rewards)
    statistics = _statistics(own, rows, 0)
    group = rows.group[rows.first]
    count = statistics.count[group]
    centred = (own - statistics.mean[group]) * (count / np.maximum(count - 1, 1))
    return Advantages(rows.spread(_without_signal(centred, own, statistics, group)))


def inter_intra(
    rewards: npt.ArrayLike,
    rows: Rows,
    chains: npt.ArrayLike,
    *,
    scale: Scale = "std",
    ddof: Ddof = 1,
    eps: float = EPS,
) -> Advantages:
    """Tree-GRPO: GRPO over all leaves of the task, plus GRPO over the leaves that grew from the same first chain.

    `rows` are leaves, grouped by task; `chains` says for each which chain it grew from. A chain that nothing grew from
    is alone in its second group, so where nothing branched this is GRPO.
    """
    inter = grpo(rewards, rows, scale=scale, ddof=ddof, eps=eps)
    intra = grpo(rewards, rows.split(chains), scale=scale, ddof=ddof, eps=eps)
    return Advantages(inter.values + intra.values)


def constant_rows(rewards: npt.ArrayLike, rows: Rows) -> Bools:
    """Which rows are of groups that can teach nothing (DAPO drops them): constant, single, or without any reward.

    Padding is among them.
    """
    return group_statistics(rewards, rows).is_constant[rows.group] | rows.is_padding


def _without_signal(values: Floats, rewards: Floats, statistics: GroupStatistics, group: Ints) -> Floats:
    return np.where(statistics.is_constant[group] & ~np.isnan(rewards), 0.0, values)
