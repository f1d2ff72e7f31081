"""Differences between two states, in the form in which scores show them."""

from __future__ import annotations

from typing import Any

from rollout.worlds.world import Changes

SHOWN_ROWS = 5


def show_differences(changes: Changes) -> dict[str, Any]:
    """The tables that differ from the reference's, with a few of the rows on each side.

    `changes` leads from the reference's state to the agent's: what it adds is extra, what it removes is missing.
    """
    return {
        name: {
            "missing": list(change.removed[:SHOWN_ROWS]),
            "extra": list(change.added[:SHOWN_ROWS]),
            "missing_rows": len(change.removed),
            "extra_rows": len(change.added),
        }
        for name, change in changes.items()
    }
