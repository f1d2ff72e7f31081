"""What each strategy chooses in small trees, worked out by hand."""

from __future__ import annotations

import logging
import math

import msgspec
import pytest

from rollout.config.exploring import StrategyChoice
from rollout.core.errors import ConfigError
from rollout.models.model import Capability, Prefix
from rollout.strategies.arpo import Arpo
from rollout.strategies.chain import Chain
from rollout.strategies.entropy_tree import EntropyTree, warn_without_logprobs
from rollout.strategies.find import make_strategy
from rollout.strategies.mcts import Mcts
from rollout.strategies.points import before, branch_points, leaves_by_chain
from rollout.strategies.random_tree import RandomTree
from rollout.strategies.strategy import Beginning, Expansion
from rollout.strategies.treerl import TreeRl
from rollout.trajectories.line import Head
from rollout.trajectories.stop import Status
from rollout.trajectories.tree import Leaf, Node, NodeBody, RolloutTree
from tests.strategies.trees import generation, grow, make_tree


def starts(expansions: object) -> list[Node]:
    assert isinstance(expansions, list)
    return [expansion.node for expansion in expansions for _ in range(expansion.count)]


# ---- chain --------------------------------------------------------------------------------------------------------


def test_chains_take_the_temperatures_of_their_schedule_in_turn() -> None:
    tree = make_tree()
    asked = list(Chain(n=5, temperature=[0.2, 0.9]).begin(tree))
    assert [expansion.temperature for expansion in asked] == [0.2, 0.9, 0.2, 0.9, 0.2]
    assert starts(asked) == [tree.trunk] * 5
    grow(tree, [None])
    grow(tree, [None])
    assert [expansion.temperature for expansion in Chain(n=5, temperature=[0.2, 0.9]).after(tree)] == [0.2, 0.9, 0.2]


def test_chains_without_a_temperature_leave_it_to_the_agent() -> None:
    assert list(Chain(n=3).begin(tree := make_tree())) == [Expansion(tree.trunk, 3, "init")]
    assert next(iter(Chain(n=2, temperature=0.4).begin(tree))).temperature == 0.4


# ---- random -------------------------------------------------------------------------------------------------------


def test_random_tree_expands_each_chain_in_turn() -> None:
    tree = make_tree(seed=5)
    first = grow(tree, [None, None, None])
    second = grow(tree, [None, None])
    asked = starts(list(RandomTree(trees=2, expansions=3, rounds=1).after(tree)))
    assert len(asked) == 6
    assert set(asked[:3]) <= {tree.trunk, before(first[1]), before(first[2])}
    assert set(asked[3:]) <= {tree.trunk, before(second[1])}


def test_branches_belong_to_the_chain_that_they_grew_from() -> None:
    tree = make_tree()
    grow(tree, [None, None])
    second = grow(tree, [None, None])
    branch = grow(tree, [None, None], start=before(second[1]))
    twig = grow(tree, [None], start=before(branch[1]))
    assert tree.chains() == {0: 0, 1: 1, 2: 1, 3: 1}
    assert branch_points(tree, leaves_by_chain(tree, 2)[1]) == [tree.trunk, before(second[1]), before(branch[1])]
    assert before(twig[0]) is before(branch[1])


def test_what_a_world_shows_first_is_no_place_of_its_own() -> None:
    tree = make_tree()
    shown = NodeBody("observation")
    node = tree.append(tree.append(tree.trunk, shown, 100, 0), generation(), 100, 1)
    tree.add_leaf(Leaf(node, 0, Status.COMPLETED, 0.0, tree.trunk))
    assert before(node) is tree.trunk
    assert branch_points(tree, tree.leaves) == [tree.trunk]


# ---- entropy ------------------------------------------------------------------------------------------------------


def test_entropy_tree_branches_before_the_most_surprising_generations() -> None:
    tree = make_tree()
    one = grow(tree, [0.5, 2.0, 9.0])  # the last is where its attempt ended: no place to branch
    two = grow(tree, [[1.0, 2.0], 0.1, 0.1])  # mean 1.5
    asked = list(EntropyTree(initial=2, expansions=2, rounds=1).after(tree))
    assert starts(asked) == [before(one[1]), before(two[0])]
    assert {expansion.reason for expansion in asked} == {"entropy"}


