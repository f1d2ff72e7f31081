"""What holds for every strategy in every tree."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.config.exploring import Budget, StrategyChoice
from rollout.strategies.find import SHIPPED, make_strategy
from rollout.strategies.limits import spent_on
from rollout.strategies.points import branch_points, leaves_by_chain, sound_leaves
from rollout.strategies.strategy import Expansion, Strategy
from rollout.trajectories.stop import Status
from rollout.trajectories.tree import RolloutTree
from tests.strategies.trees import generation, grow, make_tree

SMALL: dict[str, dict[str, Any]] = {
    "chain": {"n": 7, "temperature": [0.1, 0.9]},
    "random_tree": {"trees": 2, "expansions": 2, "rounds": 2},
    "entropy_tree": {"initial": 3, "expansions": 2, "rounds": 2},
    "arpo": {"n": 9, "initial": 3, "beam": 3},
    "treerl": {"trees": 2, "tokens": 2, "continuations": 2, "rounds": 2},
    "mcts": {"simulations": 9, "parallel": 3},
}
STATUSES = st.sampled_from([Status.COMPLETED, Status.COMPLETED, Status.TRUNCATED, Status.FAILED, Status.CUT])


def test_every_shipped_strategy_is_looked_at() -> None:
    assert set(SMALL) == set(SHIPPED)


@st.composite
def attempt(draw: st.DrawFn) -> tuple[int, bool, Status, float | None, int]:
    """Length, whether it has logprobs, what became of it, and a number for its tokens."""
    status = draw(STATUSES)
    reward = None if status in (Status.FAILED, Status.CUT) else draw(st.sampled_from([0.0, 1.0, None]))
    return draw(st.integers(1, 5)), draw(st.booleans()), status, reward, draw(st.integers(0, 5))


def play(
    strategy: Strategy,
    attempts: list[tuple[int, bool, Status, float | None, int]],
    seed: int,
    rounds: list[int] | None = None,
) -> RolloutTree:
    """Grow a tree as the engine does, and check what is asked for on the way. `rounds` takes how many attempts there
    were before each round."""
    tree = make_tree(seed)
    asked = list(strategy.begin(tree))
    while asked:
        if rounds is not None:
            rounds.append(len(tree.leaves))
        again = list(strategy.begin(tree) if not tree.leaves else strategy.after(tree))
        assert again == asked, "the same tree, the same decisions"
        allowed = {tree.trunk}
        for leaf in sound_leaves(tree):
            allowed |= {node.parent for node in leaf.own_nodes() if node.body.kind == "generation" and node.parent}
        for expansion in asked:
            assert expansion.node in allowed, "only where a sound attempt generated"
            for _ in range(expansion.count):
                _grow(tree, expansion, attempts)
        assert len(tree.leaves) <= strategy.most
        asked = list(strategy.after(tree)) if strategy.has_rounds else []
    return tree


def _grow(tree: RolloutTree, expansion: Expansion, attempts: list[tuple[int, bool, Status, float | None, int]]) -> None:
    length, has_logprobs, status, reward, number = attempts[len(tree.leaves) % len(attempts)]
    ids = [*(expansion.beginning.prefix.ids if expansion.beginning else ()), number, len(tree.leaves), 7]
    surprisals = [((token * 31 + number) % 17) / 4 for token in ids]
    steps = [generation(surprisals, ids=ids, calls=at < length - 1) for at in range(length)]
    if not has_logprobs:
        steps = [generation(calls=at < length - 1) for at in range(length)]
    continues = expansion.beginning.generation if expansion.beginning else None
    grow(tree, steps, start=expansion.node, status=status, reward=reward, reason=expansion.reason, continues=continues)


@pytest.mark.parametrize("name", list(SMALL))
@given(attempts=st.lists(attempt(), min_size=1, max_size=9), seed=st.integers(0, 1000))
def test_a_strategy_keeps_to_its_count_and_to_sound_attempts(
    name: str, attempts: list[tuple[int, bool, Status, float | None, int]], seed: int
) -> None:
    strategy = make_strategy(StrategyChoice(name=name, params=SMALL[name]))
    tree = play(strategy, attempts, seed)
    assert len(tree.leaves) == strategy.most, "every attempt is asked for, whatever became of the others"


@pytest.mark.parametrize("name", list(SMALL))
@given(
    attempts=st.lists(attempt(), min_size=1, max_size=9),
    most=st.integers(1, 25),
    unit=st.sampled_from(["generations", "tokens", "tool_calls"]),
)
def test_nothing_is_begun_once_the_budget_is_used_up(
    name: str, attempts: list[tuple[int, bool, Status, float | None, int]], most: int, unit: str
) -> None:
    budget = Budget.model_validate({unit: most})
    strategy = make_strategy(StrategyChoice(name=name, params=SMALL[name], budget=budget))
    rounds: list[int] = []
    tree = play(strategy, attempts, 3, rounds)
    sizes = [getattr(spent_on(leaf.own_nodes()), unit) for leaf in tree.leaves]
    assert all(sum(sizes[:begun]) < most for begun in rounds), "something was left when each round was begun"
    assert all(after - begun <= max(1, begun) for begun, after in itertools.pairwise([*rounds, len(sizes)]))
    assert sum(sizes) >= most or len(sizes) == strategy.most, "it goes on while something is left"


@pytest.mark.parametrize("name", list(SMALL))
@given(attempts=st.lists(attempt(), min_size=1, max_size=9))
def test_a_mixed_group_ends(name: str, attempts: list[tuple[int, bool, Status, float | None, int]]) -> None:
    strategy = make_strategy(StrategyChoice(name=name, params=SMALL[name], stop_when_mixed=True))
    tree = play(strategy, attempts, 3)
    rewards = [leaf.reward for leaf in tree.leaves]
    mixed_at = next((at for at in range(len(rewards)) if {0.0, 1.0} <= set(rewards[: at + 1])), None)
    if mixed_at is None:
        assert len(rewards) == strategy.most
    else:
        assert len(rewards) <= mixed_at + 2, "at most its neighbour of the same round"


def test_branch_points_leave_out_what_failed_or_was_cut() -> None:
    tree = make_tree()
    grow(tree, [None, None], status=Status.FAILED, reward=None)
    grow(tree, [None, None], status=Status.CUT, reward=None)
    assert [branch_points(tree, leaves) for leaves in leaves_by_chain(tree, 2)] == [[tree.trunk], [tree.trunk]]
