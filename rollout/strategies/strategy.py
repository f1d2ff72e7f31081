"""The contract of a strategy: which node is expanded next, and when to stop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from rollout.trajectories.tree import Node, RolloutTree


class Expansion(msgspec.Struct, frozen=True):
    """A wish to grow `count` new episodes from `node`: the next thing there is generated anew."""

    node: Node
    count: int
    reason: str


class Strategy(Protocol):
    """Decides how a tree grows. It sees trees and nodes, never worlds or models, and keeps nothing of any tree.

    It is asked in rounds: when everything that it asked for has ended. So its decisions follow from the tree and its
    seed alone, not from who was quicker, and a resumed run makes the same ones. The journal knows an episode by its
    number within the tree.
    """

    @property
    def most(self) -> int:
        """The most episodes that a tree has."""
        ...

    @property
    def has_rounds(self) -> bool:
        """Whether it may ask for more after its beginning."""
        ...

    @property
    def branches(self) -> bool:
        """Whether it may expand other nodes than the trunk. Then worlds are kept as they were at each step."""
        ...

    def begin(self, tree: RolloutTree) -> Iterable[Expansion]:
        """The first expansions of a tree that has only its opening."""
        ...

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        """What to expand now that every episode so far has ended; nothing ends the tree."""
        ...
