"""Random expansion (Tree-GRPO): some whole chains, then rounds of new attempts from nodes chosen by chance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from pydantic import Field

from rollout.core import seeds
from rollout.strategies.points import branch_points, leaves_by_chain
from rollout.strategies.shipped import ShippedStrategy, first_chains
from rollout.strategies.strategy import Expansion
from rollout.trajectories.tree import RolloutTree


class RandomTree(ShippedStrategy):
    """`trees` chains; in each of `rounds` rounds, `expansions` attempts for each of them, from nodes of that chain and
    what grew from it, drawn uniformly with replacement. The trunk is one of the nodes."""

    grows_by: ClassVar[str] = "rounds"
    trees: int = Field(2, ge=1)
    """Whole chains at the beginning (M)."""
    expansions: int = Field(2, ge=1)
    """New attempts for each of them in a round (N)."""
    rounds: int = Field(1, ge=0)
    """Rounds (L)."""

    @property
    def most(self) -> int:
        return self.trees * (1 + self.expansions * self.rounds)

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        launched = len(tree.leaves)
        if launched < self.trees:
            return first_chains(tree, self.trees)
        # Whose turn it is follows from the count alone, so that a round that was not granted whole goes on.
        done, turn = divmod(launched - self.trees, self.trees * self.expansions)
        if done >= self.rounds:
            return []
        chance = seeds.stream(tree.seed, "random_tree", launched)
        points = [branch_points(tree, leaves) for leaves in leaves_by_chain(tree, self.trees)]
        turns = range(turn, self.trees * self.expansions)
        return [Expansion(chance.choice(points[at // self.expansions]), 1, "random") for at in turns]
