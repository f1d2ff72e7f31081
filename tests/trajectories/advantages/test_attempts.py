"""From trees and saved lines to advantages: shared steps, fresh chains, leaves that failed or were cut."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from rollout.core.errors import ConfigError
from rollout.core.messages import Message
from rollout.strategies.random_tree import RandomTree
from rollout.strategies.strategy import Expansion
from rollout.trajectories.advantages import (
    ESTIMATORS,
    Attempt,
    attempts_of_lines,
    attempts_of_tree,
    forest_of,
    step_advantages,
)
from rollout.trajectories.generation import Generation, Tokens
from rollout.trajectories.line import Head, encode_line
from rollout.trajectories.saved import SavedLine, read_saved
from rollout.trajectories.stop import Status
from rollout.trajectories.tree import Leaf, Node, NodeBody, RolloutTree, path_messages
from tests.conftest import read_lines, roll_out
from tests.engine.test_trees import tree_config

OPENING = (
    Message(role="user", content="Hello."),
    Message(role="assistant", content="How can I help?"),
    Message(role="user", content="Count."),
)


class Grown:
    """A tree that is grown by hand: `grow` adds an attempt of so many steps, each followed by a tool's answer."""

    def __init__(self) -> None:
        self.tree = RolloutTree("t", OPENING)
        self.at: dict[tuple[int, int], Node] = {}
        """The node after each attempt's step: the tool's answer."""

    def grow(
        self,
        number: int,
        steps: int,
        reward: float | None,
        start: Node | None = None,
        status: Status = Status.COMPLETED,
        reason: str = "init",
        logprob: float | None = None,
    ) -> None:
        start = node = start or self.tree.trunk
        place = 0
        for step in range(steps):
            tokens = None if logprob is None else Tokens.of((1,), (1, 2), (logprob, 3 * logprob))
            said = Message(role="assistant", content=f"{number}.{step}")
            node = self.tree.append(
                node, NodeBody("generation", generation=Generation(said, tokens=tokens)), number + 10, place
            )
            answer = Message(role="tool", content="ok", tool_call_id=f"{number}.{step}")
            state = f"s{sum(above.body.kind == 'generation' for above in node.up()) - 1}"
            node = self.tree.append(node, NodeBody("tool", message=answer, state_key=state), number + 10, place + 1)
            self.at[number, step] = node
            place += 2
        self.tree.add_leaf(Leaf(node, number, status, reward, start, reason))


def grown() -> RolloutTree:
    """Chains 0 and 1; 2 and 3 branch from 0, 4 from 2; 5 failed below 1; 6 was cut; 7 is a fresh chain."""
    made = Grown()
    made.grow(0, 3, 1.0)
    made.grow(1, 2, 0.0)
    made.grow(2, 2, 0.0, made.at[0, 0], reason="random")
    made.grow(3, 1, 1.0, made.at[0, 1], reason="random")
    made.grow(4, 1, 0.0, made.at[2, 0], reason="random")
    made.grow(5, 1, 0.0, made.at[1, 0], Status.FAILED, reason="random")
    made.grow(6, 1, 0.0, status=Status.CUT)
    made.grow(7, 2, 1.0, reason="fresh")
    return made.tree


def line_of(tree: RolloutTree, leaf: Leaf, **more: Any) -> SavedLine:
    """The line that the engine writes of a leaf."""
    numbers = {node.episode: own.number for own in tree.leaves for node in own.own_nodes()}
    lineage: dict[int, int] = {}
    for node in leaf.start.path()[tree.trunk.depth + 1 :]:
        owner = numbers[node.episode]
        lineage[owner] = lineage.get(owner, 0) + (node.body.kind == "generation")
    branch: dict[str, Any] = {"number": leaf.number, "reason": leaf.reason}
    if lineage:
        branch["lineage"] = [list(pair) for pair in lineage.items()]
    steps = [node for node in leaf.node.path() if node.body.kind == "generation"]
    metadata = {
        "status": str(leaf.status),
        "scored": leaf.reward is not None,
        "group": "t",
        "branch": branch,
        "generations": len(steps),
        "states": [None, *(f"s{step}" for step in range(len(steps) - 1))],
        **more,
    }
    head = Head(f"t~{leaf.number}", "t", leaf.reward == 1.0, metadata)
    return read_saved(encode_line(head, path_messages(leaf.node)))


def assert_same(ones: list[Attempt], others: list[Attempt]) -> None:
    """The same attempts, whatever their steps' keys, and so the same advantages."""
    for one, other in zip(ones, others, strict=True):
        assert (one.group, one.number, one.chain, one.reward) == (other.group, other.number, other.chain, other.reward)
        assert [(step.state, step.observation) for step in one.steps] == [
            (step.state, step.observation) for step in other.steps
        ]
    for name in ESTIMATORS:
        params = {"value": "child_mean"} if name == "at2po" else {}
        rows = zip(step_advantages(ones, name, **params), step_advantages(others, name, **params), strict=True)
        assert all(np.allclose(row, other_row, equal_nan=True) for row, other_row in rows)


