"""Limits on any strategy: a budget for each task, an end when a group has both outcomes, a number of attempts.

What a task has cost is read off its tree, each node once, so it is the same after a resume. An attempt that was begun
is played to its end: a budget decides what is begun. Before anything is known of a task, one attempt goes alone and
shows what one costs. From then on a round is granted as far as the budget is expected to pay for it, taking for each
attempt the mean of what those through the same node cost from there on; never more at once than there were before,
because the mean of a few is no good guide, and always one while something is left. So no more than the last round's
attempts can go over, and mostly by little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rollout.config.exploring import Budget
from rollout.models.model import Capability
from rollout.strategies.points import sound_leaves
from rollout.strategies.strategy import Expansion, Strategy
from rollout.trajectories.group import is_mixed
from rollout.trajectories.tree import Node, RolloutTree

MIXED_AT_ONCE = 2
"""Attempts at once where a group ends as soon as it is mixed, unless it is said otherwise."""


class Spent(msgspec.Struct):
    """What nodes have cost, in the units of a budget."""

    generations: float = 0
    tokens: float = 0
    tool_calls: float = 0
    cost: float = 0.0

    def add(self, other: Spent, share: float = 1.0) -> None:
        for unit in self.__struct_fields__:
            setattr(self, unit, getattr(self, unit) + share * getattr(other, unit))

    def is_within(self, budget: Budget) -> bool:
        """Whether no unit is over its budget."""
        return all(getattr(self, unit) <= most for unit, most in budget.limits().items())

    def is_below(self, budget: Budget) -> bool:
        """Whether something is left of every unit."""
        return all(getattr(self, unit) < most for unit, most in budget.limits().items())


def spent_on(nodes: Iterable[Node]) -> Spent:
    """What these nodes have cost: the agent's generations, all that models generated, tool results, dollars."""
    spent = Spent()
    for node in nodes:
        generation = node.body.generation
        if generation is not None:
            spent.generations += node.body.kind == "generation"
            spent.tokens += generation.usage.completion_tokens
            spent.cost += generation.cost
        spent.tool_calls += node.body.kind == "tool"
    return spent


class Limited:
    """A strategy within limits. Everything else is the strategy's own."""

    has_rounds = True

    def __init__(
        self,
        strategy: Strategy,
        *,
        budget: Budget | None = None,
        stop_when_mixed: bool = False,
        at_once: int | None = None,
        attempts: int | None = None,
    ) -> None:
        self.strategy = strategy
        self.budget = budget or Budget()
        self.stop_when_mixed = stop_when_mixed
        self.at_once = at_once or (MIXED_AT_ONCE if stop_when_mixed else None)
        self.attempts = attempts

    @property
    def most(self) -> int:
        # An attempt that did not fail has at least one generation.
        limits = (self.budget.generations, self.attempts)
        return min([self.strategy.most, *(most for most in limits if most is not None)])

    @property
    def branches(self) -> bool:
        return self.strategy.branches

    @property
    def needs(self) -> frozenset[Capability]:
        return self.strategy.needs

    def begin(self, tree: RolloutTree) -> Iterable[Expansion]:
        return self._granted(tree, self.strategy.begin(tree))

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        if self.stop_when_mixed and is_mixed(leaf.reward for leaf in tree.leaves):
            return []
        return self._granted(tree, self.strategy.after(tree))

    def _granted(self, tree: RolloutTree, wanted: Iterable[Expansion]) -> list[Expansion]:
        """As much of a round as the limits allow, from its beginning."""
        singles = [msgspec.structs.replace(expansion, count=1) for expansion in wanted for _ in range(expansion.count)]
        singles = singles[: self.most - len(tree.leaves)]
        if self.at_once is not None:
            singles = singles[: self.at_once]
        if not self.budget.limits():
            return singles
        spent = Spent()
        for leaf in tree.leaves:
            spent.add(spent_on(leaf.own_nodes()))
        return singles[: self._affordable(tree, spent, singles)]

    def _affordable(self, tree: RolloutTree, spent: Spent, singles: Sequence[Expansion]) -> int:
        if not spent.is_below(self.budget):
            return 0
        paths = [leaf.node.path() for leaf in sound_leaves(tree)]
        if not paths:
            return 1
        for place, expansion in enumerate(singles[: len(paths)]):
            assert isinstance(expansion.node, Node)
            _add_expected(spent, expansion.node, paths)
            if place and not spent.is_within(self.budget):
                return place
        return min(len(singles), len(paths))


def _add_expected(spent: Spent, node: Node, paths: Sequence[Sequence[Node]]) -> None:
    """Add what an attempt from `node` is expected to cost."""
    rests = [path[node.depth + 1 :] for path in paths if len(path) > node.depth and path[node.depth] is node]
    for rest in rests:
        spent.add(spent_on(rest), 1 / len(rests))
