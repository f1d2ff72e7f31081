"""Reading back what a world of browsers showed: the address and the title of the page stand first in its text."""

from __future__ import annotations

import re

import msgspec

from rollout.messages import Message

# The world puts an error, which is one line of JSON, before the page that the agent is left with.
_SHOWN = re.compile(r'(?:\{"error":[^\n]*\}\n)?URL: ([^\n]*)\nTitle: ([^\n]*)(?:\n|\Z)')


class Page(msgspec.Struct, frozen=True):
    """A page as the agent saw it."""

    url: str = ""
    title: str = ""
    text: str = ""
    """What followed address and title: tabs, notes, elements, the page's text."""
    image: str | None = None
    """The name of the screenshot's blob, which is a hash of it."""

    def looks_like(self, other: Page) -> bool:
        """Whether both show the same: by their screenshots where both have one, else by all that was told."""
        if self.image is not None and other.image is not None:
            return self.image == other.image
        return (self.url, self.title, self.text) == (other.url, other.title, other.text)


NO_PAGE = Page()


def read_page(message: Message) -> Page | None:
    """The page that an observation shows; None where it shows none, as an error that left the page as it was."""
    content = message.content or ""
    shown = _SHOWN.match(content)
    if shown is None:
        return None
    image = message.images[-1] if message.images else None
    return Page(shown[1], shown[2], content[shown.end() :], image)