def test_a_tree_is_read_with_its_chains_and_without_what_broke() -> None:
    attempts = attempts_of_tree(grown())
    assert [attempt.chain for attempt in attempts] == [0, 1, 0, 0, 0, 1, 6, 7]
    assert [attempt.reward for attempt in attempts] == [1, 0, 0, 1, 0, None, None, 1]
    assert [len(attempt.steps) for attempt in attempts] == [3, 2, 3, 3, 3, 2, 1, 2]
    first, second, third = attempts[0].steps
    assert [step.state for step in (first, second, third)] == [None, "s0", "s1"]
    assert first.observation != second.observation == third.observation


def test_shared_steps_are_one_node() -> None:
    forest, surprisals, paths = forest_of(attempts_of_tree(grown()))
    # The task, and 3 + 2 + 2 + 1 + 1 + 1 + 1 + 2 steps.
    assert len(forest) == 14
    assert np.isnan(surprisals).all()
    assert paths[0][0] == paths[2][0] == paths[3][0] == paths[4][0]
    assert paths[0][1] == paths[3][1] != paths[2][1] == paths[4][1]


def test_lines_say_the_same_as_the_tree() -> None:
    tree = grown()
    of_tree = attempts_of_tree(tree)
    of_lines = attempts_of_lines(line_of(tree, leaf) for leaf in tree.leaves)
    assert_same(of_tree, of_lines)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_step_has_an_advantage_and_what_broke_has_none(name: str) -> None:
    attempts = attempts_of_tree(grown())
    rows = step_advantages(attempts, name, **({"value": "leaf_mean"} if name == "at2po" else {}))
    assert [len(row) for row in rows] == [len(attempt.steps) for attempt in attempts]
    for attempt, row in zip(attempts, rows, strict=True):
        assert np.isnan(row).all() if attempt.reward is None else not np.isnan(row).any()


def test_inter_and_intra_of_the_tree_by_hand() -> None:
    # Known: 1 0 0 1 0 1, mean 1/2. Chain 0 has 1 0 1 0 (attempts 0, 2, 3, 4), mean 1/2. Chains 1 and 7 stand alone.
    rows = step_advantages(attempts_of_tree(grown()), "inter_intra", scale="none")
    assert [row[0] for row in rows if not np.isnan(row[0])] == pytest.approx([1, -0.5, -1, 1, -1, 0.5])


def test_tree_rl_of_the_tree_by_hand() -> None:
    # Six known leaves with the sum 3. A success counts 1 - 2/5 = 3/5, a failure 0 - 3/5 = -3/5; V(root) = 0.
    # Step 0.0 has leaves 0, 2, 3, 4 below: V = 0, so 0. Step 0.1 has 0 and 3: V = 3/5, (3/5 + 3/5) / √2.
    # Step 0.2 has leaf 0: 3/5 + (3/5 - 3/5). Step 2.0 has 2 and 4: V = -3/5, (-3/5 - 3/5) / √2; step 4.0: -3/5 + 0.
    # Step 1.0 has leaf 1 (5 failed): -3/5 - 3/5; step 1.1: -3/5 + 0.
    rows = step_advantages(attempts_of_tree(grown()), "tree_rl")
    assert rows[0] == pytest.approx([0, 1.2 / math.sqrt(2), 0.6])
    assert rows[4] == pytest.approx([0, -1.2 / math.sqrt(2), -0.6])
    assert rows[1] == pytest.approx([-1.2, -0.6])


def test_entropies_come_from_logprobs() -> None:
    made = Grown()
    # Mean surprisal: (x + 3x) / 2 = 2x. Weights exp(2·ln 3 / 2) = 3 and exp(0) … of two first steps.
    made.grow(0, 1, 1.0, logprob=-math.log(3) / 2)
    made.grow(1, 1, 0.0, logprob=-0.0)
    made.grow(2, 1, 0.0, logprob=-0.0)
    attempts = attempts_of_tree(made.tree)
    assert attempts[0].steps[0].surprisal == pytest.approx(math.log(3))
    # V(root) = (3·1 + 1·0 + 1·0) / 5.
    rows = step_advantages(attempts, "at2po", against="root", normalise=False)
    assert np.concatenate(rows) == pytest.approx([1 - 3 / 5, -3 / 5, -3 / 5])


def test_gigpo_takes_the_anchor_that_it_is_told() -> None:
    attempts = attempts_of_tree(grown())
    # By state, second steps of all attempts meet in s0; the first ones have none, so only their episode's ±1/2.
    by_state = step_advantages(attempts, "gigpo", anchor="state", gamma=1.0)
    assert [row[0] for row in by_state if not np.isnan(row[0])] == pytest.approx([0.5, -0.5, -0.5, 0.5, -0.5, 0.5])
    # By what was shown, the first steps are compared too: all six have seen the opening alone.
    by_sight = step_advantages(attempts, "gigpo", anchor="observation", gamma=1.0)
    assert [row[0] for row in by_sight if not np.isnan(row[0])] == pytest.approx([1, -1, -1, 1, -1, 1])


