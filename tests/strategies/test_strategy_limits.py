"""Budgets and early ends, by hand."""

from __future__ import annotations

from rollout.config.exploring import Budget
from rollout.strategies.chain import Chain
from rollout.strategies.limits import Limited, spent_on
from rollout.strategies.random_tree import RandomTree
from rollout.strategies.strategy import Expansion, Strategy
from rollout.trajectories.tree import RolloutTree
from tests.strategies.trees import generation, grow, make_tree


def count(strategy: Strategy, tree: RolloutTree) -> int:
    return sum(expansion.count for expansion in strategy.after(tree))


def test_the_first_attempt_shows_what_one_costs() -> None:
    strategy = Limited(Chain(n=20), budget=Budget(generations=12))
    tree = make_tree()
    assert list(strategy.begin(tree)) == [Expansion(tree.trunk, 1, "init")]
    grow(tree, [None] * 3)
    assert count(strategy, tree) == 1, "never more at once than there were before"
    grow(tree, [None] * 3)
    assert count(strategy, tree) == 2, "six are left, and one takes three"
    grow(tree, [None] * 3)
    grow(tree, [None] * 2)
    assert count(strategy, tree) == 1, "one is left: the last attempt may go over"
    grow(tree, [None] * 3)
    assert count(strategy, tree) == 0


def test_what_branches_share_is_counted_once_and_a_branch_costs_its_rest() -> None:
    strategy = Limited(RandomTree(trees=1, expansions=4, rounds=9), budget=Budget(generations=8))
    tree = make_tree()
    made = grow(tree, [None] * 4)
    grow(tree, [None], start=made[3].parent)
    grow(tree, [None], start=made[3].parent)
    # 4 + 1 + 1 = 6 are used; two are left.
    granted = list(strategy.after(tree))
    assert sum(spent_on(leaf.own_nodes()).generations for leaf in tree.leaves) == 6
    assert 1 <= len(granted) <= 2


def test_a_budget_in_dollars_counts_every_model() -> None:
    tree = make_tree()
    grow(tree, [generation(cost=0.5), generation(cost=0.25)])
    assert spent_on(tree.leaves[0].own_nodes()).cost == 0.75
    assert count(Limited(Chain(n=9), budget=Budget(cost=0.75)), tree) == 0
    assert count(Limited(Chain(n=9), budget=Budget(cost=0.8)), tree) == 1


def test_tokens_and_tool_calls_are_units_too() -> None:
    tree = make_tree()
    grow(tree, [None] * 3)
    spent = spent_on(tree.leaves[0].own_nodes())
    assert (spent.generations, spent.tokens, spent.tool_calls) == (3, 15, 2)
    assert count(Limited(Chain(n=9), budget=Budget(tokens=15)), tree) == 0
    assert count(Limited(Chain(n=9), budget=Budget(tool_calls=3)), tree) == 1


def test_a_group_with_both_outcomes_ends_and_one_without_a_score_does_not() -> None:
    strategy = Limited(Chain(n=8), stop_when_mixed=True)
    tree = make_tree()
    assert sum(expansion.count for expansion in strategy.begin(tree)) == 2
    grow(tree, [None], reward=1.0)
    grow(tree, [None], reward=None)
    assert count(strategy, tree) == 2
    grow(tree, [None], reward=0.0)
    assert count(strategy, tree) == 0


def test_attempts_end_whatever_a_strategy_asks_for() -> None:
    strategy = Limited(RandomTree(rounds=50), attempts=3)
    assert strategy.most == 3
    assert Limited(Chain(n=2), attempts=3).most == 2, "what it does not ask for it does not get"
    tree = make_tree()
    grow(tree, [None] * 2)
    grow(tree, [None] * 2)
    assert count(strategy, tree) == 1
    grow(tree, [None] * 2)
    assert count(strategy, tree) == 0


def test_at_once_limits_what_is_begun_together() -> None:
    strategy = Limited(Chain(n=5), at_once=3)
    tree = make_tree()
    assert count(strategy, tree) == 3
    for _ in range(3):
        grow(tree, [None])
    assert count(strategy, tree) == 2
