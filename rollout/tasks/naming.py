"""Names of servers and of the tools that several servers offer together.

A server is found by its name however it is spelt (`student_academic_portal`, `StudentAcademicPortal_mcp`, `HRPortal`),
because spellings are compared without case and separators against the files that exist. Where one agent is offered the
tools of several servers, each tool name gets its server's prefix: the initials (`sap_get_grades`), lengthened where
two servers share them. A prefix depends only on the *set* of servers, so it is the same in every run and order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MAX_TOOL_NAME = 64
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+|\d+")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def fold(name: str) -> str:
    """A name without case and separators, for comparing spellings."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def match_server(wanted: str, known: Iterable[str]) -> str | None:
    """The known server that `wanted` means; an ending `_mcp` or `_server` may stand or be left out."""
    folded = {fold(name): name for name in known}
    spelt = fold(wanted)
    for candidate in (spelt, spelt.removesuffix("mcp"), spelt.removesuffix("server"), spelt.removesuffix("mcpserver")):
        if candidate in folded:
            return folded[candidate]
    return None


def split_fused(fused: str, known: Iterable[str]) -> list[str] | None:
    """The servers of a fused name (`A_B_C`), in its order; None where it cannot be read with these servers."""
    return split_folded(fused, {fold(name): name for name in known})


def split_folded(fused: str, by_fold: Mapping[str, str]) -> list[str] | None:
    """As `split_fused`, with the servers by their folded names: for many names and the same servers."""
    parts = fused.split("_")
    found: list[str] = []
    start = 0
    while start < len(parts):
        for end in range(len(parts), start, -1):
            name = by_fold.get(fold("_".join(parts[start:end])))
            if name is not None:
                found.append(name)
                start = end
                break
        else:
            return None
    return found


def prefixes(servers: Iterable[str]) -> dict[str, str]:
    """A short, unique, stable prefix for each server of a set."""
    names = sorted(set(servers))
    words = {name: [word.lower() for word in _WORDS.findall(name)] or [fold(name) or "s"] for name in names}
    letters = 1
    while True:
        made = {name: "".join(word[:letters] for word in words[name]) for name in names}
        if len(set(made.values())) == len(names):
            return made
        if letters > max(len(word) for all_words in words.values() for word in all_words):
            # Names that differ only in what the words leave out, such as an underscore: number them in sorted order.
            return {name: f"{made[name]}{index}" for index, name in enumerate(names)}
        letters += 1


def offered_name(prefix: str | None, tool: str) -> str:
    """The name under which a tool is offered: legal for every provider."""
    name = _ILLEGAL.sub("_", tool if prefix is None else f"{prefix}_{tool}")
    return name[:MAX_TOOL_NAME]
