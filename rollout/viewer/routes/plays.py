"""Endpoints of conversations in which a person takes the part of the agent or of the user."""

from __future__ import annotations

from typing import Literal

import msgspec

from rollout.pipelines.people.growth import Growth, GrowthWish, plan_fresh, plan_growth
from rollout.pipelines.people.seat import Deed
from rollout.viewer.answers.plays import Play
from rollout.viewer.asked import shown_play
from rollout.viewer.desk import Desk
from rollout.viewer.endpoint import Call, Endpoint
from rollout.viewer.errors import Refused
from rollout.viewer.routes.corrections import CalledTool, written_calls
from rollout.viewer.routes.growths import number_of


class Beginning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The attempt and the message behind which a conversation begins."""

    id: str
    message: int


class NewPlay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation that is wished for."""

    dataset: str
    task: str
    role: Literal["agent", "user"]
    """The part that the person takes."""
    begin: Beginning | None = msgspec.field(default=None, name="from")
    """By default the task's opening."""
    model: str | None = None
    """Who plays the other part; by default who did so in the run."""


class NewDeed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the person does next: words, or tool calls."""

    text: str | None = None
    calls: tuple[CalledTool, ...] = ()


async def add_play(call: Call) -> Play:
    """Begin a conversation."""
    given: NewPlay = call.body
    desk = call.viewer.desk(call.run)
    is_user = given.role == "user"
    wish = GrowthWish(
        author=call.author,
        message=0 if given.begin is None else given.begin.message,
        model=given.model or None if is_user else None,
        user_model=None if is_user else given.model or None,
        part=given.role,
    )
    async with desk.writing() as people:
        if given.begin is None:
            growth = await plan_fresh(people, given.dataset, given.task, wish)
        else:
            growth = await plan_growth(people, given.dataset, given.begin.id, wish)
        desk.start(growth)
    return await show(call, desk, growth)


async def show_play(call: Call) -> Play:
    """A conversation, as far as it is."""
    desk = call.viewer.desk(call.run)
    return await show(call, desk, await read_play(call, desk))


async def act(call: Call) -> Play:
    """Do something, when it is the person's turn."""
    given: NewDeed = call.body
    desk = call.viewer.desk(call.run)
    growth = await read_play(call, desk)
    desk.seat(growth).act(Deed(given.text, written_calls(given.calls)))
    return await show(call, desk, growth)


async def end(call: Call) -> Play:
    """End a conversation, when it is the person's turn; it is scored then."""
    desk = call.viewer.desk(call.run)
    growth = await read_play(call, desk)
    desk.seat(growth).act(Deed(is_end=True))
    return await show(call, desk, growth)


async def read_play(call: Call, desk: Desk) -> Growth:
    """The conversation that the address names."""
    growth = await desk.read(number_of(call))
    if growth.part is None:
        raise Refused(404, f"growth {growth.number} is no conversation in which a person takes a part")
    return growth


async def show(call: Call, desk: Desk, growth: Growth) -> Play:
    """A conversation, as it is now."""
    return await desk.reading(lambda journal: shown_play(call.run, desk, journal, growth))


ENDPOINTS = (
    Endpoint(
        path="runs/{run}/plays",
        summary="Take the part of the agent or of the user",
        handle=add_play,
        answer=Play,
        method="POST",
        body=NewPlay,
        writes=True,
    ),
    Endpoint(path="runs/{run}/plays/{number}", summary="A conversation", handle=show_play, answer=Play),
    Endpoint(
        path="runs/{run}/plays/{number}/act",
        summary="Say something, or call tools",
        handle=act,
        answer=Play,
        method="POST",
        body=NewDeed,
        writes=True,
    ),
    Endpoint(
        path="runs/{run}/plays/{number}/end",
        summary="End the conversation",
        handle=end,
        answer=Play,
        method="POST",
        writes=True,
    ),
)
