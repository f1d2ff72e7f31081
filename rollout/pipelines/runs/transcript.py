"""A trajectory as a person reads it: who said what, each call beside its result, and what is on record of both.

Views (the terminal, a page) get everything that they show from here, in order, and look up nothing themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from rollout.core.messages import JSON, MALFORMED_CALL, Message, ToolCall, is_readable, read_arguments
from rollout.store.files.filter_file import RecordFile
from rollout.store.run_dir import FILTERS
from rollout.trajectories.earlier_observations import recover_page
from rollout.trajectories.filters.marks import Filtered, Mark
from rollout.trajectories.line import UserCall
from rollout.trajectories.person_marks import PersonMark
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import NodeBody

Speaker = Literal["system", "user", "agent", "tool", "note", "observation"]
"""A note is an instruction that the agent's program adds; an observation is what a world shows without being called."""


class ShownCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call with its result."""

    name: str
    arguments: JSON | None
    """None where the model wrote no JSON object; `written` has what it wrote."""
    written: str
    result: str | None
    """None where it was not answered."""
    error_kind: str | None = None
    """Set where the result is an error."""
    is_undone: bool = False
    """Whether the world undid it."""
    url: str | None = None
    """The address of the page that the result shows."""
    title: str | None = None
    images: tuple[str, ...] = ()
    """The files of the images of the result."""
    index: int | None = None
    """The place of the result in the messages."""
    data: JSON | None = None
    """The facts of the result beside its text, where the world gave some."""


class ShownMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message, with the calls that it asks for."""

    index: int
    """Its place in the messages."""
    speaker: Speaker
    text: str
    reasoning: str | None = None
    turn: int | None = None
    """The number of the turn that it begins, from 1; None if it begins none."""
    step: int | None = None
    """Of an answer of the agent: its number, from 1."""
    calls: tuple[ShownCall, ...] = ()
    url: str | None = None
    title: str | None = None
    images: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    """Remarks made at the time, such as faults of the simulated user."""
    filter_marks: tuple[Mark, ...] = ()
    """What filters found in this step."""
    person_marks: tuple[PersonMark, ...] = ()
    """What people marked: this message, and the results of its calls."""
    is_masked: bool = False
    """Whether it is context only by the filters' verdict: not learnt."""
    is_cut_off: bool = False
    """Whether the filters cut it off."""
    is_scripted: bool = False
    """Whether the agent's program wrote it instead of a model."""
    author: str | None = None
    """The person who wrote it."""
    seconds: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    retries: int = 0
    user_calls: tuple[UserCall, ...] = ()
    """Calls of the user's own tools before this message."""
    data: JSON | None = None
    """The facts of an observation beside its text."""


class Transcript(msgspec.Struct, frozen=True):
    """A whole trajectory, to be shown."""

    messages: tuple[ShownMessage, ...]
    filtered: Filtered | None
    """The verdict of `rollout filter`; None where none is on record."""
    person_marks: tuple[PersonMark, ...] = ()
    """What people said of the whole trajectory."""

    @property
    def filter_marks(self) -> tuple[Mark, ...]:
        """The marks that are said of the whole trajectory."""
        return () if self.filtered is None else tuple(mark for mark in self.filtered.marks if mark.turn is None)


def make_transcript(trajectory: Trajectory, filtered: Filtered | None = None) -> Transcript:
    """The transcript of a trajectory. `filtered`: its record in `filters.jsonl` (`read_filtered`)."""
    whole = tuple(mark for mark in trajectory.person_marks if mark.message is None)
    return Transcript(tuple(_shown(trajectory, filtered)), filtered, whole)


def read_filtered(run_dir: Path, dataset: str, trajectory: Trajectory) -> Filtered | None:
    """The filters' record of a trajectory; None where there is none of it as it is now."""
    path = run_dir / FILTERS
    return RecordFile(path).get(dataset, trajectory.id, trajectory.messages) if path.is_file() else None