def test_each_sibling_makes_a_place_less_attractive() -> None:
    tree = make_tree()
    one = grow(tree, [0.1, 2.0, 0.0])
    two = grow(tree, [0.1, 1.93, 0.0])
    strategy = EntropyTree(initial=2, expansions=1, rounds=9)
    assert starts(list(strategy.after(tree))) == [before(one[1])]
    grow(tree, [0.0], start=before(one[1]))
    # 2.0 - 0.05 = 1.95 is still more than 1.93
    assert starts(list(strategy.after(tree))) == [before(one[1])]
    grow(tree, [0.0], start=before(one[1]))
    # 2.0 - 0.10 = 1.90 is not
    assert starts(list(strategy.after(tree))) == [before(two[1])]


def test_entropy_tree_begins_with_its_chains_and_ends_with_its_rounds() -> None:
    tree = make_tree()
    strategy = EntropyTree(initial=3, expansions=2, rounds=2)
    assert strategy.most == 7
    assert EntropyTree().most == 22
    assert list(strategy.begin(tree)) == [Expansion(tree.trunk, 3, "init")]
    grow(tree, [1.0, 1.0])
    assert list(strategy.after(tree)) == [Expansion(tree.trunk, 2, "init")], "given less, it asks for the rest"
    for _ in range(6):
        grow(tree, [1.0, 1.0])
    assert list(strategy.after(tree)) == []


def test_entropy_tree_with_fewer_places_than_expansions_uses_them_again() -> None:
    tree = make_tree()
    one = grow(tree, [1.0, 2.0, 0.0])
    asked = starts(list(EntropyTree(initial=1, expansions=3, rounds=1).after(tree)))
    assert asked == [before(one[1]), before(one[0]), before(one[1])]


def test_without_any_place_to_branch_there_are_fresh_chains() -> None:
    tree = make_tree()
    grow(tree, [1.0])
    assert list(EntropyTree(initial=1, expansions=3, rounds=1).after(tree)) == [Expansion(tree.trunk, 3, "fresh")]


def test_without_logprobs_entropy_tree_chooses_by_chance_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    warn_without_logprobs.cache_clear()
    tree = make_tree(seed=1)
    one = grow(tree, [None, None, None])
    logging.getLogger("rollout").propagate = True
    with caplog.at_level(logging.WARNING, logger="rollout"):
        asked = list(EntropyTree(initial=1, expansions=2, rounds=1).after(tree))
        assert list(EntropyTree(initial=1, expansions=2, rounds=1).after(tree)) == asked
    assert {expansion.reason for expansion in asked} == {"random"}
    assert set(starts(asked)) == {before(one[0]), before(one[1])}
    # One record may be caught by several handlers.
    assert len({id(record) for record in caplog.records if "no logprobs" in record.message}) == 1


# ---- arpo ---------------------------------------------------------------------------------------------------------


def test_arpo_branches_where_a_tool_result_made_the_agent_unsure() -> None:
    tree = make_tree()
    # 0.5 + 0.2 * (5 - 0.5) is more than 1, and 0.5 + 0.2 * (0.5 - 9) less than 0: no chance is left in either.
    one = grow(tree, [0.5, 5.0, 0.5])
    two = grow(tree, [9.0, 0.5, 0.5])
    strategy = Arpo(n=8, initial=2, entropy_weight=0.2)
    asked = list(strategy.after(tree))
    assert before(one[1]) in starts(asked)
    assert all(before(one[0]) is not node for node in starts(asked)), "it followed no tool result"
    assert all(before(node) not in starts(asked) for node in two[1:]), "it had become surer there"
    assert {expansion.reason for expansion in asked} == {"entropy"}


def test_arpo_certain_of_everything_starts_fresh_chains_and_never_duplicates() -> None:
    tree = make_tree()
    grow(tree, [9.0, 0.1, 0.1])
    assert list(Arpo(n=4, initial=1).after(tree)) == [Expansion(tree.trunk, 3, "fresh")]


def test_arpo_looks_at_each_place_once() -> None:
    tree = make_tree()
    one = grow(tree, [0.5, 9.0, 0.0])
    strategy = Arpo(n=9, initial=1, branch_probability=0.0)
    assert starts(list(strategy.after(tree))) == [before(one[1])]
    grow(tree, [9.0], start=before(one[1]))
    # The branch's own first generation is no new place, and the old one is taken.
    assert list(strategy.after(tree)) == [Expansion(tree.trunk, 7, "fresh")]


