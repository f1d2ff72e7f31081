"""Values of JSON as a person reads them: a line for each entry, indented; small parts on one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

LEAST_WIDTH = 24
_BARE = re.compile(r"[\w .,:;/@+$%#&()'!?\-]+")


def outline(value: Any, width: int) -> Iterator[str]:
    """A value as lines. What fits into `width` stays on one line. Long texts are not cut."""
    short = in_line(value)
    if isinstance(value, str) or not isinstance(value, dict | list) or not value:
        yield from short.splitlines() or [""]
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _entry(f"{key}: ", inner, width)
    elif len(short) <= width:
        yield short
    else:
        for inner in value:
            yield from _entry("- ", inner, width, is_item=True)


def in_line(value: Any) -> str:
    """A value on one line, except for a text that has several."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_quoted(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_quoted, value)) + "]"
    return _scalar(value)


def text_outline(text: str, width: int) -> Iterator[str]:
    """A text as lines: JSON as its outline, anything else as it stands."""
    if text[:1] in ("{", "["):
        try:
            value = msgspec.json.decode(text)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            pass
        else:
            yield from outline(value, width)
            return
    yield from text.splitlines() or [""]


def _entry(head: str, value: Any, width: int, *, is_item: bool = False) -> Iterator[str]:
    short = in_line(value)
    is_text = isinstance(value, str) and "\n" not in value
    if is_text or not isinstance(value, dict | list | str) or (len(head) + len(short) <= width and "\n" not in short):
        yield head + short
        return
    inner = list(outline(value, max(width - 2, LEAST_WIDTH)))
    if is_item:
        yield head + inner[0]
        yield from (f"  {line}" for line in inner[1:])
    else:
        yield head.rstrip()
        yield from (f"  {line}" for line in inner)


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        return value if value and _BARE.fullmatch(value) and ", " not in value else msgspec.json.encode(value).decode()
    return in_line(value)


def _scalar(value: Any) -> str:
    return msgspec.json.encode(value).decode()
