"""n independent chains for each task: a tree that branches only at its root."""

from __future__ import annotations

from collections.abc import Iterable

from rollout.strategies.strategy import Expansion
from rollout.trajectories.tree import RolloutTree


class Chain:
    """`samples` attempts at each task, none of which knows of the others."""

    has_rounds = False
    branches = False

    def __init__(self, samples: int = 1) -> None:
        self.most = samples

    def begin(self, tree: RolloutTree) -> Iterable[Expansion]:
        return [Expansion(tree.trunk, self.most, "init")]

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        return []
