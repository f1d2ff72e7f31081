"""pass@k and pass^k against counting all draws."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.trajectories.passk import pass_table


@st.composite
def draws(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(1, 8))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(draws())
def test_figures_are_those_of_all_draws(case: tuple[int, int, int]) -> None:
    n, c, k = case
    attempts = [True] * c + [False] * (n - c)
    all_draws = list(itertools.combinations(attempts, k))
    figures = pass_table([(n, c)])[k - 1]
    assert figures.at == pytest.approx(sum(map(any, all_draws)) / len(all_draws))
    assert figures.all == pytest.approx(sum(map(all, all_draws)) / len(all_draws))


@given(st.lists(st.integers(0, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), max_size=6))
def test_table_leaves_out_tasks_with_too_few_attempts(groups: list[tuple[int, int]]) -> None:
    table = pass_table(groups)
    assert [entry.k for entry in table] == list(range(1, max([n for n, _ in groups], default=0) + 1))
    for entry in table:
        enough = [(n, c) for n, c in groups if n >= entry.k]
        assert entry.tasks == len(enough)
        assert entry.at == pytest.approx(sum(pass_table([group])[entry.k - 1].at for group in enough) / len(enough))
        assert 0 <= entry.all <= entry.at <= 1


def test_more_solved_attempts_than_were_made_are_refused() -> None:
    for bad in ((2, 3), (2, -1)):
        with pytest.raises(ValueError, match="attempts"):
            pass_table([bad])


def test_a_task_with_thousands_of_attempts_has_the_figures_of_one_with_few() -> None:
    few, many = pass_table([(4, 1)]), pass_table([(4000, 1000)])
    assert many[0].at == few[0].at == 0.25
    assert many[999].at == 1.0
    assert many[3999] == type(few[0])(4000, 1, 1.0, 0.0)
