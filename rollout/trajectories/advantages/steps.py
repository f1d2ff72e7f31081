"""Advantages along a trajectory: GiGPO's step groups, and generalised advantage estimation over turns.

Rows are steps here: `Rows(groups, trajectories=…)`, with a trajectory's steps in order. A trajectory in which a reward
is missing is left out as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from rollout.trajectories.advantages.groups import EPS, Ddof, grpo
from rollout.trajectories.advantages.rows import Advantages, Bools, Floats, Ints, Rows, sum_by

Norm = Literal["mean_norm", "mean_std_norm"]


def discounted_returns(rewards: npt.ArrayLike, rows: Rows, *, gamma: float = 0.95) -> Floats:
    """For each step its reward and those after it, each counting `gamma` times what the one before it counts."""
    grid = _Grid(rows)
    given, _ = _whole(rows.numbers(rewards, "rewards"), rows)
    ahead = grid.filled(given)
    for step in range(ahead.shape[1] - 2, -1, -1):
        ahead[:, step] += gamma * ahead[:, step + 1]
    return np.where(np.isnan(given), np.nan, grid.flat(ahead))


def gigpo(
    rewards: npt.ArrayLike,
    rows: Rows,
    anchors: Sequence[str | None],
    *,
    weight: float = 1.0,
    gamma: float = 0.95,
    norm: Norm = "mean_norm",
    ddof: Ddof = 1,
    eps: float = EPS,
    across_steps: bool = False,
) -> Advantages:
    """GiGPO: the episode's advantage in its group, plus `weight` times the step's among steps from the same state.

    `rewards` has one for each step (an outcome stands on the last one); the episode's is their sum. `anchors` name the
    state that each step started from: steps of a group with the same one are compared by their discounted returns. A
    step without an anchor, or alone with it, has no part of its own. `norm` says whether both parts are divided by the
    standard deviation. `across_steps` takes the episode's statistics over steps, as the published code does: then long
    episodes count for more; by default each counts once.
    """
    scale: Literal["std", "none"] = "none" if norm == "mean_norm" else "std"
    given, missing = _whole(rows.numbers(rewards, "rewards"), rows)
    counted = np.flatnonzero(~missing)
    totals = np.where(missing, np.nan, rows.spread(sum_by(rows.trajectory[counted], given[counted], len(rows.first))))
    episode = grpo(totals, rows.steps() if across_steps else rows, scale=scale, ddof=ddof, eps=eps)
    known = np.array([anchor is not None for anchor in anchors], dtype=np.bool_)
    names = np.array(["" if anchor is None else anchor for anchor in anchors], dtype=np.str_)
    returns = np.where(known, discounted_returns(given, rows, gamma=gamma), np.nan)
    step = grpo(returns, rows.steps().split(names), scale=scale, ddof=ddof, eps=eps)
    return Advantages(episode.values + weight * step.zeroed())


def turn_gae(
    rewards: npt.ArrayLike,
    values: npt.ArrayLike,
    rows: Rows,
    *,
    gamma: float = 0.99,
    lam: float = 0.9,
    after: npt.ArrayLike | None = None,
) -> tuple[Advantages, Floats]:
    """GAE with a turn as the step: the advantages, and what a critic should have said (advantage plus value).

    `values` is the critic's of the state before each turn. `after`, read at each trajectory's last turn, is its value
    of the state that followed, for trajectories that were truncated; by default 0, they had ended.
    """
    grid = _Grid(rows)
    given, lost = _whole(rows.numbers(rewards, "rewards"), rows)
    said, silent = _whole(rows.numbers(values, "values"), rows)
    following = rows.numbers(np.zeros(len(rows)) if after is None else after, "after")
    reward, value = grid.filled(given), grid.filled(said)
    coming = grid.last(following)
    carried = np.zeros_like(coming)
    ahead = np.zeros_like(reward)
    for step in range(reward.shape[1] - 1, -1, -1):
        # Beyond a trajectory's own end nothing may be carried into it.
        own = step < grid.lengths
        surprise = reward[:, step] + gamma * coming - value[:, step]
        carried = np.where(own, surprise + gamma * lam * carried, 0.0)
        coming = np.where(own, value[:, step], coming)
        ahead[:, step] = carried
    advantages = np.where(lost | silent | rows.is_padding, np.nan, grid.flat(ahead))
    return Advantages(advantages), advantages + said


class _Grid:
    """Rows of unequal trajectories as a matrix: one line for each trajectory, its steps from the left."""

    def __init__(self, rows: Rows) -> None:
        self._real: Ints = np.flatnonzero(~rows.is_padding)
        self._line = rows.trajectory[self._real]
        self.lengths: Ints = np.bincount(self._line, minlength=len(rows.first))
        order = np.argsort(self._line, kind="stable")
        starts = np.cumsum(self.lengths) - self.lengths
        self._step = np.empty_like(order)
        self._step[order] = np.arange(len(order)) - starts[self._line[order]]
        self._count = len(rows)

    def filled(self, values: Floats) -> Floats:
        """The matrix, 0 where there is nothing."""
        matrix = np.zeros((len(self.lengths), int(self.lengths.max(initial=0))))
        matrix[self._line, self._step] = np.nan_to_num(values[self._real])
        return matrix

    def flat(self, matrix: Floats) -> Floats:
        """The rows again; nan for padding."""
        values = np.full(self._count, np.nan)
        values[self._real] = matrix[self._line, self._step]
        return values

    def last(self, values: Floats) -> Floats:
        """The number at each trajectory's last step."""
        found = np.zeros(len(self.lengths))
        is_last = self._step == self.lengths[self._line] - 1
        found[self._line[is_last]] = np.nan_to_num(values[self._real[is_last]])
        return found


def _whole(values: Floats, rows: Rows) -> tuple[Floats, Bools]:
    """The numbers with every trajectory that misses one gone, and which rows that makes; padding is among them."""
    real = ~rows.is_padding
    misses = np.zeros(len(rows.first) + 1, dtype=np.bool_)
    np.logical_or.at(misses, rows.trajectory[real], np.isnan(values[real]))
    gone = misses[rows.trajectory] | rows.is_padding
    return np.where(gone, np.nan, values), gone
