"""Distributions, and what failures have in common."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rollout.pipelines.runs.stats import distribution


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=300))
def test_bins_hold_every_value_once_and_percentiles_are_values(values: list[int]) -> None:
    found = distribution(values)
    assert found is not None
    assert sum(each.count for each in found.bins) == found.count == len(values)
    assert found.bins[0].low == found.least == min(values)
    assert found.bins[-1].high >= found.most == max(values)
    assert all(each.count == sum(each.low <= value <= each.high for value in values) for each in found.bins)
    assert found.least <= found.p50 <= found.p90 <= found.p99 <= found.most
    assert {found.p50, found.p90, found.p99} <= set(values)


@given(st.lists(st.floats(0, 1000, allow_nan=False), min_size=1, max_size=300))
def test_bins_of_measured_times_hold_every_value_once(values: list[float]) -> None:
    found = distribution(values)
    assert found is not None
    assert sum(each.count for each in found.bins) == len(values)


def test_percentiles_of_a_hundred() -> None:
    found = distribution(range(1, 101))
    assert found is not None
    assert (found.p50, found.p90, found.p99, found.mean) == (50, 90, 99, 50.5)


def test_nothing_has_no_distribution() -> None:
    assert distribution([]) is None
