"""Endpoints of the marks that people set."""

from __future__ import annotations

import msgspec
from anyio import to_thread

from rollout.pipelines.people.marks import RunMarks
from rollout.trajectories.person_marks import MarkKind, PersonMark
from rollout.viewer.endpoint import ApiCall, Endpoint
from rollout.viewer.routes.growths import number_of


class NewMark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new mark."""

    dataset: str
    id: str
    kind: MarkKind
    message: int | None = None
    """The index of the message; null for the whole trajectory."""
    value: float | None = None
    """Of a verdict: from 0 to 1."""
    text: str | None = None
    """The text of a note, the name of a label, or the reason for another mark."""


class MarkRemoval(msgspec.Struct, frozen=True):
    """The response to the removal of a mark."""

    removed: int
    """Its number."""


async def add_mark(call: ApiCall) -> PersonMark:
    """Set a mark."""
    given: NewMark = call.body
    marks, author = RunMarks(call.run.path), call.author
    return await to_thread.run_sync(
        lambda: marks.add(
            given.id,
            given.kind,
            text=given.text,
            value=given.value,
            message=given.message,
            author=author,
            dataset=given.dataset,
        )
    )


async def remove_mark(call: ApiCall) -> MarkRemoval:
    """Remove a mark."""
    number = number_of(call)
    await to_thread.run_sync(RunMarks(call.run.path).remove, number)
    return MarkRemoval(number)


ENDPOINTS = (
    Endpoint(
        path="runs/{run}/marks",
        summary="Set a mark on a trajectory or on one of its messages",
        handle=add_mark,
        answer=PersonMark,
        method="POST",
        body=NewMark,
        writes=True,
    ),
    Endpoint(
        path="runs/{run}/marks/{number}",
        summary="Remove a mark",
        handle=remove_mark,
        answer=MarkRemoval,
        method="DELETE",
        writes=True,
    ),
)
