"""Entropy-guided expansion (AT²PO): branch where the agent was least sure of what it said.

After some whole chains, each round scores every generation that is not the last of its attempt: the mean of -log p over
its sampled tokens, less a little for each sibling, so that one place does not take all. Before the best ones the agent
generates again.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable
from typing import ClassVar

from pydantic import Field

from rollout.core import seeds
from rollout.models.model import Capability
from rollout.strategies.points import before, count_children, inner_generations
from rollout.strategies.shipped import ShippedStrategy, first_chains
from rollout.strategies.strategy import Expansion
from rollout.trajectories.tree import Node, RolloutTree

log = logging.getLogger(__name__)


class EntropyTree(ShippedStrategy):
    """`initial` chains, then `rounds` rounds of `expansions` attempts from before the most surprising generations."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.LOGPROBS})
    grows_by: ClassVar[str] = "rounds"
    initial: int = Field(10, ge=1)
    """Whole chains at the beginning (M0)."""
    expansions: int = Field(6, ge=1)
    """Generations that are branched before in a round (K)."""
    rounds: int = Field(2, ge=0)
    """Rounds (L)."""
    sibling_penalty: float = Field(0.05, ge=0)
    """What each sibling of a generation takes from its score."""

    @property
    def most(self) -> int:
        return self.initial + self.expansions * self.rounds

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        launched = len(tree.leaves)
        if launched < self.initial:
            return first_chains(tree, self.initial)
        wanted = min(self.expansions, self.most - launched)
        if wanted <= 0:
            return []
        candidates = inner_generations(tree)
        if not candidates:
            return [Expansion(tree.trunk, wanted, "fresh")]
        scored = self._scored(tree, candidates)
        if scored:
            return _expand(scored, wanted, "entropy")
        warn_without_logprobs("entropy_tree")
        seeds.stream(tree.seed, "entropy_tree", launched).shuffle(candidates)
        return _expand(candidates, wanted, "random")

    def _scored(self, tree: RolloutTree, candidates: list[Node]) -> list[Node]:
        """Those that have logprobs, the best first; the earlier one where two are equal."""
        children = count_children(tree)
        scores = []
        for node in candidates:
            assert node.body.generation is not None
            surprisal = node.body.generation.surprisal
            if surprisal is not None:
                scores.append((surprisal - self.sibling_penalty * (children[before(node)] - 1), node))
        return [node for _, node in sorted(scores, key=lambda pair: -pair[0])]


def _expand(ranked: list[Node], wanted: int, reason: str) -> list[Expansion]:
    """So many expansions of the best; where there are fewer places than that, from the best again."""
    return [Expansion(before(ranked[place % len(ranked)]), 1, reason) for place in range(wanted)]


@functools.cache
def warn_without_logprobs(strategy: str) -> None:
    """Say once that a strategy chooses by chance because no generation has logprobs."""
    log.warning("%s: the model gives no logprobs, so branches are chosen by chance (branch.reason: random)", strategy)
