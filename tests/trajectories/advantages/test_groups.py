"""Advantages in groups: by hand, by properties, and against the slow ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.trajectories.advantages import (
    Rows,
    constant_rows,
    group_statistics,
    grpo,
    inter_intra,
    rloo,
)
from tests.trajectories.advantages import slow

rewards_of_any = st.one_of(
    st.none(), st.sampled_from([0.0, 1.0, 0.5]), st.floats(-10, 10).map(lambda value: round(value, 3))
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[float | None], list[str]]:
    size = draw(st.integers(1, 20))
    rewards = draw(st.lists(rewards_of_any, min_size=size, max_size=size))
    groups = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=size, max_size=size))
    return rewards, groups


def same(values: Any, expected: list[float | None]) -> bool:
    wanted = np.array([np.nan if value is None else value for value in expected], dtype=float)
    return np.allclose(values, wanted, rtol=1e-7, atol=1e-9, equal_nan=True)


# ---- by hand --------------------------------------------------------------------------------------------------------


def test_grpo_by_hand() -> None:
    # Group a: 1, 0, 0, 1 has the mean 1/2. Deviations ±1/2, squares 1/4, sum 1: std with ddof 1 is √(1/3), with 0, 1/2.
    # Group b: 3, 1 has the mean 2, deviations ±1, sum of squares 2: std with ddof 1 is √2, with ddof 0 it is 1.
    rewards, rows = [1, 3, 0, 0, 1, 1], Rows(["a", "b", "a", "a", "b", "a"])
    a, b = 0.5 / (math.sqrt(1 / 3) + 1e-6), 1 / (math.sqrt(2) + 1e-6)
    assert grpo(rewards, rows).values == pytest.approx([a, b, -a, -a, -b, a])
    a, b = 0.5 / (0.5 + 1e-6), 1 / (1 + 1e-6)
    assert grpo(rewards, rows, ddof=0).values == pytest.approx([a, b, -a, -a, -b, a])
    assert grpo(rewards, rows, scale="none").values == pytest.approx([0.5, 1, -0.5, -0.5, -1, 0.5])


def test_rloo_by_hand() -> None:
    # 1 against the mean of 0, 0, 2: 1 - 2/3. 0 against 1, 0, 2: 0 - 1. 2 against 1, 0, 0: 2 - 1/3.
    assert rloo([1, 0, 0, 2], Rows([7, 7, 7, 7])).values == pytest.approx([1 / 3, -1, -1, 5 / 3])


def test_inter_and_intra_by_hand() -> None:
    # Six leaves of one task: chain 0 has 1, 0, 1 and chain 1 has 0, 0, 0, means only.
    # Over all: mean 2/6. Over chain 0: mean 2/3. Over chain 1: constant, so 0.
    values = inter_intra([1, 0, 1, 0, 0, 0], Rows(["q"] * 6), [0, 0, 0, 1, 1, 1], scale="none").values
    inside = 1 - 1 / 3 + 1 - 2 / 3
    outside = 0 - 1 / 3 + 0 - 2 / 3
    assert values == pytest.approx([inside, outside, inside, -1 / 3, -1 / 3, -1 / 3])


def test_chains_of_two_tasks_are_not_mixed() -> None:
    # Both tasks have a chain 0; together they would have the mean 1/2.
    values = inter_intra([1, 1, 0, 0], Rows(["p", "p", "q", "q"]), [0, 0, 0, 0]).values
    assert values.tolist() == [0, 0, 0, 0]


def test_a_group_of_one_has_no_advantage() -> None:
    for estimate in (grpo, rloo):
        assert estimate([5.0, 1.0, 0.0], Rows(["alone", "b", "b"])).values[0] == 0.0


def test_equal_rewards_have_exactly_no_advantage() -> None:
    # The mean of three times 0.1 is not 0.1 in floats; over 1e-6 that would be noise.
    assert grpo([0.1, 0.1, 0.1], Rows([0, 0, 0]), eps=0.0).values.tolist() == [0, 0, 0]
    assert rloo([0.1, 0.1, 0.1], Rows([0, 0, 0])).values.tolist() == [0, 0, 0]


def test_segments_count_once_and_share_their_advantage() -> None:
    # Four chains with rewards 1, 1, 0, 1 in 3, 3, 1 and 2 segments: the group's mean is 3/4, not 8/9, and the first
    # segments of a success are not failures.
    chains = [0, 0, 0, 1, 1, 1, 2, 3, 3]
    rewards = [1, 1, 1, 1, 1, 1, 0, 1, 1]
    values = grpo(rewards, Rows(["q"] * 9, trajectories=chains), scale="none").values
    assert values == pytest.approx([0.25] * 6 + [-0.75] + [0.25] * 2)


def test_a_reward_on_the_last_segment_alone_is_refused() -> None:
    with pytest.raises(ValueError, match=r"row 1 has 1, but the same trajectory has 0 in row 0"):
        grpo([0, 1, 0], Rows(["q", "q", "q"], trajectories=["t", "t", "u"]))


def test_a_padding_row_changes_nothing() -> None:
    # The published padding copies the last row, uid and reward with it: 4/7 and 0.535 became 5/8 and 0.518.
    rewards = [1, 0, 1, 0, 1, 0, 1]
    plain = group_statistics(rewards, Rows(["q"] * 7))
    padded = group_statistics([*rewards, 1], Rows(["q"] * 8, is_padding=[False] * 7 + [True]))
    assert (padded.mean[0], padded.std[0]) == (plain.mean[0], plain.std[0])
    assert (plain.mean[0], plain.std[0]) == pytest.approx((4 / 7, math.sqrt((4 * (3 / 7) ** 2 + 3 * (4 / 7) ** 2) / 6)))


def test_what_has_no_reward_is_left_out_and_masked() -> None:
    advantages = grpo([1.0, None, 0.0], Rows(["q"] * 3), scale="none")
    assert advantages.known.tolist() == [True, False, True]
    assert np.isnan(advantages.values[1])
    assert advantages.zeroed().tolist() == [0.5, 0.0, -0.5]


def test_groups_that_teach_nothing_are_found() -> None:
    rewards = [1, 1, 1, 0, 0.5, None, None, 1, 0]
    groups = ["same", "same", "both", "both", "alone", "alone", "none", "padded", "padded"]
    rows = Rows(groups, is_padding=[False] * 8 + [True])
    assert constant_rows(rewards, rows).tolist() == [True, True, False, False, True, True, True, True, True]


def test_an_infinite_reward_is_refused() -> None:
    with pytest.raises(ValueError, match="row 1 is infinite"):
        grpo([0.0, math.inf], Rows([0, 0]))


def test_nothing_has_no_advantages() -> None:
    assert grpo([], Rows([])).values.shape == (0,)
    assert rloo([], Rows([])).values.shape == (0,)


# ---- properties -----------------------------------------------------------------------------------------------------


@given(batches(), st.sampled_from(["std", "none"]), st.sampled_from([0, 1]))
def test_grpo_is_the_slow_one(batch: tuple[list[float | None], list[str]], scale: Any, ddof: int) -> None:
    rewards, groups = batch
    expected = slow.grpo(rewards, groups, scale=scale == "std", ddof=ddof)
    assert same(grpo(rewards, Rows(groups), scale=scale, ddof=ddof).values, expected)


@given(batches())
def test_rloo_is_the_slow_one_and_grpo_without_scale_stretched(batch: tuple[list[float | None], list[str]]) -> None:
    rewards, groups = batch
    rows = Rows(groups)
    values = rloo(rewards, rows).values
    assert same(values, slow.rloo(rewards, groups))
    count = group_statistics(rewards, rows).count[rows.group]
    stretched = grpo(rewards, rows, scale="none").values * np.where(count > 1, count / np.maximum(count - 1, 1), 1)
    assert np.allclose(values, stretched, equal_nan=True)


@given(batches(), st.sampled_from(["std", "none"]))
def test_advantages_of_a_group_add_up_to_nothing(batch: tuple[list[float | None], list[str]], scale: Any) -> None:
    rewards, groups = batch
    advantages = grpo(rewards, Rows(groups), scale=scale).zeroed()
    for group in set(groups):
        assert abs(sum(advantages[[own == group for own in groups]])) < 1e-6


@given(batches(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(batch: tuple[list[float | None], list[str]], chance: Any) -> None:
    rewards, groups = batch
    order = list(range(len(rewards)))
    chance.shuffle(order)
    shuffled = Rows([groups[place] for place in order])
    for estimate in (grpo, rloo):
        plain = estimate(rewards, Rows(groups)).values
        assert np.allclose(estimate([rewards[place] for place in order], shuffled).values, plain[order], equal_nan=True)


@given(batches(), st.data())
def test_padding_anywhere_changes_no_real_row(batch: tuple[list[float | None], list[str]], data: st.DataObject) -> None:
    rewards, groups = batch
    plain = [grpo(rewards, Rows(groups)).values, inter_intra(rewards, Rows(groups), [0] * len(groups)).values]
    is_padding = [False] * len(rewards)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(rewards)))
        rewards = [*rewards[:place], data.draw(st.sampled_from([None, 0.0, 99.0, math.inf])), *rewards[place:]]
        groups = [*groups[:place], data.draw(st.sampled_from(["a", "b", "new"])), *groups[place:]]
        is_padding = [*is_padding[:place], True, *is_padding[place:]]
    rows = Rows(groups, is_padding=is_padding)
    padded = [grpo(rewards, rows).values, inter_intra(rewards, rows, [0] * len(groups)).values]
    real = ~np.array(is_padding)
    for before, after in zip(plain, padded, strict=True):
        assert np.allclose(after[real], before, equal_nan=True)
        assert np.isnan(after[~real]).all()


@given(batches(), st.data())
def test_cutting_trajectories_into_segments_changes_none(
    batch: tuple[list[float | None], list[str]], data: st.DataObject
) -> None:
    rewards, groups = batch
    places = [place for place in range(len(rewards)) for _ in range(data.draw(st.integers(1, 4)))]
    rows = Rows([groups[place] for place in places], trajectories=places)
    for estimate in (grpo, rloo):
        plain = estimate(rewards, Rows(groups)).values
        assert np.allclose(estimate([rewards[place] for place in places], rows).values, plain[places], equal_nan=True)


@given(batches())
def test_where_nothing_branched_the_tree_is_grpo(batch: tuple[list[float | None], list[str]]) -> None:
    rewards, groups = batch
    rows = Rows(groups)
    apart = inter_intra(rewards, rows, list(range(len(rewards)))).values
    assert np.allclose(apart, grpo(rewards, rows).values, equal_nan=True)


@given(batches(), st.data())
def test_inter_and_intra_is_the_slow_one(batch: tuple[list[float | None], list[str]], data: st.DataObject) -> None:
    rewards, groups = batch
    chains = data.draw(st.lists(st.integers(0, 2), min_size=len(groups), max_size=len(groups)))
    inter, intra = slow.grpo(rewards, groups), slow.grpo(rewards, list(zip(groups, chains, strict=True)))
    expected = [None if a is None or b is None else a + b for a, b in zip(inter, intra, strict=True)]
    assert same(inter_intra(rewards, Rows(groups), chains).values, expected)
