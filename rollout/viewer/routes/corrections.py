"""Endpoints for corrections of messages."""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.pipelines.people.corrections import Correction, correct
from rollout.pipelines.people.remote_person import WrittenCall
from rollout.viewer.answers.people import Grown
from rollout.viewer.endpoint import ApiCall, Endpoint


class CalledTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call."""

    name: str
    arguments: dict[str, Any] = {}


class NewCorrection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A corrected message."""

    dataset: str
    id: str
    message: int
    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[CalledTool, ...] = ()


async def add_correction(call: ApiCall) -> Grown:
    """Add a correction. The original stays."""
    given: NewCorrection = call.body
    correction = Correction(
        message=given.message,
        author=call.author,
        content=given.content,
        reasoning=given.reasoning,
        calls=written_calls(given.tool_calls),
    )
    async with call.viewer.editor(call.run).writing() as people:
        added = await correct(people, given.dataset, given.id, correction)
    return Grown(given.dataset, added.id)


def written_calls(calls: tuple[CalledTool, ...]) -> list[WrittenCall]:
    """Tool calls as a person wrote them."""
    return [WrittenCall(call.name, call.arguments) for call in calls]


ENDPOINTS = (
    Endpoint(
        path="runs/{run}/corrections",
        summary="Add what an answer of the agent should have been",
        handle=add_correction,
        answer=Grown,
        method="POST",
        body=NewCorrection,
        writes=True,
    ),
)
