"""Surprisal by token (TreeRL): branch inside a generation, where a token was least expected.

After the first chains, each round takes the most surprising tokens of each chain and of what grew from it, and has the
generation continued several times from what stood before that token. The first token of a generation or of a branch is
never taken: that would be branching at the turn.

It needs a model that goes on from the first tokens of an answer (`Capability.PREFIX`): text does not tell where a token
began.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import ClassVar

from pydantic import Field

from rollout.models.model import Capability
from rollout.strategies.points import before, leaves_by_chain, own_generations
from rollout.strategies.shipped import ShippedStrategy, first_chains
from rollout.strategies.strategy import Expansion
from rollout.trajectories.generation import ID_BYTES, Tokens
from rollout.trajectories.token_path import common_prefix
from rollout.trajectories.tree import Beginning, Leaf, Node, RolloutTree


class TreeRl(ShippedStrategy):
    """`trees` chains; in each of `rounds` rounds, for each of them, `continuations` attempts from before each of its
    `tokens` most surprising tokens."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PREFIX, Capability.TOKEN_IDS, Capability.LOGPROBS})
    grows_by: ClassVar[str] = "rounds"
    trees: int = Field(6, ge=1)
    """Whole chains at the beginning (M)."""
    tokens: int = Field(2, ge=1)
    """Tokens of each tree that are branched at in a round (N)."""
    rounds: int = Field(1, ge=0)
    """Rounds (L)."""
    continuations: int = Field(2, ge=1)
    """New attempts from each of them (T)."""

    @property
    def most(self) -> int:
        return self.trees * (1 + self.tokens * self.rounds * self.continuations)

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        launched = len(tree.leaves)
        if launched < self.trees:
            return first_chains(tree, self.trees)
        left = self.most - launched
        expansions: list[Expansion] = []
        for leaves in leaves_by_chain(tree, self.trees):
            for beginning in self._beginnings(leaves):
                count = min(self.continuations, left)
                if count:
                    start = before(beginning.generation)
                    expansions.append(Expansion(start, count, "surprisal", beginning=beginning))
                left -= count
        return expansions or ([Expansion(tree.trunk, left, "fresh")] if left else [])

    def _beginnings(self, leaves: Sequence[Leaf]) -> list[Beginning]:
        """What stands before the most surprising tokens of a chain and of what grew from it."""
        generations = [node for leaf in leaves for node in own_generations(leaf)]
        siblings: dict[Node, list[Node]] = {}
        for node in generations:
            siblings.setdefault(before(node), []).append(node)
        found: list[tuple[float, Beginning]] = []
        for node in generations:
            tokens = _tokens(node)
            logprobs = tokens.logprobs
            if len(logprobs) != len(tokens.sampled) // ID_BYTES:
                continue
            others = siblings[before(node)]
            common = [common_prefix(tokens.sampled, _tokens(other).sampled) for other in others]
            own = others.index(node)
            shared, taken = max(common[:own], default=0), set(common[own + 1 :])
            found += [
                (-logprob, Beginning(node, place))
                for place, logprob in enumerate(logprobs)
                if place > shared and place not in taken
            ]
        most = heapq.nlargest(self.tokens, found, key=lambda token: token[0])
        return [beginning for _, beginning in most]


def _tokens(node: Node) -> Tokens:
    assert node.body.generation is not None
    return node.body.generation.tokens or Tokens()
