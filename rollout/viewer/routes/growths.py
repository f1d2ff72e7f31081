"""Endpoints about attempts that go on from a step, because a person asked for them."""

from __future__ import annotations

import msgspec

from rollout.pipelines.people.growth import Growth, GrowthWish, plan_growth
from rollout.viewer.answers.people import Growth as ShownGrowth
from rollout.viewer.asked import shown_growth
from rollout.viewer.desk import Desk
from rollout.viewer.endpoint import Call, Endpoint
from rollout.viewer.errors import Refused

MOST_GROWN = 1000
"""Attempts of one growth."""


class NewGrowth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Attempts that are wished for, behind a message of an attempt."""

    dataset: str
    id: str
    message: int
    n: int = 1
    model: str | None = None
    user_model: str | None = None
    temperature: float | None = None


async def add_growth(call: Call) -> ShownGrowth:
    """Grow attempts."""
    given: NewGrowth = call.body
    if given.n > MOST_GROWN:
        raise Refused(400, f"n: expected at most {MOST_GROWN} attempts at once, got {given.n}")
    wish = GrowthWish(
        author=call.author,
        message=given.message,
        count=given.n,
        model=given.model or None,
        user_model=given.user_model or None,
        temperature=given.temperature,
    )
    desk = call.viewer.desk(call.run)
    async with desk.writing() as people:
        growth = await plan_growth(people, given.dataset, given.id, wish)
        desk.start(growth)
    return await show(desk, growth)


async def list_growths(call: Call) -> list[ShownGrowth]:
    """All growths, those in which a person plays included."""
    desk = call.viewer.desk(call.run)
    growths = await desk.growths()
    if not growths:
        return []
    return await desk.reading(lambda journal: [shown_growth(desk, journal, growth) for growth in growths])


async def stop(call: Call) -> ShownGrowth:
    """End a growth where it stands."""
    desk = call.viewer.desk(call.run)
    return await show(desk, await desk.stop(await desk.read(number_of(call))))


async def resume(call: Call) -> ShownGrowth:
    """Go on with a growth that was stopped, or that an earlier server did not finish."""
    desk = call.viewer.desk(call.run)
    growth = await desk.read(number_of(call))
    desk.start(growth)
    return await show(desk, growth)


async def show(desk: Desk, growth: Growth) -> ShownGrowth:
    """A growth, as it is now."""
    return await desk.reading(lambda journal: shown_growth(desk, journal, growth))


def number_of(call: Call) -> int:
    """The number in the address."""
    try:
        return int(call.path["number"])
    except ValueError as error:
        raise Refused(404, f"{call.path['number'][:50]!r}: expected a number") from error


ENDPOINTS = (
    Endpoint(path="runs/{run}/growths", summary="All growths", handle=list_growths, answer=list[ShownGrowth]),
    Endpoint(
        path="runs/{run}/growths",
        summary="Grow attempts that go on behind a message",
        handle=add_growth,
        answer=ShownGrowth,
        method="POST",
        body=NewGrowth,
        writes=True,
    ),
    Endpoint(
        path="runs/{run}/growths/{number}/stop",
        summary="End a growth where it stands",
        handle=stop,
        answer=ShownGrowth,
        method="POST",
        writes=True,
    ),
    Endpoint(
        path="runs/{run}/growths/{number}/resume",
        summary="Go on with a growth that was stopped or interrupted",
        handle=resume,
        answer=ShownGrowth,
        method="POST",
        writes=True,
    ),
)
