"""Failures by cause: attempts that failed for the same reason are one line with a number.

A cause is the first line of an error without what differs from attempt to attempt: times, addresses, ids, long numbers.
HTTP statuses and ports stay. The text that is shown is the first one of its cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from rollout.trajectories.line import Failed

MOST_KEPT = 200
"""Causes that are kept apart; all further ones are counted together."""
MOST_TEXT = 300
_VARIES = re.compile(
    r"0x[0-9a-f]+"  # addresses
    r"|\b(?=[a-f-]*\d)[0-9a-f-]{7,}\b"  # ids
    r"|\b\d+(?:\.\d+)? ?(?:s|ms|seconds)\b"  # how long it took
    r"|\d+\.\d+|\d{6,}",
    re.IGNORECASE,
)
OTHERS = "other causes"


UNKNOWN = Failed("unknown", "no reason is on record")


class Cause(msgspec.Struct):
    """Why some attempts failed."""

    text: str
    kind: str = ""
    check: str | None = None
    """The keys of the models registry that are probably wrong."""
    count: int = 0


class Causes:
    """The causes of failed attempts, and how often each came."""

    def __init__(self, errors: Iterable[Failed | None] = ()) -> None:
        self._found: dict[tuple[str, str], Cause] = {}
        for error in errors:
            self.add(error)

    def add(self, error: Failed | None) -> Cause | None:
        """Count an attempt that failed; returns its cause if this is its first."""
        error = error or UNKNOWN
        text = " ".join(error.text.split()) or error.kind
        text = text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
        return self._count(cause_key(error), Cause(text, error.kind, error.check, 1))

    def include(self, other: Causes) -> None:
        """Count what another one has counted."""
        for key, cause in other._found.items():
            self._count(key, msgspec.structs.replace(cause))

    def _count(self, key: tuple[str, str], cause: Cause) -> Cause | None:
        if key not in self._found and len(self._found) >= MOST_KEPT:
            key, cause = ("", OTHERS), Cause(OTHERS, count=cause.count)
        known = self._found.setdefault(key, cause)
        if known is cause:
            return cause
        known.count += cause.count
        return None

    def listed(self) -> list[Cause]:
        """The causes, the most frequent first."""
        return sorted(self._found.values(), key=lambda cause: -cause.count)


def cause_key(error: Failed | None) -> tuple[str, str]:
    """What attempts that failed for the same reason have in common: the kind, and the text without what differs."""
    error = error or UNKNOWN
    line = next((line.strip() for line in error.text.splitlines() if line.strip()), error.kind)
    return error.kind, _VARIES.sub("#", line[:MOST_TEXT])


def describe_cause(text: str, check: str | None, registry: str | None) -> str:
    """A cause with the keys to check, and the file that these are in."""
    return text if check is None else f"{text} (check {check} in {registry or 'the models registry'})"
