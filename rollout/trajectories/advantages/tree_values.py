"""Advantages of single steps in trees: what became of the leaves below a node, against those around it.

A leaf without a reward counts nowhere. A node that has no other leaf below it has no value and no advantage (nan), and
neither has the root: it was not sampled.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from rollout.trajectories.advantages.forest import Forest
from rollout.trajectories.advantages.groups import EPS, Ddof, grpo, rloo
from rollout.trajectories.advantages.rows import Advantages, Bools, Floats, Rows, sum_by

NodeValue = Literal["child_softmax", "child_mean", "leaf_mean"]
Against = Literal["nothing", "parent", "root", "both"]


def leaf_mean(forest: Forest, rewards: npt.ArrayLike) -> Floats:
    """V(s): the mean over the leaves at a node and below it; nan where none of them has a reward."""
    own = _of_leaves(forest, rewards)
    known = ~np.isnan(own)
    with np.errstate(invalid="ignore"):
        return forest.sum_leaves(np.where(known, own, 0.0)) / forest.count_leaves(known)


def child_value(forest: Forest, rewards: npt.ArrayLike, entropies: npt.ArrayLike | None = None) -> Floats:
    """A node's value from its children's: their mean, or their sum weighted by the softmax of their entropies.

    So a child counts as much as its sibling, however many leaves each has. A leaf that ends in a node from which others
    go on counts there as one more child, with that node's entropy. Children without a value are left out.
    """
    own = _of_leaves(forest, rewards)
    known = ~np.isnan(own)
    ends = forest.leaves[known]
    counts = forest.count_leaves(known) > 0
    heat = _heat(forest, counts, entropies)
    # The softmax is taken over differences from the hottest, so that no exponential overflows.
    hottest = np.full(len(forest), -np.inf)
    below = counts & ~forest.is_root
    np.maximum.at(hottest, forest.parents[below], heat[below])
    np.maximum.at(hottest, ends, heat[ends])
    here = np.exp(heat[ends] - hottest[ends])
    total = sum_by(ends, here * own[known], len(forest))
    weight = sum_by(ends, here, len(forest))
    with np.errstate(invalid="ignore"):
        for level in forest.levels:
            level = level[weight[level] > 0]
            above = forest.parents[level]
            share = np.exp(heat[level] - hottest[above])
            np.add.at(total, above, share * total[level] / weight[level])
            np.add.at(weight, above, share)
        return total / np.where(weight > 0, weight, np.nan)


def tree_rl(forest: Forest, rewards: npt.ArrayLike, *, by_leaves: bool = True) -> Advantages:
    """TreeRL: [V(s) − V(root)] + [V(s) − V(parent)], divided by the root of the number of leaves below s.

    V is the mean over the leaves below, each of which counts as its reward minus the mean of the tree's others.
    `by_leaves=False` leaves the division out: for losses that take each shared node once.
    """
    own = _of_leaves(forest, rewards)
    centred = rloo(own, _trees(forest)).values
    advantages = _against(forest, leaf_mean(forest, centred), "both")
    if by_leaves:
        with np.errstate(divide="ignore", invalid="ignore"):
            advantages = advantages / np.sqrt(forest.count_leaves(~np.isnan(own)))
    return Advantages(advantages)


def at2po(
    forest: Forest,
    rewards: npt.ArrayLike,
    entropies: npt.ArrayLike | None = None,
    *,
    value: NodeValue = "child_softmax",
    against: Against = "nothing",
    normalise: bool = True,
    ddof: Ddof = 0,
    eps: float = EPS,
) -> Advantages:
    """AT²PO: leaf rewards, centred and scaled within their tree, carried up to each node by `value`; the advantage is
    that value `against` nothing, the parent's (diff_parent), the root's (diff_global), or the sum of both differences.

    `entropies`, one for each node, are the mean surprisal of a step's sampled tokens; only `child_softmax` needs them.
    """
    own = _of_leaves(forest, rewards)
    if normalise:
        own = grpo(own, _trees(forest), ddof=ddof, eps=eps).values
    if value == "leaf_mean":
        values = leaf_mean(forest, own)
    else:
        if value == "child_softmax" and entropies is None:
            raise ValueError("child_softmax needs entropies; without logprobs use value='child_mean' or 'leaf_mean'")
        values = child_value(forest, own, entropies if value == "child_softmax" else None)
    return Advantages(_against(forest, values, against))


def _against(forest: Forest, values: Floats, against: Against) -> Floats:
    from_parent = values - values[forest.parents]
    from_root = values - values[forest.roots]
    chosen = {"nothing": values, "parent": from_parent, "root": from_root, "both": from_root + from_parent}[against]
    return np.where(forest.is_root, np.nan, chosen)


def _trees(forest: Forest) -> Rows:
    """The leaves, each tree a group."""
    return Rows(forest.roots[forest.leaves])


def _of_leaves(forest: Forest, rewards: npt.ArrayLike) -> Floats:
    return _trees(forest).numbers(rewards, "rewards")


def _heat(forest: Forest, counts: Bools, entropies: npt.ArrayLike | None) -> Floats:
    """What the softmax is taken of, 0 at roots. Every node that counts must have it."""
    if entropies is None:
        return np.zeros(len(forest))
    heat = np.array(entropies, dtype=np.float64)
    if heat.shape != (len(forest),):
        raise ValueError(f"entropies: expected {len(forest)}, one for each node, got an array of shape {heat.shape}")
    heat[forest.is_root] = 0.0
    missing = np.flatnonzero(counts & ~np.isfinite(heat))
    if missing.size:
        raise ValueError(
            f"entropies: {missing.size} nodes have none, the first is {missing[0]}; ask for logprobs, or use "
            "value='child_mean' or 'leaf_mean'"
        )
    return np.where(np.isfinite(heat), heat, 0.0)
