"""Breaks of a prefix, and their causes.

Two exchanges belong in one row where the second request begins with the first and its answer: id for id where the ids
are known, else message for message. Where it does not, what a row showed before its answers would not be what the model
was given. A row ends there, and the next one says why:

| cause | |
|---|---|
| `reasoning` | reasoning of an earlier answer is no longer sent |
| `window` | older steps were folded into a line each (`max_rounds`) |
| `images` | an older image is no longer sent (`max_images`) |
| `tools` | other tools are offered |
| `calls` | tool calls were written otherwise than the model wrote them |
| `text` | an answer was encoded otherwise than it was sampled |
| `user_turn` | the chat template writes earlier messages otherwise once the user has spoken again |
| `template` | it does so although the user has not |
| `no_ids` | one of the two has no token ids |
| `masked` | an answer in between is not to be learnt |
| `new_image` | rows of text only: what came in between shows an image, and only prompts have images |
| `step`, `start` | no break: a form with a row for each step; the first row |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rollout.core.messages import JSON
from rollout.trajectories.rows.exchange import Exchange, Ids

START, STEP, NO_IDS, MASKED, NEW_IMAGE = "start", "step", "no_ids", "masked", "new_image"
CAUSES = ("reasoning", "window", "images", "tools", "calls", "text", "user_turn", "template", NO_IDS, MASKED, NEW_IMAGE)
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)


def break_in_ids(before: Exchange, after: Exchange) -> str | None:
    """Why two exchanges are not one sequence of ids; None where they are."""
    one, other = before.ids, after.ids
    if one is None or other is None:
        return NO_IDS
    if continues(one, other):
        return None
    cause = break_in_messages(before, after) or other.drift or _place_of_break(before, one, other)
    if cause == "template" and any(message.get("role") == "user" for message in _added(before, after)):
        return "user_turn"
    return cause


def continues(before: Ids, after: Ids) -> bool:
    """Whether a prompt begins with another one and its completion."""
    cut = len(before.prompt)
    end = cut + len(before.completion)
    return after.prompt[:cut] == before.prompt and after.prompt[cut:end] == before.completion


def break_in_messages(before: Exchange, after: Exchange) -> str | None:
    """Why a request does not begin with another one and its answer; None where it does."""
    if after.tools != before.tools:
        return "tools"
    known = [*before.request, before.shown]
    again = after.request[: len(known)]
    if again == known:
        return None
    if len(again) < len(known) or any(map(_is_other_kind, known, again)):
        return "window"
    causes = {_cause(old, new) for old, new in zip(known, again, strict=True) if old != new}
    return next(cause for cause in ("window", "images", "reasoning", "calls") if cause in causes)


def break_in_text(before: Exchange, after: Exchange) -> str | None:
    """Why two exchanges are not one row of text; None where they are."""
    cause = break_in_messages(before, after)
    if cause is None and any(map(_images, _added(before, after))):
        return NEW_IMAGE
    return cause


def _cause(old: JSON, new: JSON) -> str:
    if _images(old) != _images(new):
        return "images"
    if old["role"] == "assistant":
        return "reasoning" if _bare(old) == _bare(new) else "calls"
    return "window"


def _is_other_kind(old: JSON, new: JSON) -> bool:
    return old["role"] != new["role"] or old.get("tool_call_id") != new.get("tool_call_id")


def _bare(message: JSON) -> JSON:
    kept = {key: value for key, value in message.items() if key not in ("reasoning_content", "raw")}
    if isinstance(kept.get("content"), str):
        kept["content"] = _THOUGHT.sub("", kept["content"])
    return kept


def _images(message: JSON) -> int:
    content: Any = message.get("content")
    return sum(part.get("type") == "image_url" for part in content) if isinstance(content, list) else 0


def _added(before: Exchange, after: Exchange) -> Sequence[JSON]:
    return after.request[len(before.request) + 1 :]


def _place_of_break(before: Exchange, one: Ids, other: Ids) -> str:
    """What the first id that differs belongs to."""
    cut = len(one.prompt)
    if other.prompt[:cut] != one.prompt:
        return "template"
    return "calls" if before.answer.tool_calls else "text"
