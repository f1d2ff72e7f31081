"""Comparing what a replayed world answers with what it answered before.

Used by the engine, which replays the record of an episode, and by worlds that replay their own calls after a loss.
"""

from __future__ import annotations

import itertools

import msgspec

from rollout.core.messages import Message

CONTEXT = 20
"""Characters shown before the first difference; twice as many are shown after it."""


def is_same_message(recorded: Message | None, shown: Message) -> bool:
    """Whether a world gives the recorded answer. Images are not compared: a caret blinks, fonts differ."""
    return recorded is not None and msgspec.structs.replace(recorded, images=shown.images) == shown


def describe_difference(recorded: Message | None, shown: Message) -> str:
    """The beginning of what differs between two messages, for a person."""
    before, now = (message.content or "" if message is not None else "" for message in (recorded, shown))
    alike = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False)))
    begin = max(alike - CONTEXT, 0)
    return f"{_piece(now, begin)} instead of {_piece(before, begin)}"


def _piece(text: str, begin: int) -> str:
    piece = " ".join(text[begin : begin + 3 * CONTEXT].split())
    return f"«{'…' if begin else ''}{piece}{'…' if begin + 3 * CONTEXT < len(text) else ''}»"
