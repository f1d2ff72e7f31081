"""Mistakes that the built-in oracle makes on request: wrong arguments and names of tools that do not exist."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Sequence
from datetime import date
from typing import Any

import msgspec

from rollout.core.messages import JSON, Message

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_OTHER_VERBS = {
    "add": "create", "answer": "finish", "authorize": "authenticate", "book": "reserve", "cancel": "delete",
    "change": "modify", "click": "press_element", "drop": "remove", "enroll": "register", "get": "fetch",
    "goback": "back", "list": "fetch", "make": "submit", "order": "create", "release": "remove", "remove": "delete",
    "request": "create", "scroll": "scroll_page", "search": "find", "select": "choose_option", "type": "fill",
    "update": "edit",
}  # fmt: skip
"""Verbs that models use in place of the one that a tool's name has."""


def misnamed(name: str, offered: Collection[str]) -> str:
    """A name close to a tool's that no offered tool has."""
    words = name.split("_")
    for place, word in enumerate(words):
        if word in _OTHER_VERBS:
            other = "_".join([*words[:place], _OTHER_VERBS[word], *words[place + 1 :]])
            if other not in offered:
                return other
    return f"{name}_v2"


def spoiled_arguments(arguments: JSON, path: Sequence[Message], chance: random.Random) -> JSON:
    """The arguments with one value changed to a wrong but plausible one. A call without arguments is given one."""
    if not arguments:
        return _superfluous(path)
    key = chance.choice(sorted(arguments))
    return {**arguments, key: _spoiled(arguments[key], chance)}


def _superfluous(path: Sequence[Message]) -> JSON:
    """An argument that an earlier call took, passed to a tool that takes none."""
    for message in reversed(path):
        for call in message.tool_calls:
            try:
                earlier = msgspec.json.decode(call.arguments)
            except msgspec.DecodeError:
                continue
            for key, value in earlier.items() if isinstance(earlier, dict) else ():
                if key.endswith("_id") or key == "email":
                    return {key: value}
    return {"include_details": True}


def _spoiled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + chance.choice((-2, -1, 1, 2))
    if isinstance(value, str) and value:
        digits = [index for index, char in enumerate(value) if char.isdigit()]
        if not digits:
            return _mistyped(value)
        at = chance.choice(digits)
        wrong = value[:at] + str((int(value[at]) + chance.randint(1, 9)) % 10) + value[at + 1 :]
        return _reversed(value) if _DATE.fullmatch(value) and not _is_day(wrong) else wrong
    if isinstance(value, list):
        return value[:-1] if value else [None]
    return None


def _mistyped(value: str) -> str:
    """Two neighbouring letters change places, as near to the end as there are two different ones."""
    for at in range(len(value) - 2, -1, -1):
        pair = value[at : at + 2]
        if pair.isalpha() and pair[0].lower() != pair[1].lower():
            return value[:at] + pair[::-1] + value[at + 2 :]
    return value + "x"


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _reversed(text: str) -> str:
    """A date written the other way round: day, month, year."""
    return "-".join(reversed(text.split("-")))
