"""A row of messages, for a trainer that tokenises by itself: `prompt` and `completion`.

The completion holds the answers to learn and what came between them; so its assistant messages, and nothing else, are
to have a loss. In a row of one exchange it is that one answer.

Images are listed beside the messages. Only prompts have images, because trainers take them from nowhere else.
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
    """The row of a stretch whose answers are all learnt."""
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


def read_request(request: Iterable[JSON]) -> list[Message]:
    """The messages of a request, each with the URLs of its images."""
    return [message_from_json(_with_image_names(entry)) for entry in request]


def read_text_request(request: Iterable[JSON]) -> list[Message]:
    """The messages of a request that is all text. Raises Unfit where there are images."""
    messages = read_request(request)
    if any(message.images for message in messages):
        raise Unfit("has images")
    return messages


def images_of(request: Iterable[JSON]) -> list[str]:
    """The URLs of the images of a request, in order."""
    return [part["image_url"]["url"] for entry in request for part in _parts(entry) if part["type"] == "image_url"]


def _parts(entry: JSON) -> list[JSON]:
    content = entry.get("content")
    return content if isinstance(content, list) else []


def _with_image_names(entry: JSON) -> JSON:
    """A message of a request in the form of the record: its text, and its images named by their URLs."""
    urls = images_of([entry])
    if not urls:
        return entry
    texts = [part for part in _parts(entry) if part["type"] != "image_url"]
    return {**entry, "content": texts or None, "images": urls}
