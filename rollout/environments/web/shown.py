"""Pages as agents saw them: read from the data of observations, for steps, rates and scorers.

Observations of earlier versions have no data. Their pages are recovered from the text, by
`rollout.trajectories.earlier_observations`.
"""

from __future__ import annotations

import msgspec

from rollout.core.messages import JSON, Message
from rollout.environments.web.observe import ShownPage
from rollout.trajectories.earlier_observations import recover_page


class Page(msgspec.Struct, frozen=True):
    """A page as the agent saw it."""

    url: str = ""
    title: str = ""
    status: int | None = None
    """The HTTP status of the document that came since the page before; None where none came, or where it is unknown."""
    notes: tuple[str, ...] = ()
    """Events that the page itself does not show."""
    below: str = ""
    """The text that the agent read below address and title."""
    body: str = ""
    """Of that text the list of elements, or the page's own text; nothing in the mode `coordinates`."""
    elements: int = 0
    """How many elements were numbered."""
    refused_hosts: tuple[str, ...] = ()
    image: str | None = None
    """The name of the screenshot's blob, which is a hash of it."""

    def looks_like(self, other: Page) -> bool:
        """Whether both look the same: by their screenshots where both have one, else by their texts."""
        if self.image is not None and other.image is not None:
            return self.image == other.image
        return (self.url, self.title, self.below) == (other.url, other.title, other.below)


NO_PAGE = Page()


def read_page(message: Message, data: JSON | None) -> Page | None:
    """The page that an observation shows; None where it shows none, as an error that left the page as it was.

    `data`: that of the observation; None where none is on record.
    """
    image = message.images[-1] if message.images else None
    if data is None:
        return _read_earlier(message, image)
    if "title" not in data:
        return None
    page = msgspec.convert(data, ShownPage)
    return Page(
        url=page.url,
        title=page.title,
        status=page.status,
        notes=page.notes,
        below=page.below_title(),
        body=page.body(),
        elements=len(page.elements),
        refused_hosts=page.refused_hosts,
        image=image,
    )


def _read_earlier(message: Message, image: str | None) -> Page | None:
    page = recover_page(message.content)
    if page is None:
        return None
    return Page(page.url, page.title, page.status, page.notes, page.below, page.body, page.elements, image=image)
