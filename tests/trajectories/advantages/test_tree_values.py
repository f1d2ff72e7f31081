"""Values and advantages of nodes: by hand, by properties, and against the slow ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.trajectories.advantages import Forest, Rows, at2po, child_value, leaf_mean, rloo, tree_rl
from tests.trajectories.advantages import slow
from tests.trajectories.advantages.test_groups import rewards_of_any, same

# The tree of the cases by hand. 0 is the task; 1 and 2 are the first steps of two chains.
#        0
#      1   2
#     3 4   5
#    leaves: 3 -> 1, 4 -> 0, 5 -> 0
PARENTS = [-1, 0, 0, 1, 1, 2]
LEAVES = [3, 4, 5]
REWARDS = [1.0, 0.0, 0.0]


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[int], list[int], list[float | None], list[float]]:
    """Any forest, with leaves anywhere: several in a node, in inner nodes, in roots."""
    parents = [-1]
    for node in range(1, draw(st.integers(1, 14))):
        parents.append(draw(st.integers(-1, node - 1)))
    leaves = draw(st.lists(st.integers(0, len(parents) - 1), max_size=10))
    rewards = draw(st.lists(rewards_of_any, min_size=len(leaves), max_size=len(leaves)))
    entropies = draw(st.lists(st.floats(0, 5), min_size=len(parents), max_size=len(parents)))
    return parents, leaves, rewards, entropies


def test_leaf_means_by_hand() -> None:
    # V(1) = (1 + 0) / 2, V(0) = (1 + 0 + 0) / 3.
    assert leaf_mean(Forest(PARENTS, LEAVES), REWARDS) == pytest.approx([1 / 3, 1 / 2, 0, 1, 0, 0])


def test_child_means_by_hand() -> None:
    # V(1) = (1 + 0) / 2, V(0) = (V(1) + V(2)) / 2 = 1/4: a child counts as much as its sibling.
    assert child_value(Forest(PARENTS, LEAVES), REWARDS) == pytest.approx([1 / 4, 1 / 2, 0, 1, 0, 0])


def test_child_softmax_by_hand() -> None:
    # Entropies of 3 and 4 are log 3 and 0: weights 3/4 and 1/4, V(1) = 3/4. Of 1 and 2 they are equal: V(0) = 3/8.
    values = child_value(Forest(PARENTS, LEAVES), REWARDS, [9, 0.5, 0.5, math.log(3), 0, 2])
    assert values == pytest.approx([3 / 8, 3 / 4, 0, 1, 0, 0])


def test_tree_rl_by_hand() -> None:
    # Leave-one-out: 1 - 0 = 1; 0 - 1/2 = -1/2, twice. V(3) = 1, V(4) = V(5) = V(2) = -1/2, V(1) = 1/4, V(0) = 0.
    # [V - V(root)] + [V - V(parent)]: node 1: 1/4 + 1/4, over √2 leaves. Node 2: -1/2 - 1/2. Node 3: 1 + 3/4.
    # Node 4: -1/2 - 3/4. Node 5: -1/2 + 0.
    forest = Forest(PARENTS, LEAVES)
    values = tree_rl(forest, REWARDS).values
    assert np.isnan(values[0])
    assert values[1:] == pytest.approx([0.5 / math.sqrt(2), -1, 1.75, -1.25, -0.5])
    assert tree_rl(forest, REWARDS, by_leaves=False).values[1] == pytest.approx(0.5)


def test_at2po_by_hand() -> None:
    # Leaves 1, 0, 0: mean 1/3, std (ddof 0) √(2/9) = √2/3. Normalised: (2/3)/(√2/3) = √2, and -1/√2 twice.
    # Child means: V(1) = (√2 - 1/√2) / 2 = 1/(2√2), V(2) = -1/√2, V(0) = (V(1) + V(2)) / 2 = -1/(4√2).
    high, low = math.sqrt(2), -1 / math.sqrt(2)
    forest = Forest(PARENTS, LEAVES)
    one, two, top = 1 / (2 * math.sqrt(2)), low, -1 / (4 * math.sqrt(2))
    values = at2po(forest, REWARDS, value="child_mean").values
    assert values[1:] == pytest.approx([one, two, high, low, low], abs=1e-5)
    values = at2po(forest, REWARDS, value="child_mean", against="parent").values
    assert values[1:] == pytest.approx([one - top, two - top, high - one, low - one, 0], abs=1e-5)
    values = at2po(forest, REWARDS, value="child_mean", against="root").values
    assert values[1:] == pytest.approx([one - top, two - top, high - top, low - top, low - top], abs=1e-5)


def test_a_failed_leaf_counts_nowhere() -> None:
    # Without leaf 4, node 1 stands for leaf 3 alone, and node 4 has nothing to say.
    rewards = [1.0, None, 0.0]
    forest = Forest(PARENTS, LEAVES)
    assert np.allclose(leaf_mean(forest, rewards), [1 / 2, 1, 0, 1, np.nan, 0], equal_nan=True)
    assert np.allclose(child_value(forest, rewards), [1 / 2, 1, 0, 1, np.nan, 0], equal_nan=True)
    advantages = tree_rl(forest, rewards)
    # Leave-one-out of two: 1 and -1. V(root) = 0, V(1) = V(3) = 1: node 1 has 1 + 1, node 3 has 1 + 0.
    assert np.allclose(advantages.values, [np.nan, 2, -2, 1, np.nan, -1], equal_nan=True)
    assert advantages.zeroed()[4] == 0
    assert forest.weights(np.array([True, False, True])).tolist() == [1, 0.5, 0.5, 0.5, 0, 0.5]


def test_a_tree_with_one_leaf_has_no_advantage_in_it() -> None:
    forest = Forest([-1, 0, 1], [2])
    assert tree_rl(forest, [1.0]).values[1:].tolist() == [0, 0]
    assert at2po(forest, [1.0], value="leaf_mean").values[1:].tolist() == [0, 0]


def test_a_leaf_may_end_where_others_go_on() -> None:
    # Node 1 ended one attempt with 1; another went on from it to node 2 and got 0.
    forest = Forest([-1, 0, 1], [1, 2])
    assert leaf_mean(forest, [1.0, 0.0]) == pytest.approx([0.5, 0.5, 0])
    assert child_value(forest, [1.0, 0.0]) == pytest.approx([0.5, 0.5, 0])


def test_trees_side_by_side_do_not_touch() -> None:
    both = Forest([*PARENTS, -1, 6, 6], [*LEAVES, 7, 8])
    rewards = [*REWARDS, 1.0, 0.0]
    for estimate in (tree_rl, lambda forest, own: at2po(forest, own, value="child_mean")):
        apart = [estimate(Forest(PARENTS, LEAVES), REWARDS).values, estimate(Forest([-1, 0, 0], [1, 2]), [1, 0]).values]
        assert np.allclose(estimate(both, rewards).values, np.concatenate(apart), equal_nan=True)


def test_softmax_says_what_it_misses() -> None:
    forest = Forest(PARENTS, LEAVES)
    with pytest.raises(ValueError, match="child_softmax needs entropies; without logprobs use value='child_mean'"):
        at2po(forest, REWARDS)
    with pytest.raises(ValueError, match="2 nodes have none, the first is 2; ask for logprobs"):
        at2po(forest, REWARDS, [np.nan, 1, np.nan, 1, 1, np.nan])
    # Where only failed leaves are below, nobody asks.
    assert at2po(forest, [1.0, 0.0, None], [np.nan, 1, np.nan, 1, 1, np.nan]).known.tolist() == [
        False, True, False, True, True, False
    ]  # fmt: skip


def test_softmax_does_not_overflow() -> None:
    values = child_value(Forest([-1, 0, 0], [1, 2]), [1.0, 0.0], [0, 5000.0, 0])
    assert values.tolist() == [1, 1, 0]


def test_children_before_parents_are_refused() -> None:
    with pytest.raises(ValueError, match="node 0 has the parent 1; expected an earlier node or -1"):
        Forest([1, -1], [0])
    with pytest.raises(ValueError, match="expected nodes from 0 to 0, got 1 to 1"):
        Forest([-1], [1])


def test_an_empty_forest_is_a_forest() -> None:
    assert tree_rl(Forest([], []), []).values.shape == (0,)
    assert child_value(Forest([], []), []).shape == (0,)


# ---- properties -----------------------------------------------------------------------------------------------------


@given(forests())
def test_values_are_the_slow_ones(case: tuple[list[int], list[int], list[float | None], list[float]]) -> None:
    parents, leaves, rewards, entropies = case
    tree, forest = slow.Tree(parents, leaves, rewards), Forest(parents, leaves)
    nodes = range(len(parents))
    heat = [0.0 if parents[node] < 0 else entropies[node] for node in nodes]
    assert same(leaf_mean(forest, rewards), [tree.leaf_mean(node) for node in nodes])
    assert same(child_value(forest, rewards), [tree.child_value(node, lambda _: 0.0) for node in nodes])
    expected = [tree.child_value(node, lambda child: heat[child]) for node in nodes]
    assert same(child_value(forest, rewards, entropies), expected)


@given(forests(), st.sampled_from(["nothing", "parent", "root", "both"]), st.booleans())
def test_at2po_is_the_slow_one(
    case: tuple[list[int], list[int], list[float | None], list[float]], against: Any, normalise: bool
) -> None:
    parents, leaves, rewards, entropies = case
    plain = slow.Tree(parents, leaves, rewards)
    groups = [plain.root(leaf) for leaf in leaves]
    own = slow.grpo(rewards, groups, ddof=0) if normalise else rewards
    tree, forest = slow.Tree(parents, leaves, own), Forest(parents, leaves)
    heat = [0.0 if parent < 0 else entropies[node] for node, parent in enumerate(parents)]
    for value, slowly in (
        ("leaf_mean", tree.leaf_mean),
        ("child_mean", lambda node: tree.child_value(node, lambda _: 0.0)),
        ("child_softmax", lambda node: tree.child_value(node, lambda child: heat[child])),
    ):
        found = at2po(forest, rewards, entropies, value=value, against=against, normalise=normalise).values  # type: ignore[arg-type]
        assert same(found, [slow.against(tree, node, slowly, against) for node in range(len(parents))])


@given(forests())
def test_tree_rl_is_the_slow_one(case: tuple[list[int], list[int], list[float | None], list[float]]) -> None:
    parents, leaves, rewards, _ = case
    plain = slow.Tree(parents, leaves, rewards)
    tree = slow.Tree(parents, leaves, slow.rloo(rewards, [plain.root(leaf) for leaf in leaves]))
    expected = []
    for node in range(len(parents)):
        value = slow.against(tree, node, tree.leaf_mean, "both")
        expected.append(None if value is None else value / math.sqrt(len(tree.below(node))))
    assert same(tree_rl(Forest(parents, leaves), rewards).values, expected)


@given(forests())
def test_the_root_is_worth_the_mean_of_its_leaves(
    case: tuple[list[int], list[int], list[float | None], list[float]],
) -> None:
    parents, leaves, rewards, _ = case
    forest = Forest(parents, leaves)
    values = leaf_mean(forest, rewards)
    for root in np.flatnonzero(forest.is_root):
        own = [
            reward
            for leaf, reward in zip(leaves, rewards, strict=True)
            if forest.roots[leaf] == root and reward is not None
        ]
        assert np.isnan(values[root]) if not own else math.isclose(values[root], sum(own) / len(own), abs_tol=1e-9)


@given(st.lists(rewards_of_any, min_size=1, max_size=8), st.data())
def test_where_nothing_branched_a_step_is_worth_its_own_leaf(rewards: list[float | None], data: st.DataObject) -> None:
    """Chains only: each step's [V − V(root)] is the leaf's own RLOO, and V − V(parent) is 0 but for the first step."""
    parents, leaves, first = [-1], [], []
    for _ in rewards:
        first.append(len(parents))
        parents.append(0)
        for _ in range(data.draw(st.integers(0, 3))):
            parents.append(len(parents) - 1)
        leaves.append(len(parents) - 1)
    own = rloo(rewards, Rows([0] * len(rewards))).values
    values = tree_rl(Forest(parents, leaves), rewards).values
    for chain, start in enumerate(first):
        times = [2.0] + [1.0] * (leaves[chain] - start)
        assert np.allclose(values[start : leaves[chain] + 1], own[chain] * np.array(times), equal_nan=True)


@given(forests())
def test_weights_turn_a_sum_over_nodes_into_the_mean_over_leaves(
    case: tuple[list[int], list[int], list[float | None], list[float]],
) -> None:
    parents, leaves, rewards, losses = case
    forest = Forest(parents, leaves)
    counts = np.array([reward is not None for reward in rewards], dtype=bool)
    weights = forest.weights(counts)
    for root in np.flatnonzero(forest.is_root):
        totals = []
        for leaf, is_counted in zip(leaves, counts, strict=True):
            if is_counted and forest.roots[leaf] == root:
                node, total = leaf, 0.0
                while node >= 0:
                    total, node = total + losses[node], parents[node]
                totals.append(total)
        over_nodes = sum(weights[node] * losses[node] for node in range(len(parents)) if forest.roots[node] == root)
        assert math.isclose(over_nodes, sum(totals) / len(totals) if totals else 0.0, abs_tol=1e-9)
