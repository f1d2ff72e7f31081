"""Endpoints for growths: attempts that continue another attempt at a step, at the request of a person."""

from __future__ import annotations

import logging
import re

import msgspec

from rollout.core.errors import JournalError
from rollout.pipelines.people.growth import Growth, GrowthWish, plan_growth
from rollout.pipelines.people.growth_refusals import refuse_imported_models
from rollout.viewer.answers.people import GrowthAnswer
from rollout.viewer.editor import RunEditor
from rollout.viewer.endpoint import ApiCall, Endpoint
from rollout.viewer.errors import RequestRefused
from rollout.viewer.growth_answers import shown_growth

log = logging.getLogger(__name__)
_NUMBER = re.compile(r"[0-9]{1,15}")
MOST_GROWN = 1000
"""The most attempts of one growth."""


class NewGrowth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to grow attempts behind a message of an attempt."""

    dataset: str
    id: str
    message: int
    n: int = 1
    model: str | None = None
    user_model: str | None = None
    temperature: float | None = None


async def add_growth(call: ApiCall) -> GrowthAnswer:
    """Grow attempts."""
    given: NewGrowth = call.body
    if given.n > MOST_GROWN:
        raise RequestRefused(400, f"n: expected at most {MOST_GROWN} attempts at once, got {given.n}")
    wish = GrowthWish(
        author=call.author,
        message=given.message,
        count=given.n,
        model=given.model or None,
        user_model=given.user_model or None,
        temperature=given.temperature,
    )
    editor = call.viewer.editor(call.run)
    config = await editor.config()
    refuse_imported_models(config, wish.model, wish.user_model)
    async with editor.writing() as people:
        growth = await plan_growth(people, given.dataset, given.id, wish, config)
        editor.start(growth)
    return await show(editor, growth)


async def list_growths(call: ApiCall) -> list[GrowthAnswer]:
    """All growths, including those in which a person plays."""
    editor = call.viewer.editor(call.run)
    try:
        growths = await editor.growths()
        if not growths:
            return []
        return await editor.reading(lambda journal: [shown_growth(editor, journal, growth) for growth in growths])
    except JournalError as error:
        # What people added is damaged; the run itself is not.
        log.warning("%s", error)
        return []


async def stop(call: ApiCall) -> GrowthAnswer:
    """Stop a growth."""
    editor = call.viewer.editor(call.run)
    return await show(editor, await editor.stop(await editor.read(number_of(call))))


async def resume(call: ApiCall) -> GrowthAnswer:
    """Resume a growth that was stopped, or that an earlier server did not finish."""
    editor = call.viewer.editor(call.run)
    growth = await editor.read(number_of(call))
    # Refused at once where another process has the directory.
    async with editor.writing():
        editor.start(growth)
    return await show(editor, growth)


async def show(editor: RunEditor, growth: Growth) -> GrowthAnswer:
    """The present state of a growth."""
    return await editor.reading(lambda journal: shown_growth(editor, journal, growth))


def number_of(call: ApiCall) -> int:
    """The number in the address."""
    given = call.path["number"]
    if _NUMBER.fullmatch(given) is None:
        raise RequestRefused(404, f"{given[:50]!r}: expected a number")
    return int(given)


ENDPOINTS = (
    Endpoint(path="runs/{run}/growths", summary="All growths", handle=list_growths, answer=list[GrowthAnswer]),
    Endpoint(
        path="runs/{run}/growths",
        summary="Grow attempts that go on behind a message",
        handle=add_growth,
        answer=GrowthAnswer,
        method="POST",
        body=NewGrowth,
        writes=True,
    ),
    Endpoint(
        path="runs/{run}/growths/{number}/stop",
        summary="Stop a growth",
        handle=stop,
        answer=GrowthAnswer,
        method="POST",
        writes=True,
    ),
    Endpoint(
        path="runs/{run}/growths/{number}/resume",
        summary="Resume a growth that was stopped or interrupted",
        handle=resume,
        answer=GrowthAnswer,
        method="POST",
        writes=True,
    ),
)