def test_arpo_takes_as_many_copies_as_its_beam_and_no_more_than_are_missing() -> None:
    tree = make_tree()
    one = grow(tree, [0.5, 9.0, 9.0, 9.0])
    asked = starts(list(Arpo(n=6, initial=1, beam=4).after(tree)))
    assert asked == [before(one[1])] * 3 + [before(one[2])] * 2, "what came after fewer tool results goes first"


def test_entropy_is_read_off_the_alternatives_where_there_are_any() -> None:
    body = generation([0.0, 0.0])
    assert body.generation is not None
    assert body.generation.first_entropy == 0.0
    tokens = body.generation.tokens
    assert tokens is not None
    known = msgspec.structs.replace(tokens, entropies=(math.log(2), 0.0))
    assert msgspec.structs.replace(body.generation, tokens=known).first_entropy == pytest.approx(math.log(2) / 2)


def begun(asked: list[Expansion]) -> list[Prefix]:
    return [expansion.beginning.prefix for expansion in asked if expansion.beginning is not None]


# ---- treerl -------------------------------------------------------------------------------------------------------


def test_treerl_continues_from_before_the_most_surprising_tokens() -> None:
    tree = make_tree()
    one = grow(tree, [generation([9.0, 1.0, 3.0], ids=[1, 2, 3]), generation([8.0, 2.0], ids=[4, 5], calls=False)])
    asked = list(TreeRl(trees=1, tokens=2, continuations=2).after(tree))
    # Surprisals of tokens that are not the first: 1, 3 and 2.
    assert asked == [
        Expansion(before(one[0]), 2, "surprisal", beginning=Beginning(one[0], 2)),
        Expansion(before(one[1]), 2, "surprisal", beginning=Beginning(one[1], 1)),
    ]
    assert begun(asked) == [Prefix((1, 2), (-9.0, -1.0)), Prefix((4,), (-8.0,))]
    assert TreeRl().most == 30


def test_treerl_takes_no_token_twice_and_none_that_a_branch_begins_with() -> None:
    tree = make_tree()
    one = grow(tree, [generation([0.0, 5.0, 1.0], ids=[1, 2, 3], calls=False)])
    grow(tree, [generation([0.0, 7.0, 4.0], ids=[1, 8, 9], calls=False)], continues=one[0])
    asked = list(TreeRl(trees=1, tokens=5, rounds=9, continuations=1).after(tree))
    assert [prefix.ids for prefix in begun(asked)] == [(1, 8), (1, 2)]


def test_treerl_branches_behind_a_shorter_answer_with_the_same_beginning() -> None:
    tree = make_tree()
    short = grow(tree, [generation([0.0, 1.0], ids=[1, 2], calls=False)])
    grow(tree, [generation([0.0, 1.0, 2.0, 3.0], ids=[1, 2, 3, 4], calls=False)], continues=short[0])
    asked = list(TreeRl(trees=1, tokens=5, rounds=9, continuations=1).after(tree))
    assert [prefix.ids for prefix in begun(asked)] == [(1, 2, 3), (1,)]


def test_treerl_takes_its_tokens_from_the_chain_that_was_continued_whatever_the_tokens_look_like() -> None:
    tree = make_tree()
    grow(tree, [generation([0.0, 1.0, 2.0], ids=[1, 2, 3], calls=False)])
    second = grow(tree, [generation([0.0, 1.0, 1.0], ids=[1, 2, 4], calls=False)])
    third = grow(tree, [generation([0.0, 1.0, 1.0, 9.0], ids=[1, 2, 5, 7], calls=False)], continues=second[0])
    grow(tree, [generation([0.0, 1.0, 5.0], ids=[1, 2, 6], calls=False)], continues=third[0])
    assert tree.chains() == {0: 0, 1: 1, 2: 1, 3: 1}
    asked = list(TreeRl(trees=2, tokens=1, rounds=9, continuations=1).after(tree))
    assert [prefix.ids for prefix in begun(asked)] == [(1, 2), (1, 2, 5)], "one of each chain's own"


def test_treerl_needs_a_model_that_goes_on_from_tokens() -> None:
    assert Capability.PREFIX in TreeRl().needs


# ---- mcts ---------------------------------------------------------------------------------------------------------


def test_mcts_tries_the_trunk_until_it_is_wide_enough() -> None:
    tree = make_tree()
    strategy = Mcts(simulations=9, parallel=1, width=2)
    assert list(strategy.begin(tree)) == [Expansion(tree.trunk, 1, "init")]
    grow(tree, [None, None])
    assert starts(list(strategy.after(tree))) == [tree.trunk]


