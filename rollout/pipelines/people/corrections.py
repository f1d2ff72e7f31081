"""Corrections of assistant messages: each is a node with its author, beside the original."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rollout.core.calls import BadCall, CallReader
from rollout.core.errors import ConfigError
from rollout.core.messages import Message, ToolCall, Toolset, ToolSpec
from rollout.engine.outcome import correction_head
from rollout.pipelines.people.people_run import PeopleRun, WorkedOn
from rollout.pipelines.people.remote_person import WrittenCall, written_arguments
from rollout.store.reading.episodes import Branch
from rollout.store.record import Finished
from rollout.tasks.source import attempt_number, trajectory_id
from rollout.trajectories.generation import Generation
from rollout.trajectories.line import encode_line
from rollout.trajectories.sums import Sums
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import OPENING, PERSON, NodeBody


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """A corrected message."""

    message: int
    """The index of the corrected message."""
    author: str
    content: str | None = None
    reasoning: str | None = None
    calls: Sequence[WrittenCall] = ()


async def correct(people: PeopleRun, dataset: str, trajectory: str, correction: Correction) -> Trajectory:
    """Add the attempt that ends with a correction. The original does not change. Raises ConfigError if the message
    cannot be corrected, or the correction is not a valid answer."""
    found = await people.take_up(dataset, trajectory)
    place = found.place_of(correction.message)
    _refuse_message(found, place, correction.message)
    message = _written_message(found, place, correction)
    parent = found.keys[place - 1] if place > 0 else (OPENING, 0)
    journal, original = people.journal, found.trajectory
    number = people.next_number(found.tree, original.task_id)
    identifier = trajectory_id(original.task_id, number)
    episode = journal.begin_episode(found.tree, identifier, 0, original.seed, Branch(*parent, PERSON))
    written = Generation(message, "tool_calls" if message.tool_calls else "stop", is_scripted=True)
    journal.put(episode, 0, [NodeBody("generation", generation=written, author=correction.author)])
    messages = [*original.messages[: correction.message], message]
    branch = {
        "number": number,
        "reason": PERSON,
        "parent": original.id,
        "shared_messages": correction.message,
        "lineage": [(attempt_number(original.task_id, original.id), found.generations_before(place))],
    }
    head = correction_head(original, identifier, branch, messages, correction.author)
    line = encode_line(head, messages)
    await journal.settle(journal.finish(Finished(dataset, episode, head, line, False, Sums())))
    added = journal.trajectory(dataset, identifier)
    assert added is not None
    return added


def _refuse_message(found: WorkedOn, place: int, message: int) -> None:
    body = found.body(place) if place >= 0 else None
    if body is None or body.kind != "generation":
        raise ConfigError(
            f"{found.trajectory.id}: message {message} is not an answer of the agent; only these can be corrected"
        )


def _written_message(found: WorkedOn, place: int, correction: Correction) -> Message:
    original = found.body(place).said
    assert original is not None
    content = correction.content or None
    if content is None and not correction.calls:
        raise ConfigError("a correction needs words or a tool call")
    ids = [call.id for call in original.tool_calls]
    ids += [f"call_{correction.message}_{number}" for number in range(len(ids), len(correction.calls))]
    calls = tuple(
        ToolCall(ids[number], call.name, written_arguments(call)) for number, call in enumerate(correction.calls)
    )
    refuse_calls(found.trajectory, calls)
    message = Message(role="assistant", content=content, tool_calls=calls, reasoning=correction.reasoning or None)
    if msgspec.structs.replace(original, raw=None) == message:
        raise ConfigError(f"{found.trajectory.id}: the correction of message {correction.message} changes nothing")
    return message


def refuse_calls(trajectory: Trajectory, calls: Sequence[ToolCall]) -> None:
    """Raise ConfigError if a call names no offered tool, or its arguments do not fit the tool. If the tools are not on
    record, nothing is checked."""
    if not trajectory.tools:
        return
    reader = CallReader(Toolset(tuple(ToolSpec.from_json(entry) for entry in trajectory.tools)))
    for call in calls:
        try:
            reader.check(call)
        except BadCall as error:
            raise ConfigError(f"the call cannot be made: {error}") from error
