"""Surprisal by token (TreeRL): branch inside a generation, where a token was least expected.

After the first chains, each round takes the most surprising tokens of each chain and of what grew from it, and has the
generation continued several times from what stood before that token. The first token of a generation or of a branch is
never taken: that would be branching at the turn.

It needs a model that goes on from the first tokens of an answer (`Capability.PREFIX`): text does not tell where a token
began.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from pydantic import Field

from rollout.models.model import Capability, Prefix
from rollout.strategies.points import before, chain_of, own_generations, sound_leaves
from rollout.strategies.shipped import ShippedStrategy, first_chains
from rollout.strategies.strategy import Expansion
from rollout.trajectories.generation import Tokens
from rollout.trajectories.tree import Leaf, Node, RolloutTree


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
        for number in range(self.trees):
            for node, place in self._places(tree, number):
                count = min(self.continuations, left)
                if count:
                    tokens = _tokens(node)
                    prefix = Prefix(tuple(tokens.completion_ids[:place]), tuple(tokens.logprobs[:place]))
                    expansions.append(Expansion(before(node), count, "surprisal", prefix=prefix))
                left -= count
        return expansions or ([Expansion(tree.trunk, left, "fresh")] if left else [])

    def _places(self, tree: RolloutTree, chain: int) -> list[tuple[Node, int]]:
        """The most surprising tokens of a chain and of what grew from it: generation and place."""
        leaves = [leaf for leaf in sound_leaves(tree) if self._chain_of(tree, leaf) == chain]
        generations = [node for leaf in leaves for node in own_generations(leaf)]
        found: list[tuple[float, Node, int]] = []
        for order, node in enumerate(generations):
            tokens = _tokens(node)
            if len(tokens.completion_ids) != len(tokens.logprobs):
                continue
            siblings = [_tokens(other) for other in generations[:order] if before(other) is before(node)]
            later = [_tokens(other) for other in generations[order + 1 :] if before(other) is before(node)]
            shared = max((_common(tokens, other) for other in siblings), default=0)
            taken = {_common(tokens, other) for other in later}
            found += [
                (-logprob, node, place)
                for place, logprob in enumerate(tokens.logprobs)
                if place > shared and place not in taken
            ]
        found.sort(key=lambda token: -token[0])
        return [(node, place) for _, node, place in found[: self.tokens]]

    def _chain_of(self, tree: RolloutTree, leaf: Leaf) -> int:
        """The chain that an attempt grew from. One that continues a chain's first generation starts at the trunk, too:
        it is known by the tokens that they have in common."""
        number = chain_of(tree, leaf)
        if number < self.trees:
            return number
        by_number = {leaf.number: own_generations(leaf)[:1] for leaf in tree.leaves}
        first = by_number[number]
        shared = [
            (max((_common(_tokens(one), _tokens(other)) for one in first for other in by_number[chain]), default=0))
            for chain in range(self.trees)
        ]
        return shared.index(max(shared))


def _tokens(node: Node) -> Tokens:
    assert node.body.generation is not None
    return node.body.generation.tokens or Tokens()


def _common(one: Tokens, other: Tokens) -> int:
    """How many tokens two generations begin with alike."""
    pairs = zip(one.completion_ids, other.completion_ids, strict=False)
    return next((place for place, (mine, theirs) in enumerate(pairs) if mine != theirs), len(one.completion_ids))
