"""Reading what a web agent was shown: the text that `rollout.worlds.web.observe` writes of a page."""

from __future__ import annotations

import re

import msgspec


class Told(msgspec.Struct, frozen=True):
    """An observation as it is on record."""

    url: str
    title: str
    notes: tuple[str, ...] = ()
    body: str = ""
    """The list of elements, or the page's text; nothing in the mode `coordinates`."""

    @property
    def status(self) -> int | None:
        """The HTTP error that the document came with, where one was told."""
        found = [match for note in self.notes if (match := _STATUS.match(note))]
        return int(found[-1][1]) if found else None


_STATUS = re.compile(r"The site answered with the status (\d{3})\b")
_OBSERVATION = re.compile(r"(?:\{.*\}\n)?URL: (.*)\nTitle: (.*)(?:\n|$)")
_ABOUT = re.compile(r"(?:Tabs: .*|The page is still loading\.|Note: (.*)|Scrolled: .*)(?:\n|$)")


def read_observation(text: str) -> Told | None:
    """Read what `describe` wrote, behind an error or not. None where a text is no observation of a page."""
    head = _OBSERVATION.match(text)
    if head is None:
        return None
    notes = []
    place = head.end()
    while about := _ABOUT.match(text, place):
        place = about.end()
        if about[1] is not None:
            notes.append(about[1])
    return Told(head[1], head[2], tuple(notes), text[place:].removeprefix("\n"))
