"""Excerpts of a conversation for the built-in oracle: quotes of the user, facts of a result, origins of values.

PINs, passwords and the like are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from rollout.core.messages import JSON, Message

SECRET = re.compile(r"pin\b|_pin|password|secret|token", re.IGNORECASE)
_DULL = frozenset(
    {
        "success",
        "count",
        "first_name",
        "last_name",
        "born_on",
        "student_id",
        "traveller_id",
        "before",
        "after",
        "updated",
    }
)
CREDENTIALS = re.compile(r"\bPIN\b|\b[A-Z]\d{5}\b|\b\d{6}\b|\S+@\S+.*\b\d{4}\b", re.IGNORECASE)
SENTENCE = re.compile(r"(?<=[.!?])\s+")
_GREETING = re.compile(
    r"^(hi|hello|hey|good (day|morning|afternoon|evening))( there| again)?\b[\s,!.:;]*", re.IGNORECASE
)
_UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-")
_MAX_QUOTE = 120


def facts_of(value: Any, given: JSON) -> str:
    """The first things that a result says and that the call did not."""
    if not isinstance(value, dict):
        return ""
    found: list[str] = []
    for key, entry in value.items():
        if key in _DULL or key.endswith("_at") or SECRET.search(key) or (key in given and given[key] == entry):
            continue
        words = key.replace("_", " ")
        if isinstance(entry, list):
            found.append(f"{len(entry) or 'no'} {_singular(words) if len(entry) == 1 else words}")
        elif isinstance(entry, dict):
            title = _title(entry)
            found.append(f"the {words}" + (f" ({title})" if title else ""))
        elif _is_telling(entry):
            found.append(f"{words} {shown(entry)}")
        if len(found) == 3:
            break
    return ", ".join(found[:-1]) + f" and {found[-1]}" if len(found) > 1 else "".join(found)


def _title(value: JSON) -> str:
    """What a record is best known by."""
    if isinstance(value.get("first_name"), str) and isinstance(value.get("last_name"), str):
        return f"{value['first_name']} {value['last_name']}"
    for key in ("name", "title"):
        if _is_telling(value.get(key)):
            return str(value[key])
    return next((str(entry) for entry in value.values() if isinstance(entry, str) and _is_telling(entry)), "")


def _singular(words: str) -> str:
    if words.endswith("ies"):
        return words[:-3] + "y"
    return words[:-1] if words.endswith("s") and not words.endswith("ss") else words


def _is_telling(value: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return False
    return isinstance(value, (int, float)) or (
        isinstance(value, str) and 0 < len(value) < 40 and not _UUID.match(value)
    )


def origins_of(arguments: JSON, path: Sequence[Message]) -> str:
    """The telling arguments of a call, each with where its value was seen."""
    found = []
    for key, value in arguments.items():
        if key == "confirm" or SECRET.search(key) or not _is_telling(value):
            continue
        found.append(f"{key.replace('_', ' ')} {shown(value)}{_source(value, path)}")
        if len(found) == 2:
            break
    return " and ".join(found)


def _source(value: Any, path: Sequence[Message]) -> str:
    """Where a value was first seen. Words without a number may stand anywhere by chance, so only the user counts."""
    if not isinstance(value, str) or len(value) < 4:
        return ""
    has_number = any(char.isdigit() for char in value)
    names: dict[str | None, str] = {}
    for message in path:
        if message.role == "user" and value in (message.content or ""):
            return " (as they said)"
        if has_number and message.role == "tool" and message.tool_call_id in names and value in (message.content or ""):
            return f" (from {names[message.tool_call_id]})"
        for call in message.tool_calls:
            names[call.id] = call.name
    return ""


def quote_of(said: str) -> str:
    """The user's words without greeting and credentials, cut to a sentence or two."""
    kept: list[str] = []
    for sentence in SENTENCE.split(_GREETING.sub("", said.strip())):
        if kept and (CREDENTIALS.search(sentence) or "@" in sentence):
            break
        clean = sentence if not CREDENTIALS.search(sentence) else ""
        if not clean:
            # A wish and the details in one sentence: the clauses before the details are the wish.
            clauses = re.split(r"(?<=[,;:])\s+", sentence)
            clean = " ".join(clause for clause in clauses[:-1] if not CREDENTIALS.search(clause)).rstrip(",;:")
        if clean:
            kept.append(clean)
        if sum(map(len, kept)) > 60:
            break
    return cut(" ".join(kept).replace('"', "'"))


def cut(text: str) -> str:
    return text if len(text) <= _MAX_QUOTE else text[:_MAX_QUOTE].rsplit(" ", 1)[0].rstrip(",;:") + " …"


def shown(value: Any) -> str:
    return cut(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
