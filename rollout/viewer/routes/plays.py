"""Endpoints for conversations in which a person plays the agent or the user."""

from __future__ import annotations

from typing import Literal

import msgspec

from rollout.pipelines.people.growth import Growth, GrowthWish, plan_fresh, plan_growth
from rollout.pipelines.people.growth_refusals import refuse_imported_models
from rollout.pipelines.people.remote_person import PersonAction
from rollout.viewer.answers.plays import Play
from rollout.viewer.editor import RunEditor
from rollout.viewer.endpoint import ApiCall, Endpoint
from rollout.viewer.errors import RequestRefused
from rollout.viewer.growth_answers import shown_play
from rollout.viewer.routes.corrections import CalledTool, written_calls
from rollout.viewer.routes.growths import number_of


class PlayRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The attempt and the message behind which a conversation begins."""

    id: str
    message: int


class NewPlay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new conversation."""

    dataset: str
    task: str
    role: Literal["agent", "user"]
    """The role that the person plays."""
    begin: PlayRequest | None = msgspec.field(default=None, name="from")
    """Default: the task's opening."""
    model: str | None = None
    """The model for the other role; default: that of the run."""


class NewAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the person does next: words, or tool calls."""

    text: str | None = None
    calls: tuple[CalledTool, ...] = ()


async def add_play(call: ApiCall) -> Play:
    """Begin a conversation."""
    given: NewPlay = call.body
    editor = call.viewer.editor(call.run)
    is_user = given.role == "user"
    wish = GrowthWish(
        author=call.author,
        message=0 if given.begin is None else given.begin.message,
        model=given.model or None if is_user else None,
        user_model=None if is_user else given.model or None,
        part=given.role,
    )
    config = await editor.config()
    refuse_imported_models(config, wish.model, wish.user_model)
    async with editor.writing() as people:
        if given.begin is None:
            growth = await plan_fresh(people, given.dataset, given.task, wish, config)
        else:
            growth = await plan_growth(people, given.dataset, given.begin.id, wish, config)
        editor.start(growth)
    return await show(call, editor, growth)


async def show_play(call: ApiCall) -> Play:
    """The present state of a conversation."""
    editor = call.viewer.editor(call.run)
    return await show(call, editor, await read_play(call, editor))


async def act(call: ApiCall) -> Play:
    """Say something or call tools, at the person's turn."""
    given: NewAction = call.body
    editor = call.viewer.editor(call.run)
    growth = await read_play(call, editor)
    editor.person(growth).act(PersonAction(given.text, written_calls(given.calls)))
    return await show(call, editor, growth)


async def end(call: ApiCall) -> Play:
    """End a conversation at the person's turn. It is then scored."""
    editor = call.viewer.editor(call.run)
    growth = await read_play(call, editor)
    editor.person(growth).act(PersonAction(is_end=True))
    return await show(call, editor, growth)


async def read_play(call: ApiCall, editor: RunEditor) -> Growth:
    """The conversation that the address names."""
    growth = await editor.read(number_of(call))
    if growth.part is None:
        raise RequestRefused(404, f"growth {growth.number} is not a conversation in which a person plays")
    return growth


async def show(call: ApiCall, editor: RunEditor, growth: Growth) -> Play:
    """The present state of a conversation."""
    return await editor.reading(lambda journal: shown_play(call.run, editor, journal, growth))


ENDPOINTS = (
    Endpoint(
        path="runs/{run}/plays",
        summary="Play the agent or the user",
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
        body=NewAction,
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