def _shown(trajectory: Trajectory, filtered: Filtered | None) -> Iterator[ShownMessage]:
    messages = trajectory.messages
    bodies = _bodies(trajectory)
    masked = set(filtered.masked_messages) if filtered is not None else set()
    end = filtered.end if filtered is not None and filtered.end is not None else len(messages)
    found = _marks_by_message(filtered)
    marked = [mark for mark in trajectory.person_marks if mark.message is not None]
    user_calls: dict[int, list[UserCall]] = {}
    for call in trajectory.user_calls:
        user_calls.setdefault(call.message, []).append(call)
    turn = step = 0
    answered: set[int] = set()
    for index, message in enumerate(messages):
        if index in answered:
            continue
        speaker = _speaker(message, bodies.get(index))
        body = bodies.get(index)
        # The word that ends a conversation begins no turn.
        is_turn = speaker == "user" and (body is None or body.end is None)
        turn += is_turn
        calls: tuple[ShownCall, ...] = ()
        own = {index}
        if speaker == "agent":
            step += 1
            calls = tuple(_calls(trajectory, index, answered))
            own |= {place for place in _following(trajectory, index) if place in answered}
        generation = trajectory.generated.get(index)
        usage = None if generation is None else generation.usage
        url, title = _page(message, trajectory.data.get(index)) if speaker == "observation" else (None, None)
        yield ShownMessage(
            index=index,
            speaker=speaker,
            text=message.content or "",
            reasoning=message.reasoning,
            turn=turn if is_turn else None,
            step=step if speaker == "agent" else None,
            calls=calls,
            url=url,
            title=title,
            images=_images(trajectory, message),
            marks=() if body is None else body.marks,
            filter_marks=tuple(found.get(index, ())),
            person_marks=tuple(mark for mark in marked if mark.message in own),
            is_masked=index in masked,
            is_cut_off=index >= end,
            is_scripted=generation is not None and generation.is_scripted and (body is None or body.author is None),
            author=None if body is None else body.author,
            seconds=0.0 if generation is None else generation.latency,
            prompt_tokens=0 if usage is None else usage.prompt_tokens,
            completion_tokens=0 if usage is None else usage.completion_tokens,
            cost=0.0 if generation is None else generation.cost,
            retries=0 if generation is None else len(generation.failures),
            user_calls=tuple(user_calls.get(index, ())),
            data=trajectory.data.get(index),
        )


def _bodies(trajectory: Trajectory) -> dict[int, NodeBody]:
    """The nodes of the messages, by their indexes; none where only the messages are known."""
    found: dict[int, NodeBody] = {}
    for body in trajectory.nodes or ():
        if body.said is not None:
            found[len(found)] = body
    return found


def _speaker(message: Message, body: NodeBody | None) -> Speaker:
    if message.role == "user":
        if body is not None and body.kind in ("note", "observation"):
            return "note" if body.kind == "note" else "observation"
        return "observation" if message.images and recover_page(message.content) is not None else "user"
    by_role: dict[str, Speaker] = {"system": "system", "assistant": "agent", "tool": "tool"}
    return by_role[message.role]


def _calls(trajectory: Trajectory, index: int, answered: set[int]) -> Iterator[ShownCall]:
    messages = trajectory.messages
    places = [place for place in _following(trajectory, index) if place not in answered]
    for call, result, error_kind in trajectory.answered_calls(index):
        # The same message may be there twice: results are in the order of the calls.
        place = next((each for each in places if messages[each] is result), None)
        if place is not None:
            places.remove(place)
            answered.add(place)
        yield _call(trajectory, call, result, error_kind, place)


def _following(trajectory: Trajectory, index: int) -> Iterator[int]:
    for place in range(index + 1, len(trajectory.messages)):
        if trajectory.messages[place].role != "tool":
            return
        yield place


def _call(
    trajectory: Trajectory, call: ToolCall, result: Message | None, error_kind: str | None, place: int | None
) -> ShownCall:
    data = None if place is None else trajectory.data.get(place)
    url, title = (None, None) if result is None else _page(result, data)
    return ShownCall(
        name="malformed call" if call.name == MALFORMED_CALL else call.name,
        arguments=read_arguments(call) if is_readable(call) else None,
        written=call.arguments,
        result=None if result is None else result.content or "",
        error_kind=error_kind,
        is_undone=place is not None and place in trajectory.undone,
        url=url,
        title=title,
        images=() if result is None else _images(trajectory, result),
        index=place,
        data=data,
    )


def _page(message: Message, data: Mapping[str, Any] | None) -> tuple[str | None, str | None]:
    """Address and title of the page that an observation shows."""
    if data is not None:
        url, title = data.get("url"), data.get("title")
        return (str(url) if url else None), (str(title) if title else None)
    page = recover_page(message.content)
    return (None, None) if page is None else (page.url or None, page.title or None)


def _images(trajectory: Trajectory, message: Message) -> tuple[str, ...]:
    find = trajectory.image_path
    return tuple(name if find is None else find(name) for name in message.images)


def _marks_by_message(filtered: Filtered | None) -> dict[int, list[Mark]]:
    found: dict[int, list[Mark]] = {}
    if filtered is not None:
        places = {turn.turn: turn.message for turn in filtered.turns}
        for mark in filtered.marks:
            if mark.turn is not None and mark.turn in places:
                found.setdefault(places[mark.turn], []).append(mark)
    return found
