"""Failures by cause: attempts that failed for the same reason are one line with a number.

A cause is the text of an error without what differs from attempt to attempt: numbers with decimals, long ids. HTTP
statuses and ports stay. The text that is shown is the first one of its cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from rollout.trajectories.line import Failed, Head

MOST_KEPT = 200
"""Causes that are told apart; what comes after them is counted together."""
MOST_TEXT = 300
_VARIES = re.compile(r"\d+\.\d+|\b(?=\w*\d)[0-9a-f-]{7,}\b|\d{6,}")
OTHERS = "other causes"


class Cause(msgspec.Struct):
    """Why some attempts failed."""

    text: str
    kind: str = ""
    check: str | None = None
    """The keys of the models registry that are probably wrong."""
    count: int = 0


class Causes:
    """The causes of failed attempts, and how often each came."""

    def __init__(self, heads: Iterable[Head] = ()) -> None:
        self._found: dict[tuple[str, str], Cause] = {}
        for head in heads:
            self.add(head)

    def add(self, head: Head) -> Cause | None:
        """Count an attempt that failed; returns its cause where it is the first of it."""
        error = head.error or Failed("unknown", "no reason is on record")
        text = " ".join(error.text.split()) or error.kind
        text = text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
        key = (error.kind, _VARIES.sub("#", text))
        if key not in self._found and len(self._found) >= MOST_KEPT:
            key, text = ("", OTHERS), OTHERS
        is_new = key not in self._found
        cause = self._found.setdefault(key, Cause(text, error.kind, error.check))
        cause.count += 1
        return cause if is_new else None

    def listed(self) -> list[Cause]:
        """The causes, the most frequent first."""
        return sorted(self._found.values(), key=lambda cause: -cause.count)


def describe_cause(text: str, check: str | None, registry: str | None) -> str:
    """A cause with the keys to check, and the file that these are in."""
    return text if check is None else f"{text} (check {check} in {registry or 'the models registry'})"
