"""The contract of a strategy: which node is expanded next, and when to stop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from rollout.models.model import Capability
from rollout.trajectories.tree import Beginning, Node, NodeKey, RolloutTree

__all__ = ["Expansion", "RolloutTree", "Strategy"]


class Expansion(msgspec.Struct, frozen=True):
    """A wish to grow `count` new episodes from `node`: the next thing there is generated again."""

    node: Node | NodeKey
    """A node of the tree, or the key of one that an earlier command grew."""
    count: int
    reason: str
    """What made the strategy want it: init, fresh, random, entropy, surprisal, uct; or person, if a person asked
    for it. It is in `metadata.branch`."""
    temperature: float | None = None
    """What these episodes sample with, instead of the agent's own."""
    beginning: Beginning | None = None
    """What their first generation begins with: it goes on from there. A strategy that uses it has `Capability.PREFIX`
    among its `needs`."""


class Strategy(Protocol):
    """Decides how a tree grows. It sees trees and nodes, never worlds or models, and keeps nothing of any tree.

    A subclass needs `most` and `after` only. By default a strategy asks in rounds for attempts from the beginning.

    It is asked in rounds: when everything that it asked for has ended. So its decisions follow from the tree and its
    seed alone, not from who was quicker, and a resumed run makes the same ones. The journal knows an episode by its
    number within the tree.

    It may be given less than it asks for (`rollout.strategies.limits`), and is asked again then: what it wants has to
    follow from the leaves that are there. It never grows anything from a leaf that failed or was cut.
    """

    @property
    def most(self) -> int:
        """The most episodes that a tree has."""
        ...

    @property
    def has_rounds(self) -> bool:
        """Whether it may ask for more after its beginning."""
        return True

    @property
    def branches(self) -> bool:
        """Whether it may expand other nodes than the trunk. Then worlds are kept as they were at each step."""
        return False

    @property
    def needs(self) -> frozenset[Capability]:
        """What it asks of the agent's model. Without PREFIX the run is refused; LOGPROBS are asked for, and where none
        come it has to do without."""
        return frozenset()

    def begin(self, tree: RolloutTree) -> Iterable[Expansion]:
        """The first expansions of a tree that has only its opening."""
        return self.after(tree)

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        """What to expand now that every episode so far has ended; nothing ends the tree."""
        ...
