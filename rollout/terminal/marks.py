"""Marks by people on the terminal: what, by whom, when, and the number to remove a mark by."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from rollout.core.secrets import redact
from rollout.trajectories.person_marks import PersonMark

MARK_STYLE = "bold blue"


def remark(mark: PersonMark) -> str:
    """A mark on one line."""
    what = {"note": "", "label": f"label {mark.text}", "verdict": f"verdict {mark.value or 0:g}"}.get(
        mark.kind, mark.kind
    )
    text = redact(mark.text) if mark.text and mark.kind != "label" else ""
    when = datetime.datetime.fromtimestamp(mark.at).strftime("%Y-%m-%d %H:%M")
    return f"✎ {mark.author}: {': '.join(filter(None, (what, text)))} (mark {mark.number}, {when})"


def show_marks(console: Console, marks: Iterable[PersonMark]) -> None:
    """Print marks, each with its place."""
    for mark in marks:
        place = mark.id if mark.message is None else f"{mark.id} message {mark.message}"
        console.print(Text.assemble((place, "bold"), f"  {remark(mark)}"), highlight=False, soft_wrap=True)
