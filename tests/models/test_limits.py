"""Limits: windows that hold in every minute, concurrency that backs off and grows again."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.models.limits import Limiter, Window


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(1, 5)), min_size=1, max_size=60), st.integers(5, 20))
def test_no_minute_ever_holds_more_than_the_limit(arrivals: list[tuple[float, int]], limit: int) -> None:
    window = Window(limit)
    now = 0.0
    spent: list[tuple[float, int]] = []
    for pause, amount in arrivals:
        now += pause
        while (delay := window.delay(amount, now)) > 0:
            now += delay
        window.spend(amount, now)
        spent.append((now, amount))
    for start, _ in spent:
        assert sum(amount for when, amount in spent if start <= when < start + 60) <= limit


def test_request_larger_than_the_whole_limit_goes_through_an_empty_window() -> None:
    window = Window(10)
    assert window.delay(50, now=0.0) == 0.0
    window.spend(50, now=0.0)
    assert window.delay(1, now=1.0) == pytest.approx(59.0)


async def test_places_are_given_in_the_order_asked() -> None:
    limiter = Limiter(max_concurrency=1)
    await limiter.enter()
    order: list[int] = []

    async def wait(number: int) -> None:
        await limiter.enter()
        order.append(number)
        limiter.leave()

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(wait(number))
        await asyncio.sleep(0)
        assert order == []
        limiter.leave()
    assert order == [0, 1, 2, 3, 4]
    assert limiter.in_flight == 0


async def test_cancelled_waiter_takes_no_place() -> None:
    limiter = Limiter(max_concurrency=1)
    await limiter.enter()
    waiting = asyncio.get_running_loop().create_task(limiter.enter())
    await asyncio.sleep(0)
    waiting.cancel()
    limiter.leave()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert limiter.in_flight == 0
    await limiter.enter()
    assert limiter.in_flight == 1


async def test_one_burst_of_overloads_cuts_once_and_successes_grow_it_back() -> None:
    limiter = Limiter(max_concurrency=20)
    for _ in range(20):
        await limiter.enter()
    for _ in range(20):
        limiter.leave_failed(is_overload=True)
    assert limiter.cuts == 1
    assert limiter.limit == pytest.approx(14.0)
    for _ in range(500):
        await limiter.enter()
        limiter.leave()
    assert limiter.limit == 20.0


async def test_unlimited_model_gets_a_limit_when_it_is_overloaded() -> None:
    limiter = Limiter()
    for _ in range(10):
        await limiter.enter()
    limiter.leave_failed(is_overload=True)
    assert limiter.limit == pytest.approx(7.0)


async def test_plain_error_does_not_lower_the_limit() -> None:
    limiter = Limiter(max_concurrency=4)
    await limiter.enter()
    limiter.leave_failed(is_overload=False)
    assert (limiter.limit, limiter.in_flight) == (4.0, 0)
