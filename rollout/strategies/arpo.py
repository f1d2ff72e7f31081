"""Branching after tool results (ARPO): where the agent became less sure of itself by what a tool said.

After the initial chains, each generation that follows a tool result is looked at once. Its entropy, less that of its
path's first generation, moves the probability of branching there: `branch_probability + entropy_weight * change`,
between 0 and 1. What is missing when no place is left to branch from are fresh chains.

The entropy is the mean over a generation's first tokens, in nats, of the server's likeliest alternatives; where there
are only the sampled tokens' logprobs, the mean of -log p. (The original divides a sum over 20 tokens by the logarithm
of the vocabulary, which has about the same size.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from pydantic import Field, model_validator

from rollout.core import seeds
from rollout.models.model import Capability
from rollout.strategies.entropy_tree import warn_without_logprobs
from rollout.strategies.points import before, own_generations, path_generations, sound_leaves
from rollout.strategies.shipped import ShippedStrategy, first_chains
from rollout.strategies.strategy import Expansion
from rollout.trajectories.tree import Node, RolloutTree


class Arpo(ShippedStrategy):
    """`n` attempts, of which `initial` are whole chains and the others branch after tool results."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.LOGPROBS})
    grows_by: ClassVar[str] = "n"
    n: int = Field(16, ge=1)
    """Attempts in all."""
    initial: int = Field(8, ge=1)
    """Whole chains at the beginning."""
    beam: int = Field(2, ge=2)
    """Generations in all at a place that is branched at."""
    branch_probability: float = Field(0.5, ge=0, le=1)
    """The probability of branching where the entropy does not change."""
    entropy_weight: float = Field(0.2, ge=0)
    """How much a change of entropy moves it."""

    @model_validator(mode="after")
    def _more_than_it_begins_with(self) -> Arpo:
        if self.initial > self.n:
            raise ValueError(f"initial is {self.initial}, which is more than n ({self.n})")
        return self

    @property
    def most(self) -> int:
        return self.n

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        if len(tree.leaves) < self.initial:
            return first_chains(tree, self.initial)
        missing = self.n - len(tree.leaves)
        if missing <= 0:
            return []
        expansions: list[Expansion] = []
        for node, reason in self._places(tree):
            count = min(self.beam - 1, missing)
            if not count:
                break
            expansions.append(Expansion(before(node), count, reason))
            missing -= count
        return expansions or [Expansion(tree.trunk, missing, "fresh")]

    def _places(self, tree: RolloutTree) -> list[tuple[Node, str]]:
        """Generations to branch before: those that came after fewer tool results first, as if all went in step."""
        branched = {leaf.start for leaf in tree.leaves}
        found: list[tuple[int, Node, str]] = []
        for leaf in sound_leaves(tree):
            path = path_generations(leaf)
            for node in own_generations(leaf):
                # A branch's own first generation is the other one at a place that was branched at.
                if before(node).body.kind != "tool" or before(node) in branched:
                    continue
                probability, reason = self._probability(node, path[0])
                if seeds.stream(tree.seed, "arpo", leaf.number, node.depth).random() < probability:
                    found.append((path.index(node), node, reason))
        return [(node, reason) for _, node, reason in sorted(found, key=lambda place: place[0])]

    def _probability(self, node: Node, first: Node) -> tuple[float, str]:
        now, then = _entropy(node), _entropy(first)
        if now is None or then is None:
            warn_without_logprobs("arpo")
            return self.branch_probability, "random"
        return self.branch_probability + self.entropy_weight * (now - then), "entropy"


def _entropy(node: Node) -> float | None:
    assert node.body.generation is not None
    return node.body.generation.first_entropy
