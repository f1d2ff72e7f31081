"""A trajectory as one example for each turn or step, each with the context that the model was sent.

A saved trajectory holds all reasoning; what the model saw of it depends on the rule of its run. For a model whose
earlier reasoning is cleared at each user message, no single record of the whole conversation shows both what it thought
and what it saw when it did. One record a turn does: the context by the rule, the turn itself whole.

For a model with a window (`max_rounds`, `max_images`) not even a turn was ever sent whole: older steps are folded and
older images left out within it. One record a step shows each request as it was.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rollout.agents.viewing import Viewing, viewing_of
from rollout.core.errors import ConfigError
from rollout.core.messages import Message
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.labels import Example


def split_turns(example: Example) -> Iterator[Example]:
    """The turns that have an answer of the agent, in order; turn k of `a` is `a#k`. Masked answers are context, and so
    are those that the task opens with."""
    viewing = _whole_viewing(example)
    view = viewing.open(None, 0)
    context: list[Message] = []
    turn: list[Message] = []
    masked: list[int] = []
    number = users = 0
    for place, message in enumerate(example.messages):
        if message.role == "user" and turn:
            number += 1
            yield from around_masks(_part(example, number, users - 1, context, turn, masked))
            turn, masked = [], []
        users += message.role == "user"
        is_answer = message.role == "assistant" and place >= example.learnt_from
        if is_answer and not turn:
            context = list(view.messages)
        view.add(message)
        if turn or is_answer:
            if place in example.masked:
                masked.append(len(turn))
            turn.append(viewing.dialect.export(message))
    if turn:
        yield from around_masks(_part(example, number + 1, users - 1, context, turn, masked))


def around_masks(part: Example) -> Iterator[Example]:
    """A turn as one example for each run of answers between masked ones, which are context for what comes after; the
    second run of `a#1` is `a#1.2`. None where all of its answers are masked."""
    if not part.masked:
        yield part
        return
    begin = part.context or 0
    answers = [place for place, message in enumerate(part.messages) if message.role == "assistant" and place >= begin]
    runs: list[list[int]] = [[]]
    for place in answers:
        if place in part.masked:
            runs.append([])
        else:
            runs[-1].append(place)
    for number, run in enumerate(filter(None, runs), 1):
        yield msgspec.structs.replace(
            part,
            id=part.id if number == 1 else f"{part.id}.{number}",
            messages=part.messages[: run[-1] + 1],
            context=run[0],
            masked=frozenset(),
        )


def split_steps(example: Example) -> Iterator[Example]:
    """The steps whose answers are not masked, in order; step k of `a` is `a#k`. The context of each is what the model
    was sent."""
    viewing = _viewing(example)
    has_system = int(bool(example.messages) and example.messages[0].role == "system")
    system = example.messages[0].content if has_system else None
    messages = example.messages[has_system:]
    captions = {caption["message"]: caption for caption in (example.view or {}).get("captions") or ()}
    view = viewing.open(system, example.opening, lambda name: name)
    users = number = 0
    for place, message in enumerate(messages):
        if message.role == "assistant" and place >= example.opening:
            number += 1
            if place + has_system not in example.masked:
                yield _part(example, number, users - 1, list(view.messages), [viewing.dialect.export(message)], [])
        users += message.role == "user"
        view.add(message, captions.get(place))


def was_sent_whole(example: Example) -> bool:
    """Whether the model's last request held the whole conversation, images included."""
    viewing = _viewing(example)
    return viewing.is_whole and not (example.has_images and viewing.max_images is not None)


def whole(example: Example) -> Example:
    """The whole conversation in the form in which the model was sent it, with all reasoning. Raises Unfit where no
    request ever had the whole."""
    messages = tuple(map(_whole_viewing(example).dialect.export, example.messages))
    return example if messages == example.messages else msgspec.structs.replace(example, messages=messages)


def _part(
    example: Example, number: int, place: int, context: list[Message], turn: list[Message], masked: list[int]
) -> Example:
    since = max((begin for begin in example.offers if begin <= place), default=None)
    return msgspec.structs.replace(
        example,
        id=f"{example.id}#{number}",
        messages=(*context, *turn),
        tools=example.tools if since is None else example.offers[since],
        context=len(context),
        masked=frozenset(len(context) + place for place in masked),
    )


def _whole_viewing(example: Example) -> Viewing:
    viewing = _viewing(example)
    if not viewing.is_whole:
        raise Unfit("its model saw the last steps only (max_rounds)")
    return viewing


def _viewing(example: Example) -> Viewing:
    try:
        return viewing_of(example)
    except ConfigError as error:
        raise ConfigError(f"trajectory {example.id}: {error}") from error