def test_mcts_follows_value_when_it_does_not_explore() -> None:
    tree = make_tree()
    grow(tree, [None, None, None], reward=0.2)
    good = grow(tree, [None, None, None], reward=0.6)
    strategy = Mcts(simulations=9, parallel=1, width=2, exploration=0)
    asked = list(strategy.after(tree))
    assert asked == [Expansion(before(good[1]), 1, "uct")]
    grow(tree, [None, None], start=before(good[1]), reward=0.4)
    # The better action's mean is now 0.5: it is followed to the state behind it, whose actions are worth 0.6 and 0.4.
    assert starts(list(strategy.after(tree))) == [before(good[2])]


def test_mcts_goes_where_few_have_been_when_it_explores() -> None:
    tree = make_tree()
    seldom = grow(tree, [None, None, None], reward=0.5)
    often = grow(tree, [None, None, None], reward=0.6)
    grow(tree, [None, None], start=before(often[1]), reward=0.6)
    grow(tree, [None], start=before(often[2]), reward=0.6)
    # seldom: 0.5 + sqrt(ln 4 / 1) = 1.68; often: 0.6 + sqrt(ln 4 / 3) = 1.28
    assert starts(list(Mcts(simulations=9, parallel=1, exploration=1).after(tree))) == [before(seldom[1])]
    # seldom: 0.5 + 0.1 * 1.18 = 0.62; often: 0.6 + 0.1 * 0.68 = 0.67
    asked = starts(list(Mcts(simulations=9, parallel=1, exploration=0.1).after(tree)))
    assert asked != [before(seldom[1])]


def test_virtual_loss_sends_attempts_of_one_round_apart() -> None:
    tree = make_tree()
    one = grow(tree, [None, None, None], reward=0.5)
    two = grow(tree, [None, None, None], reward=0.5)
    asked = starts(list(Mcts(simulations=9, parallel=2, width=2).after(tree)))
    assert set(asked) == {before(one[1]), before(two[1])}


def test_mcts_with_nothing_left_to_expand_starts_a_fresh_chain() -> None:
    tree = make_tree()
    grow(tree, [None])
    grow(tree, [None])
    assert list(Mcts(simulations=9, parallel=1, width=2).after(tree)) == [Expansion(tree.trunk, 1, "init")]


def test_mcts_reads_partial_credit_off_the_record() -> None:
    tree = make_tree()
    for partial in (0.1, 0.9):
        grow(tree, [None, None])
        scores = [{"name": "actions", "value": 0.0, "partial": partial, "decides": True}]
        leaf = tree.leaves.pop()
        head = Head("task", "task", False, {"status": "completed", "scored": True, "scores": scores})
        tree.add_leaf(Leaf(leaf.node, leaf.number, leaf.status, leaf.reward, leaf.start, leaf.reason, head))
    better = tree.leaves[1].own_nodes()
    asked = starts(list(Mcts(simulations=9, parallel=1, exploration=0).after(tree)))
    assert asked == [better[1]], "the state behind the first generation of the better attempt"


# ---- making them --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (
            {"name": "entropy_tree", "params": {"inital": 3}},
            r"strategy entropy_tree: params.inital: .*did you mean 'ini",
        ),
        ({"name": "mcts", "params": {"width": 0}}, r"strategy mcts: params.width: .*greater than or equal to 1, got 0"),
        ({"name": "mcts", "params": {"value": "luck"}}, r"params.value: .*no rule 'luck'"),
        ({"name": "arpo", "params": {"n": 2, "initial": 3}}, r"initial is 3, which is more than n \(2\)"),
        ({"name": "chain", "params": {"temperature": -1}}, r"params.temperature"),
        ({"name": "forest"}, r"there is no 'forest'; known: chain, random_tree"),
    ],
)
def test_wrong_parameters_are_refused_by_key_and_hint(choice: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make_strategy(StrategyChoice.model_validate(choice))


def test_samples_are_the_chains_unless_n_says_otherwise() -> None:
    assert make_strategy(StrategyChoice(), 3).most == 3
    assert make_strategy(StrategyChoice(params={"n": 5}), 3).most == 5


def test_a_failed_tree_is_begun_again_from_the_trunk() -> None:
    tree: RolloutTree = make_tree()
    grow(tree, [None, None], status=Status.FAILED, reward=None)
    assert starts(list(Mcts(simulations=3, parallel=1).after(tree))) == [tree.trunk]
