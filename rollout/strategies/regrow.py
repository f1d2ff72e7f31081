"""Attempts that go on from one node of a tree that is there, because a person asked for them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rollout.models.model import Capability
from rollout.strategies.strategy import Expansion
from rollout.trajectories.tree import PERSON, NodeKey, RolloutTree


class Regrow(msgspec.Struct, frozen=True):
    """`most` attempts from a node. It is no strategy that a configuration can name."""

    most: int
    node: NodeKey | None
    """None: from the task's opening."""
    temperature: float | None = None
    """None: the agent's own."""
    has_rounds: bool = False
    branches: bool = False
    needs: frozenset[Capability] = frozenset()

    def begin(self, tree: RolloutTree) -> Iterable[Expansion]:
        return [Expansion(tree.trunk if self.node is None else self.node, self.most, PERSON, self.temperature)]

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        return ()
