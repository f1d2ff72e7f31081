"""The strategy `until_solved`: one attempt after the other, until one of them solves the task."""

from __future__ import annotations

from collections.abc import Iterable

from rollout.models.model import Capability
from rollout.strategies.strategy import Expansion
from rollout.trajectories.tree import RolloutTree


class UntilSolved:
    """Decides by the tree alone, so that a resumed run decides the same."""

    has_rounds = True
    branches = False
    needs: frozenset[Capability] = frozenset()

    def __init__(self, attempts: int = 4) -> None:
        self.most = attempts

    def begin(self, tree: RolloutTree) -> Iterable[Expansion]:
        return self.after(tree)

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        is_solved = any(leaf.head is not None and leaf.head.success for leaf in tree.leaves)
        return [] if is_solved or len(tree.leaves) >= self.most else [Expansion(tree.trunk, 1, "init")]