def test_rewards_of_another_rule_are_taken_instead() -> None:
    attempts = attempts_of_tree(grown(), {0: 0.5, 1: 0.25, 5: 0.75})
    assert [attempt.reward for attempt in attempts] == [0.5, 0.25, None, None, None, None, None, None]


def test_lines_of_two_runs_are_not_one_group() -> None:
    tree = grown()
    with pytest.raises(ValueError, match=r"t~0: task t has its attempt 0 twice"):
        attempts_of_lines([line_of(tree, tree.leaves[0]), line_of(tree, tree.leaves[0])])


def test_a_line_without_its_branch_is_an_attempt_of_its_own() -> None:
    said = b'[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]'
    flat = b'{"id": "x", "task_id": "t", "success": true, "messages": ' + said + b"}"
    first, second = attempts_of_lines([read_saved(flat), read_saved(flat.replace(b'"x"', b'"y"'))])
    assert (first.number, second.number, second.chain) == (0, 1, 1)
    assert first.reward is None, "nothing was checked"


def test_an_unknown_estimator_or_parameter_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no estimator 'ppo'; expected one of grpo, rloo, inter_intra, tree_rl"):
        step_advantages([], "ppo")
    with pytest.raises(ConfigError, match=r"rloo: .*unexpected keyword argument 'gamma'"):
        step_advantages([Attempt("t", 0, 0, 1.0, ())], "rloo", gamma=1)


@pytest.mark.parametrize(
    ("name", "given", "problem"),
    [
        ("grpo", {"scale": "sdt"}, "scale: expected one of std, none, got 'sdt'"),
        ("grpo", {"ddof": 2}, "ddof: expected one of 0, 1, got 2"),
        ("inter_intra", {"eps": "small"}, "eps: Expected `float`, got `str`: 'small'"),
        ("tree_rl", {"by_leaves": "no"}, "by_leaves: Expected `bool`, got `str`: 'no'"),
        ("at2po", {"value": "leaf_men"}, "value: expected one of child_softmax, child_mean, leaf_mean, got 'leaf_men'"),
        ("at2po", {"value": "leaf_mean", "against": "x"}, "against: expected one of nothing, parent, root, both"),
        ("gigpo", {"norm": "mean"}, "norm: expected one of mean_norm, mean_std_norm, got 'mean'"),
        ("gigpo", {"anchor": "page"}, "anchor: expected one of state, observation, both, got 'page'"),
    ],
)
def test_a_parameter_that_is_mistyped_is_not_taken_for_another(name: str, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"{name}: {problem}")):
        step_advantages(attempts_of_tree(grown()), name, **given)


def test_numbers_of_numpy_are_numbers() -> None:
    attempts = attempts_of_tree(grown())
    of_numpy = step_advantages(attempts, "gigpo", gamma=np.float64(0.5), weight=np.int64(2))
    for row, expected in zip(of_numpy, step_advantages(attempts, "gigpo", gamma=0.5, weight=2), strict=True):
        np.testing.assert_array_equal(row, expected)


class Watched(RandomTree):
    """Random expansion that keeps the trees it was asked about."""

    trees_seen: ClassVar[dict[str, RolloutTree]] = {}

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        self.trees_seen[tree.task_id] = tree
        return super().after(tree)


async def test_the_file_of_a_run_says_the_same_as_the_trees_it_grew() -> None:
    config = tree_config()
    config["datasets"]["portal"]["record_states"] = True
    config["datasets"]["portal"]["strategy"]["name"] = "tests.trajectories.advantages.test_attempts:Watched"
    await roll_out(config)
    of_lines = attempts_of_lines(read_saved(line) for line in Path("out.jsonl").read_bytes().splitlines())
    of_lines.sort(key=lambda attempt: (attempt.group, attempt.number))
    # The strategy finds its class again by name, so it is not the one in this module.
    watched = importlib.import_module("tests.trajectories.advantages.test_attempts").Watched
    of_trees = [attempt for _, tree in sorted(watched.trees_seen.items()) for attempt in attempts_of_tree(tree)]
    assert len(of_trees) == 40
    assert_same(of_trees, of_lines)


async def test_a_run_of_trees_has_advantages_from_its_file() -> None:
    config = tree_config()
    config["datasets"]["portal"]["record_states"] = True
    await roll_out(config)
    lines = [read_saved(line) for line in Path("out.jsonl").read_bytes().splitlines()]
    attempts = attempts_of_lines(lines)
    forest, _, _ = forest_of(attempts)
    steps = sum(len(attempt.steps) for attempt in attempts)
    assert len(forest) - 4 < steps, "what is shared is one node"
    by_id = {line["id"]: line for line in read_lines(Path("out.jsonl"))}
    made = 0
    for line in by_id.values():
        shared = sum(count for _, count in line["metadata"]["branch"].get("lineage", ()))
        made += line["metadata"]["generations"] - shared
    assert len(forest) - 4 == made
    assert len({attempt.chain for attempt in attempts}) < 10
    for name in ESTIMATORS:
        rows = step_advantages(attempts, name, **({"value": "leaf_mean"} if name == "at2po" else {}))
        assert any(np.abs(row).max() > 0 for row in rows)
