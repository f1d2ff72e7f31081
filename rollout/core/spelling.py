"""Suggestions for names that match nothing: the nearest known one, or what there is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SHOWN = 30


def suggest(name: str, known: Iterable[str], there: str = "there are", cutoff: float = 0.6) -> str:
    """The end of an error message about a name that is not there: `did you mean 'x'?`, or the names that are."""
    names = [str(name) for name in known]
    by_case = {one.lower(): one for one in names}
    near = difflib.get_close_matches(name.lower(), by_case, n=1, cutoff=cutoff)
    if near:
        return f"did you mean {by_case[near[0]]!r}?"
    listed = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    return f"{there}: {listed or 'none'}"
