"""Web pages in observations that earlier versions recorded: facts recovered from the text that the agent was shown.

Observations now carry their facts beside the text (`ToolResult.data`), and everything reads those. Journals and lines
of earlier versions hold the text alone. This module reads it, and is used only for an observation without data. In the
text, address and title come first, then lines about the page (tabs, notes, the scroll position), then its elements or
its text. Where an action failed, the error, one line of JSON, precedes all of it.
"""

from __future__ import annotations

import re

import msgspec

_STATUS = re.compile(r"The site answered with the status (\d{3})\b")
_SHOWN = re.compile(r"(?:\{.*\}\n)?URL: (.*)\nTitle: (.*)(?:\n|\Z)")
_ABOUT = re.compile(r"(?:Tabs: .*|The page is still loading\.|Note: (.*)|Scrolled: .*)(?:\n|\Z)")


class EarlierPage(msgspec.Struct, frozen=True):
    """A page in an observation of an earlier version."""

    url: str
    title: str
    status: int | None
    """The HTTP error that the document came with, where a note says so."""
    notes: tuple[str, ...]
    below: str
    """Everything that follows the title."""
    body: str
    """The list of elements, or the page's text; nothing in the mode `coordinates`."""

    @property
    def elements(self) -> int:
        """How many elements are listed one a line."""
        return self.body.count("\n[") + self.body.startswith("[")


def recover_page(content: str | None) -> EarlierPage | None:
    """The page that an observation shows; None where it shows none, as an error that left the page as it was."""
    shown = _SHOWN.match(content or "")
    if shown is None:
        return None
    below = shown.string[shown.end() :]
    notes = []
    place = 0
    while about := _ABOUT.match(below, place):
        place = about.end()
        if about[1] is not None:
            notes.append(about[1])
    statuses = [match for note in notes if (match := _STATUS.match(note))]
    status = int(statuses[-1][1]) if statuses else None
    return EarlierPage(shown[1], shown[2], status, tuple(notes), below, below[place:].removeprefix("\n"))
