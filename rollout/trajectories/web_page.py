"""Reading what a web agent was shown: the text that `rollout.environments.web.observe` writes of a page.

Address and title stand first, then what there is to tell beside the page (tabs, notes, the place in it), then its
elements or its text. Where an action failed, the error, which is one line of JSON, stands before all of it.
"""

from __future__ import annotations

import re

import msgspec

from rollout.core.messages import Message

_STATUS = re.compile(r"The site answered with the status (\d{3})\b")
_SHOWN = re.compile(r"(?:\{.*\}\n)?URL: (.*)\nTitle: (.*)(?:\n|\Z)")
_ABOUT = re.compile(r"(?:Tabs: .*|The page is still loading\.|Note: (.*)|Scrolled: .*)(?:\n|\Z)")


class Page(msgspec.Struct, frozen=True):
    """A page as the agent saw it."""

    url: str = ""
    title: str = ""
    text: str = ""
    """Everything that followed address and title."""
    image: str | None = None
    """The name of the screenshot's blob, which is a hash of it."""

    @property
    def notes(self) -> list[str]:
        """What happened that the page itself does not show."""
        return [about[1] for about in self._about() if about[1] is not None]

    @property
    def body(self) -> str:
        """The list of elements, or the page's text; nothing in the mode `coordinates`."""
        end = max((about.end() for about in self._about()), default=0)
        return self.text[end:].removeprefix("\n")

    @property
    def status(self) -> int | None:
        """The HTTP error that the document came with, where one was told."""
        found = [match for note in self.notes if (match := _STATUS.match(note))]
        return int(found[-1][1]) if found else None

    def looks_like(self, other: Page) -> bool:
        """Whether both show the same: by their screenshots where both have one, else by all that was told."""
        if self.image is not None and other.image is not None:
            return self.image == other.image
        return (self.url, self.title, self.text) == (other.url, other.title, other.text)

    def _about(self) -> list[re.Match[str]]:
        found = []
        place = 0
        while about := _ABOUT.match(self.text, place):
            found.append(about)
            place = about.end()
        return found


NO_PAGE = Page()


def read_page(message: Message) -> Page | None:
    """The page that an observation shows; None where it shows none, as an error that left the page as it was."""
    page = read_text(message.content or "")
    if page is None or not message.images:
        return page
    return msgspec.structs.replace(page, image=message.images[-1])


def read_text(text: str) -> Page | None:
    """The same, of an observation's text alone."""
    shown = _SHOWN.match(text)
    return None if shown is None else Page(shown[1], shown[2], text[shown.end() :])
