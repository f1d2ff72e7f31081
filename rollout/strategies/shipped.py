"""The base of the shipped strategies: a strategy *is* its parameters, and nothing else.

Frozen and checked like any other section of a configuration, so it cannot keep anything of a tree. It begins as it goes
on: what it wants follows from the leaves that are there, of which a new tree has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rollout.config.section import Section
from rollout.models.model import Capability
from rollout.strategies.strategy import Expansion
from rollout.trajectories.tree import RolloutTree


class ShippedStrategy(Section):
    """The parameters of a strategy, and what follows from them."""

    has_rounds: ClassVar[bool] = True
    branches: ClassVar[bool] = True
    needs: ClassVar[frozenset[Capability]] = frozenset()
    grows_by: ClassVar[str]
    """The parameter that says when it ends, which a comparison at equal budget raises."""

    @property
    def most(self) -> int:
        raise NotImplementedError

    def begin(self, tree: RolloutTree) -> Iterable[Expansion]:
        return self.after(tree)

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        raise NotImplementedError


def first_chains(tree: RolloutTree, wanted: int) -> list[Expansion]:
    """The whole chains that a tree begins with, as far as they are missing."""
    missing = wanted - len(tree.leaves)
    return [Expansion(tree.trunk, missing, "init")] if missing > 0 else []
