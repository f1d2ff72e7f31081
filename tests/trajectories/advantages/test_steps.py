"""Advantages along trajectories: GiGPO and turn-level GAE."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.trajectories.advantages import Rows, discounted_returns, gigpo, grpo, turn_gae
from tests.trajectories.advantages import slow
from tests.trajectories.advantages.test_groups import same

number = st.floats(-5, 5).map(lambda value: round(value, 3))


@st.composite
def episodes(draw: st.DrawFn) -> list[tuple[str, list[float] | None, list[str | None]]]:
    found = []
    for _ in range(draw(st.integers(1, 6))):
        length = draw(st.integers(1, 5))
        rewards = draw(st.none() | st.lists(number, min_size=length, max_size=length))
        anchors = draw(st.lists(st.none() | st.sampled_from("xyz"), min_size=length, max_size=length))
        found.append((draw(st.sampled_from("ab")), rewards, anchors))
    return found


def flatten(
    given_: list[tuple[str, list[float] | None, list[str | None]]],
) -> tuple[list[float | None], Rows, list[str | None]]:
    rewards: list[float | None] = []
    groups, owners, anchors = [], [], []
    for place, (group, own, states) in enumerate(given_):
        rewards += [None] * len(states) if own is None else own
        groups += [group] * len(states)
        owners += [place] * len(states)
        anchors += states
    return rewards, Rows(groups, trajectories=owners), anchors


def test_returns_by_hand() -> None:
    # 1 + 0.5·0 + 0.25·4 = 2; 0 + 0.5·4 = 2; 4. The other trajectory's steps stand in between.
    rows = Rows(["q"] * 5, trajectories=["t", "u", "t", "u", "t"])
    assert discounted_returns([1, 8, 0, 2, 4], rows, gamma=0.5) == pytest.approx([2, 9, 2, 2, 4])


def test_gigpo_by_hand() -> None:
    # Two episodes of one task: t is solved in two steps, u fails in three. Episode: ±1/2.
    # Returns with gamma 1/2: t has 1/2, 1; u has 0, 0, 0.
    # State s: t's first and u's first two, returns 1/2, 0, 0, mean 1/6. State w: t's second alone. v: u's third alone.
    rewards = [0, 1, 0, 0, 0]
    rows = Rows(["q"] * 5, trajectories=["t", "t", "u", "u", "u"])
    values = gigpo(rewards, rows, ["s", "w", "s", "s", "v"], gamma=0.5).values
    assert values == pytest.approx([1 / 2 + 1 / 3, 1 / 2, -1 / 2 - 1 / 6, -1 / 2 - 1 / 6, -1 / 2])
    values = gigpo(rewards, rows, ["s", "w", "s", "s", "v"], gamma=0.5, weight=0.0).values
    assert values == pytest.approx([1 / 2, 1 / 2, -1 / 2, -1 / 2, -1 / 2])


def test_long_episodes_count_for_more_only_where_asked() -> None:
    # Over steps the mean is 2/5, not 1/2: u's three rows of 0 against t's two rows of 1.
    rows = Rows(["q"] * 5, trajectories=["t", "t", "u", "u", "u"])
    values = gigpo([0, 1, 0, 0, 0], rows, [None] * 5, across_steps=True).values
    assert values == pytest.approx([3 / 5, 3 / 5, -2 / 5, -2 / 5, -2 / 5])


def test_the_same_state_of_another_task_is_another_state() -> None:
    rows = Rows(["p", "p", "q", "q"], trajectories=[0, 1, 2, 3])
    alone = gigpo([1, 0, 1, 0], rows, ["s", "other", "s", "other"]).values
    assert alone == pytest.approx(grpo([1, 0, 1, 0], rows, scale="none").values)


def test_a_step_of_unknown_state_has_only_its_episode() -> None:
    rows = Rows(["q"] * 2, trajectories=[0, 1])
    assert gigpo([1, 0], rows, [None, None]).values == pytest.approx([0.5, -0.5])


def test_gae_by_hand() -> None:
    # gamma 1/2, lambda 1/2. Last turn: 1 + 0 - 0.4 = 0.6. First: 0 + 0.5·0.4 - 0.2 = 0, plus 1/4 of 0.6.
    rows = Rows(["q"] * 2, trajectories=["t", "t"])
    advantages, targets = turn_gae([0, 1], [0.2, 0.4], rows, gamma=0.5, lam=0.5)
    assert advantages.values == pytest.approx([0.15, 0.6])
    assert targets == pytest.approx([0.35, 1.0])
    # Truncated in a state worth 2: the last turn has 0.5·2 more, the first a quarter of that.
    advantages, _ = turn_gae([0, 1], [0.2, 0.4], rows, gamma=0.5, lam=0.5, after=[9, 2])
    assert advantages.values == pytest.approx([0.4, 1.6])


def test_a_trajectory_that_misses_a_number_is_left_out_whole() -> None:
    rows = Rows(["q"] * 4, trajectories=["t", "t", "u", "u"])
    assert np.isnan(discounted_returns([None, 1, 0, 1], rows)).tolist() == [True, True, False, False]
    assert gigpo([0, None, 0, 1], rows, ["s"] * 4).known.tolist() == [False, False, True, True]
    advantages, targets = turn_gae([0, 1, 0, 1], [1, 1, None, 1], rows)
    assert advantages.known.tolist() == [True, True, False, False]
    assert np.isnan(targets).tolist() == [False, False, True, True]


@given(episodes(), st.sampled_from(["mean_norm", "mean_std_norm"]), st.booleans(), st.sampled_from([0.0, 1.0, 0.3]))
def test_gigpo_is_the_slow_one(given_: Any, norm: Any, across_steps: bool, weight: float) -> None:
    rewards, rows, anchors = flatten(given_)
    values = gigpo(rewards, rows, anchors, norm=norm, across_steps=across_steps, weight=weight, gamma=0.9).values
    scale = norm == "mean_std_norm"
    expected = slow.gigpo(given_, weight=weight, gamma=0.9, scale=scale, across_steps=across_steps)
    wanted = np.array([np.nan if value is None else value for row in expected for value in row], dtype=float)
    # Returns that differ by rounding alone are equal to one of the two and not to the other; scaled, that shows.
    assert np.allclose(values, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)


@given(episodes(), st.data(), st.floats(0, 1), st.floats(0, 1))
def test_gae_is_the_sum_over_later_surprises(given_: Any, data: st.DataObject, gamma: float, lam: float) -> None:
    rewards, rows, _ = flatten(given_)
    values = data.draw(st.lists(number, min_size=len(rows), max_size=len(rows)))
    after = data.draw(st.lists(number, min_size=len(rows), max_size=len(rows)))
    found, _ = turn_gae(rewards, values, rows, gamma=gamma, lam=lam, after=after)
    expected: list[float | None] = []
    for _, own, anchors in given_:
        place, end = len(expected), len(expected) + len(anchors)
        expected += (
            [None] * len(anchors) if own is None else slow.gae(own, values[place:end], after[end - 1], gamma, lam)
        )
    assert same(found.values, expected)


@given(episodes(), st.data())
def test_padding_changes_no_step(given_: Any, data: st.DataObject) -> None:
    rewards, rows, anchors = flatten(given_)
    count = data.draw(st.integers(1, 3))
    padded = Rows(
        [*rows.group, *[0] * count],
        trajectories=[*rows.trajectory, *[int(rows.trajectory[-1])] * count],
        is_padding=[*[False] * len(rows), *[True] * count],
    )
    more = [*rewards, *[1.0] * count]
    values = gigpo(more, padded, [*anchors, *["x"] * count]).values
    assert np.allclose(values[:-count], gigpo(rewards, rows, anchors).values, equal_nan=True)
    plain, _ = turn_gae(rewards, [0.5] * len(rows), rows)
    filled, _ = turn_gae(more, [0.5] * len(padded), padded)
    assert np.allclose(filled.values[:-count], plain.values, equal_nan=True)
    assert np.isnan(values[-count:]).all()
    assert np.isnan(filled.values[-count:]).all()
