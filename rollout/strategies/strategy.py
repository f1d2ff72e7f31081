"""The contract of a strategy: which node is expanded next, and when to stop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from rollout.trajectories.tree import Node, RolloutTree


class Expansion(msgspec.Struct, frozen=True):
    """A wish to grow `count` new episodes from `node`."""

    node: Node
    count: int
    reason: str


class Strategy(Protocol):
    """Decides how a tree grows. It sees trees and nodes, never worlds or models.

    The same tree grown by the same seed leads to the same expansions, in the same order: the journal knows an episode
    by its number within the tree.
    """

    def begin(self, tree: RolloutTree) -> Iterable[Expansion]:
        """The first expansions of a tree that has only its opening."""
        ...

    def after(self, tree: RolloutTree, leaf: Node) -> Iterable[Expansion]:
        """What to expand now that an episode ended at `leaf`; nothing ends the tree once all episodes have."""
        ...
