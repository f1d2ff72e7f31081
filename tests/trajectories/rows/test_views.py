"""Rows and trees of tokens are views: whatever the attempts, nothing sampled is lost, doubled or made up."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rollout.trajectories.rows.breaks import break_in_ids
from rollout.trajectories.rows.exchange import Exchange
from rollout.trajectories.rows.stretches import per_step, prefix_merge
from rollout.trajectories.rows.token_rows import NOT_LEARNT, TokenRow, TokenSpan, token_row
from rollout.trajectories.rows.token_tree import TokenTree, build_tree
from tests.trajectories.rows.made import Grown, grown

Loss = Callable[[tuple[int, ...]], float]


def rows_of(tree: Grown, advantages: Sequence[float] | None = None) -> list[TokenRow]:
    rows = []
    for number, path in enumerate(tree.paths):
        for stretch in prefix_merge(path, break_in_ids):
            own = None if advantages is None else [advantages[number]] * len(stretch.exchanges)
            rows.append(token_row(f"a~{number}", stretch, own))
    return rows


def sampled(row: TokenRow) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """What each learnt span saw before it, and what it is."""
    found, begin = [], 0
    for span in row.spans:
        end = begin + span.length
        if span.is_learnt:
            found.append((tuple(row.ids[:begin]), tuple(row.ids[begin:end])))
        begin = end
    assert begin == len(row.ids)
    return found


def as_exchanges(exchanges: Sequence[Exchange]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [
        (tuple(exchange.ids.prompt), tuple(exchange.ids.completion))
        for exchange in exchanges
        if exchange.ids is not None and exchange.is_learnt
    ]


@given(grown())
def test_a_merged_row_ends_only_where_the_prefix_breaks(tree: Grown) -> None:
    for path, broken in zip(tree.paths, tree.broken, strict=True):
        stretches = list(prefix_merge(path, break_in_ids))
        assert [stretch.first for stretch in stretches] == [
            place for place, cut in enumerate(broken) if cut or not place
        ]
        assert stretches[0].begins == "start"
        assert all(stretch.begins != "start" for stretch in stretches[1:])


@given(grown())
def test_every_answer_is_learnt_once_behind_exactly_what_its_model_was_given(tree: Grown) -> None:
    for number, path in enumerate(tree.paths):
        merged = [token_row("a", stretch) for stretch in prefix_merge(path, break_in_ids)]
        single = [token_row("a", stretch) for stretch in per_step(path)]
        assert [part for row in merged for part in sampled(row)] == as_exchanges(path), number
        assert [part for row in single for part in sampled(row)] == as_exchanges(path), number


@given(grown(), st.floats(-2, 2))
def test_no_token_that_was_not_sampled_has_a_loss_a_logprob_or_an_advantage(tree: Grown, advantage: float) -> None:
    for row in rows_of(tree, [advantage] * len(tree.paths)):
        assert row.logprobs is not None
        assert row.advantages is not None
        columns = (row.ids, row.loss_mask, row.labels, row.logprobs, row.advantages)
        assert len({len(column) for column in columns}) == 1
        begin = 0
        for span in row.spans:
            for place in range(begin, begin + span.length):
                if span.key is None:
                    assert (row.loss_mask[place], row.labels[place]) == (0, NOT_LEARNT)
                    assert (row.logprobs[place], row.advantages[place]) == (0, 0)
                else:
                    assert row.logprobs[place] < 0
                    assert row.loss_mask[place] == span.is_learnt
                    assert row.advantages[place] == (advantage if span.is_learnt else 0)
            begin += span.length


@given(grown())
def test_rows_come_back_from_the_tree_and_make_the_same_tree(tree: Grown) -> None:
    rows = rows_of(tree)
    built = build_tree(rows)
    assert list(built.rows()) == rows
    assert build_tree(list(built.rows())) == built


@given(grown())
def test_a_tree_holds_what_attempts_share_once_and_in_depth_first_order(tree: Grown) -> None:
    built = build_tree(rows_of(tree))
    steps = [node.span.key for node in built.nodes if node.span.key is not None]
    made = {exchange.key for path in tree.paths for exchange in path}
    assert sorted(steps) == sorted(made), "each step is one node, however many attempts share it"
    open_path: list[int] = []
    for number, node in enumerate(built.nodes):
        while open_path and open_path[-1] != node.parent:
            open_path.pop()
        assert node.parent == (open_path[-1] if open_path else -1)
        assert node.position == sum(built.nodes[above].span.length for above in open_path)
        open_path.append(number)


def hashed(prefix: tuple[int, ...]) -> float:
    """A loss that depends on a token and on everything before it."""
    return math.sin(hash(prefix) % 1000)


def mean_over_leaves(rows: Sequence[TokenRow], loss: Loss, trajectories: int) -> float:
    total = 0.0
    for row in rows:
        shares = row.advantages if row.advantages is not None else array("d", [1.0]) * len(row.ids)
        for place, learnt in enumerate(row.loss_mask):
            total += learnt * shares[place] * loss(tuple(row.ids[: place + 1]))
    return total / trajectories


def sum_over_nodes(tree: TokenTree, loss: Loss) -> float:
    total = 0.0
    before: list[tuple[int, ...]] = []
    for node in tree.nodes:
        prefix = before[node.parent] if node.parent >= 0 else ()
        shares = node.advantages if node.advantages is not None else array("d", [1.0]) * len(node.ids)
        for place in range(len(node.ids)):
            seen = (*prefix, *node.ids[: place + 1])
            total += node.weight * node.span.is_learnt * shares[place] * loss(seen)
        before.append((*prefix, *node.ids))
    return total


@given(grown())
def test_weighted_sum_over_the_tree_is_the_mean_over_leaves_of_any_loss(tree: Grown) -> None:
    rows = rows_of(tree)
    expected = mean_over_leaves(rows, hashed, len(tree.paths))
    assert math.isclose(sum_over_nodes(build_tree(rows), hashed), expected, abs_tol=1e-9)


@given(grown(), st.lists(st.floats(-3, 3), min_size=5, max_size=5))
def test_the_same_holds_with_each_leafs_own_advantage(tree: Grown, advantages: list[float]) -> None:
    rows = rows_of(tree, advantages)
    expected = mean_over_leaves(rows, hashed, len(tree.paths))
    assert math.isclose(sum_over_nodes(build_tree(rows), hashed), expected, abs_tol=1e-9)


def test_weights_of_a_tree_of_whole_rows_are_leaves_below_over_leaves_in_all() -> None:
    def row(name: str, *parts: tuple[list[int], tuple[int, int] | None]) -> TokenRow:
        ids = array("I", [token for part, _ in parts for token in part])
        return TokenRow(name, ids, tuple(TokenSpan(len(part), key, key is not None) for part, key in parts))

    shared = ([1, 2], None), ([3], (0, 0)), ([4], None)
    tree = build_tree(
        [row("a", *shared, ([5], (0, 1))), row("b", *shared, ([5], (1, 1))), row("c", ([1, 2], None), ([3], (2, 0)))]
    )
    assert [node.weight for node in tree.nodes] == [1, 2 / 3, 2 / 3, 1 / 3, 1 / 3, 1 / 3]
    assert [node.parent for node in tree.nodes] == [-1, 0, 1, 2, 2, 0]
    assert sum(node.span.length for node in tree.nodes) == 7, "of 13 tokens in rows"


def test_what_steps_share_inside_an_answer_is_there_once() -> None:
    # Step (1, 0) went on from two tokens of (0, 0), (2, 0) from three of it, and (3, 0) from three of (1, 0).
    answers = {
        (0, 0): ([5, 6, 7, 8], None),
        (1, 0): ([5, 6, 9, 9], ((0, 0), 2)),
        (2, 0): ([5, 6, 7, 4], ((0, 0), 3)),
        (3, 0): ([5, 6, 9, 3], ((1, 0), 3)),
    }
    rows = [
        TokenRow(
            f"a~{key[0]}",
            array("I", [1, *ids]),
            (TokenSpan(1), TokenSpan(4, key, True, given)),
            advantages=array("d", [0.0, *[float(key[0])] * 4]),
        )
        for key, (ids, given) in answers.items()
    ]
    tree = build_tree(rows)
    assert [(node.ids.tolist(), node.parent, node.weight, node.span.key) for node in tree.nodes] == [
        ([1], -1, 1, None),
        ([5, 6], 0, 1, (0, 0)),
        ([7], 1, 0.5, (0, 0)),
        ([8], 2, 0.25, (0, 0)),
        ([4], 2, 0.25, (2, 0)),
        ([9], 1, 0.5, (1, 0)),
        ([9], 5, 0.25, (1, 0)),
        ([3], 5, 0.25, (3, 0)),
    ]
    assert [row.ids for row in tree.rows()] == [row.ids for row in rows]
    assert build_tree(list(tree.rows())).nodes == [
        msgspec.structs.replace(node, advantages=None) for node in tree.nodes
    ]
    assert math.isclose(sum_over_nodes(tree, hashed), mean_over_leaves(rows, hashed, 4), abs_tol=1e-9)
