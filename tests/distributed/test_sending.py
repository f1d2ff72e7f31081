"""What a worker sends: everything, in order, in parcels of bounded size, acknowledged by asking for the next."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.distributed import sending
from rollout.distributed.sending import Parcel, Sending
from rollout.distributed.wire import File, Logged, ToDriver, encode, read_by_driver

SIZES = st.lists(st.integers(0, 3000), max_size=40)


@given(SIZES, st.integers(0, 40))
def test_everything_arrives_once_in_order_and_in_bounded_parcels(sizes: list[int], early: int) -> None:
    records: list[ToDriver] = [File(f"f{number}", b"x" * size) for number, size in enumerate(sizes)]

    async def travel() -> list[list[ToDriver]]:
        queue = Sending()
        parcels = []
        for record in records[:early]:
            queue.add(record)
        if records[:early]:
            parcels.append(read_by_driver(await queue.take(1)))
        for record in records[early:]:
            queue.add(record)
        queue.end()
        while parcel := read_by_driver(await queue.take(1)):
            parcels.append(parcel)
        return parcels

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sending, "PARCEL_BYTES", 4000)
        patch.setattr(sending, "GATHER_SECONDS", 0)
        parcels = asyncio.run(travel())
    assert [record for parcel in parcels for record in parcel] == records
    for parcel in parcels:
        assert len(parcel) == 1 or sum(len(encode(record)) for record in parcel) <= 4000


async def test_a_parcel_has_arrived_when_the_next_is_asked_for_and_not_before() -> None:
    queue = Sending()
    first = queue.add(Logged(30, "one"))
    await queue.take(1)
    second = queue.add(Logged(30, "two"))
    assert isinstance(first, Parcel)
    assert not first.arrived.is_set()
    await queue.take(1)
    assert first.arrived.is_set()
    assert not second.arrived.is_set()


async def test_a_worker_without_anything_to_say_gives_a_sign_of_life() -> None:
    assert read_by_driver(await Sending().take(0.001)) == []
