"""Blocks of code in a text: what lies outside them, and whether the last one was left open.

Fences are read the way models write them, which is looser than CommonMark: they may be indented, quoted, in a
list or follow words on their line, and a closing fence may stand at the end of the last line of code. A fence with a
language inside an open block opens an inner block. Code tags (`<code>`, `<python>`, `<execute…>`) count where they
begin a line.
"""

from __future__ import annotations

import re

import msgspec

_MARKS = ("```", "~~~")
_OPENING = re.compile(r"[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?(`{3,}|~{3,})([^`]*)$")
_OPENING_BEHIND_WORDS = re.compile(r"[^`]*?(?:(`{3,})[\w+-]+|:[ \t]*(`{3,}))[ \t]*$")
_CLOSING = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*$")
_CLOSING_BEHIND_CODE = re.compile(r"[^`]*[^`\s](`{3,})[ \t]*$")
_CODE_TAG = re.compile(r"^[ \t]*<(code|python|interpreter|execute\w*)>", re.MULTILINE)
_INLINE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)


class Blocks(msgspec.Struct, frozen=True):
    """A text, taken apart at its blocks of code."""

    outside: str
    """What lies outside of all blocks."""
    inside: tuple[str, ...] = ()
    """The closed blocks."""
    is_open: bool = False
    """Whether the last block never ends."""


def read_blocks(text: str) -> Blocks:
    """Take a text apart."""
    if _MARKS[0] not in text and _MARKS[1] not in text:
        return Blocks(text, (), _has_open_tag(text))
    outside: list[str] = []
    inside: list[str] = []
    block: list[str] = []
    fences: list[str] = []
    """The fences that are open, the outermost first."""
    for line in text.split("\n"):
        if not fences:
            opened = _opens(line)
            if opened is None:
                outside.append(line)
            else:
                fences.append(opened)
                outside.append(line.partition(opened)[0])
            continue
        closed = _CLOSING.match(line) or _CLOSING_BEHIND_CODE.match(line)
        inner = None if closed else _OPENING.match(line)
        if closed is not None and _fits(closed[1], fences[-1]):
            fences.pop()
            if not fences:
                inside.append("\n".join(block))
                block = []
                continue
        elif inner is not None and inner[2].strip() and _fits(inner[1], fences[-1]):
            fences.append(inner[1])
        block.append(line)
    said = "\n".join(outside)
    return Blocks(said, tuple(inside), bool(fences) or _has_open_tag(said))


def without_code(text: str) -> str:
    """What a text says outside of blocks of code and of code within a line."""
    outside = read_blocks(text).outside
    return _INLINE.sub(" ", outside) if "`" in outside else outside


def _opens(line: str) -> str | None:
    if _MARKS[0] not in line and _MARKS[1] not in line:
        return None
    found = _OPENING.match(line)
    if found is not None:
        return found[1]
    behind = _OPENING_BEHIND_WORDS.match(line)
    return None if behind is None else behind[1] or behind[2]


def _fits(fence: str, opened: str) -> bool:
    return fence[0] == opened[0] and len(fence) >= len(opened)


def _has_open_tag(text: str) -> bool:
    if "<" not in text:
        return False
    return any(f"</{tag[1]}>" not in text[tag.end() :] for tag in _CODE_TAG.finditer(text))
