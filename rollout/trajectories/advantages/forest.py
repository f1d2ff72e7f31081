"""Trees as arrays: for each node its parent, for each leaf the node where it ended. Many trees stand side by side.

Nodes are what an advantage can be given to: the steps that a model sampled, and above them one root for each tree, for
the task itself. A node that many leaves share is there once. Values go up from the leaves, one level of all trees at a
time.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from rollout.trajectories.advantages.rows import Bools, Floats, Ints, sum_by


class Forest:
    """`parents`: the parent of each node, -1 for a root; parents come before their children. `leaves`: the node where
    each leaf ended. Several leaves may end in one node, and a leaf in a node that others go on from."""

    def __init__(self, parents: npt.ArrayLike, leaves: npt.ArrayLike) -> None:
        self.parents: Ints = np.asarray(parents, dtype=np.intp)
        self.leaves: Ints = np.asarray(leaves, dtype=np.intp)
        count = len(self.parents)
        late = self.parents >= np.arange(count)
        if late.any() or (self.parents < -1).any():
            node = int((late | (self.parents < -1)).argmax())
            raise ValueError(
                f"parents: node {node} has the parent {self.parents[node]}; expected an earlier node or -1"
            )
        if self.leaves.size and not (self.leaves.min() >= 0 and self.leaves.max() < count):
            raise ValueError(
                f"leaves: expected nodes from 0 to {count - 1}, got {self.leaves.min()} to {self.leaves.max()}"
            )

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def is_root(self) -> Bools:
        return self.parents < 0

    @functools.cached_property
    def roots(self) -> Ints:
        """The root of each node's tree."""
        return self._climbed[0]

    @functools.cached_property
    def levels(self) -> list[Ints]:
        """The nodes below the roots by their depth, the deepest first."""
        depth = self._climbed[1]
        order = np.argsort(depth, kind="stable")
        cuts = np.searchsorted(depth[order], np.arange(1, depth.max(initial=0) + 1))
        return np.split(order, cuts)[:0:-1] if len(order) else []

    @functools.cached_property
    def _climbed(self) -> tuple[Ints, Ints]:
        roots, depth = np.arange(len(self), dtype=np.intp), np.zeros(len(self), dtype=np.intp)
        climbing = np.flatnonzero(self.parents >= 0)
        while climbing.size:
            roots[climbing] = self.parents[roots[climbing]]
            depth[climbing] += 1
            climbing = climbing[self.parents[roots[climbing]] >= 0]
        return roots, depth

    def sum_leaves(self, values: Floats) -> Floats:
        """For each node the sum over the leaves at it and below it."""
        total = sum_by(self.leaves, values, len(self))
        for level in self.levels:
            np.add.at(total, self.parents[level], total[level])
        return total

    def count_leaves(self, counts: Bools) -> Floats:
        """For each node how many of the leaves at it and below it count."""
        return self.sum_leaves(counts.astype(np.float64))

    def weights(self, counts: Bools) -> Floats:
        """For each node the share of its tree's leaves that are at it or below it.

        A loss over each shared node once, with this weight, is the mean of the losses over whole leaves.
        """
        below = self.count_leaves(counts)
        with np.errstate(invalid="ignore"):
            return np.where(below > 0, below / below[self.roots], 0.0)
