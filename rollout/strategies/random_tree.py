"""Random expansion (Tree-GRPO): some whole chains, then rounds of new attempts from nodes chosen by chance."""

from __future__ import annotations

from collections.abc import Iterable

from rollout import seeds
from rollout.strategies.points import branch_points
from rollout.strategies.strategy import Expansion
from rollout.trajectories.tree import RolloutTree


class RandomTree:
    """`trees` chains; in each of `rounds` rounds, `expansions` attempts for each of them, from nodes of that chain and
    what grew from it, drawn uniformly with replacement. The trunk is one of the nodes."""

    has_rounds = True
    branches = True

    def __init__(self, trees: int = 2, expansions: int = 2, rounds: int = 1) -> None:
        self.trees = trees
        self.expansions = expansions
        self.rounds = rounds

    @property
    def most(self) -> int:
        return self.trees * (1 + self.expansions * self.rounds)

    def begin(self, tree: RolloutTree) -> Iterable[Expansion]:
        return [Expansion(tree.trunk, self.trees, "init")]

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        done, rest = divmod(len(tree.leaves) - self.trees, self.trees * self.expansions)
        if done >= self.rounds or rest:
            return []
        chance = seeds.stream(tree.seed, "random_tree", done)
        expansions = []
        for number in range(self.trees):
            points = branch_points(tree, number)
            expansions += [Expansion(chance.choice(points), 1, "random") for _ in range(self.expansions)]
        return expansions
