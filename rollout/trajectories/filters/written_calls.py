"""Calls that an agent wrote into its text, which are not read.

Four forms: the marks of a tool-call dialect at the beginning of a line, ReAct (`Action: name` with its input), a JSON
object of name and arguments that is the whole answer, and a Python call of an offered tool that is the whole answer. A
call shown in a block of code beside an explanation is a quotation; an answer that is nothing but that block is a call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import msgspec

from rollout.trajectories.filters.code_blocks import read_blocks

_DIALECT = re.compile(
    r"^\s*(<tool_call>|<function_call>|<function=|<\|tool_call|<｜tool▁call|\[TOOL_CALLS\]|<\|python_tag\|>)",
    re.MULTILINE,
)
_REACT = re.compile(
    r"^[ \t>*_#-]*action(?:[ \t]*\d+)?[ \t]*:[ \t*_]*`?(?P<name>[^\W\d][\w.-]*)`?(?P<rest>.*)(?P<next>(?:\n.*)?)",
    re.MULTILINE | re.IGNORECASE,
)
_REACT_BLOCK = re.compile(
    r"^[ \t>*_#-]*action(?:[ \t]*\d+)?[ \t]*:[ \t*_]*\n+[ \t]*```\w*\n\s*\{\s*\"action\"", re.MULTILINE | re.IGNORECASE
)
_INPUT = re.compile(r"\n[ \t>*_#-]*action[ _]?input(?:[ \t]*\d+)?[ \t*_]*:", re.IGNORECASE)
_PYTHON = re.compile(r"\[?\s*([^\W\d][\w.]*)\(.*\)\s*\]?", re.DOTALL)
_KEYS = frozenset({"name", "arguments", "parameters", "id", "type", "function"})


def has_written_call(text: str, tools: Callable[[], Collection[str]]) -> bool:
    """Whether a text holds a call. `tools`: the names of the known ones, worked out only where they decide."""
    if not _may_call(text):
        return False
    blocks = read_blocks(text)
    said = blocks.outside
    if not blocks.is_open and len(blocks.inside) == 1 and not said.strip():
        said = blocks.inside[0]
    return (
        _DIALECT.search(said) is not None
        or _has_react(said, tools)
        or (said is blocks.outside and _REACT_BLOCK.search(text) is not None)
        or _is_json(said.strip())
        or _is_python(said.strip(), tools)
    )


def _may_call(text: str) -> bool:
    """Cheap, and true for everything that could be one."""
    return "<" in text or "{" in text or "[" in text or "(" in text or "ction" in text or "CTION" in text


def _has_react(text: str, tools: Callable[[], Collection[str]]) -> bool:
    for found in _REACT.finditer(text):
        rest = found["rest"].strip().strip("*_")
        if _INPUT.match(found["next"]) or (rest[:1] in ("[", "(") and rest[-1] in "])" and found["rest"][0] in "[("):
            return True
        if not rest and found["name"] in tools():
            return True
    return False


def _is_json(text: str) -> bool:
    if text[:1] not in ("{", "[") or '"name"' not in text:
        return False
    try:
        read = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return False
    entries = read if isinstance(read, list) else [read]
    return bool(entries) and all(map(_is_call, entries))


def _is_call(entry: object) -> bool:
    if not isinstance(entry, dict) or not entry.keys() <= _KEYS:
        return False
    if isinstance(entry.get("function"), dict):
        return _is_call(entry["function"])
    given = entry.get("arguments", entry.get("parameters"))
    return isinstance(entry.get("name"), str) and isinstance(given, dict | str)


def _is_python(text: str, tools: Callable[[], Collection[str]]) -> bool:
    if text[-1:] not in (")", "]"):
        return False
    found = _PYTHON.fullmatch(text)
    return found is not None and found[1] in tools()
