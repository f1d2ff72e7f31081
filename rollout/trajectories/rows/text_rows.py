"""A row of messages, for a trainer that tokenises by itself: `prompt` and `completion`.

The completion holds the answers to learn and what came between them; so its assistant messages, and nothing else, are
to have a loss. In a row of one exchange it is that one answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rollout.core.messages import JSON, Message, message_from_json, message_to_json
from rollout.trajectories.exports.conversational import entries
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.rows.exchange import Exchange
from rollout.trajectories.rows.stretches import Stretch


class TextRow(msgspec.Struct, frozen=True):
    """One row."""

    trajectory: str
    prompt: list[JSON]
    completion: list[JSON]
    tools: list[JSON]
    advantages: list[float] | None = None
    """One for each message of the completion, 0 where it is no answer."""


def text_row(trajectory: str, stretch: Stretch, advantages: Sequence[float] | None = None) -> TextRow:
    """The row of a stretch whose answers are all learnt. Raises Unfit where there are images."""
    first, *others = stretch.exchanges
    asked = read_request(first.request)
    learnt: list[Message] = [first.answer]
    shares = [advantages[0]] if advantages is not None else []
    length = len(first.request)
    for place, exchange in enumerate(others, 1):
        between = read_request(exchange.request[length + 1 :])
        length = len(exchange.request)
        learnt += [*between, exchange.answer]
        if advantages is not None:
            shares += [0.0] * len(between) + [advantages[place]]
    written = entries([*asked, *learnt])
    return TextRow(
        trajectory,
        written[: len(asked)],
        written[len(asked) :],
        first.tools,
        None if advantages is None else shares,
    )


def row_as_sent(trajectory: str, exchange: Exchange, advantage: float | None = None) -> TextRow:
    """The row of one exchange whose prompt is the request, message for message and key for key as it was sent. The
    answer is in the same form: the arguments of its calls are the text that the model wrote."""
    return TextRow(
        trajectory,
        exchange.request,
        [message_to_json(exchange.answer)],
        exchange.tools,
        None if advantage is None else [advantage],
    )


def refuse_images(stretch: Stretch) -> None:
    """Raise Unfit where a row of this stretch would have images: no text says where they go."""
    for entry in stretch.exchanges[-1].request:
        _refuse_images(entry)


def read_request(request: Iterable[JSON]) -> list[Message]:
    """The messages of a request. Raises Unfit where there are images."""
    messages = []
    for entry in request:
        _refuse_images(entry)
        messages.append(message_from_json(entry))
    return messages


def _refuse_images(entry: JSON) -> None:
    content = entry.get("content")
    if entry.get("images") or (isinstance(content, list) and any(part.get("type") != "text" for part in content)):
        raise Unfit("has images")
