"""What the agent is shown of a page, and the words for it. `rollout.trajectories.web_page` reads it again."""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.config.browsing import WebSettings
from rollout.core.messages import Image
from rollout.core.results import well_formed
from rollout.trajectories.web_page import read_text


class Element(msgspec.Struct, frozen=True):
    """Something on the page that can be acted on."""

    role: str
    name: str
    state: str
    box: tuple[int, int, int, int]
    """Left, top, width and height in the window, in pixels."""

    def describe(self) -> str:
        """Role, accessible name and state on one line."""
        name = f' "{self.name}"' if self.name else ""
        return f"{self.role}{name}{f' ({self.state})' if self.state else ''}"


class Seen(msgspec.Struct, frozen=True, rename="camel"):
    """What a document says of itself."""

    url: str
    title: str
    is_loaded: bool
    above: int
    below: int
    """Pixels of the page above and below what is in the window."""
    elements: tuple[Element, ...] = ()
    """In the order of their numbers, which begin at 1."""
    text: str = ""
    is_cut: bool = False
    is_closing: bool = False
    """Whether the page has asked for its own tab to be closed."""


class Observation(msgspec.Struct, frozen=True):
    """A page at one moment."""

    seen: Seen
    tabs: tuple[str, ...] = ()
    """The titles of all tabs, where there are several, in the order they were opened."""
    active_tab: int = 0
    notes: tuple[str, ...] = ()
    """What the page itself does not show: dialogs, downloads, new tabs since the last observation."""
    image: Image | None = None

    @property
    def images(self) -> tuple[Image, ...]:
        return () if self.image is None else (self.image,)


def script_options(settings: WebSettings, mode: str) -> dict[str, Any]:
    """What the script in the page needs to know."""
    return {
        "mode": mode,
        "quiet": settings.quiet * 1e3,
        "settle": settings.settle_timeout * 1e3,
        "load": settings.load_timeout * 1e3,
        "maxElements": settings.max_elements,
        "maxText": settings.max_text,
    }


def describe(observation: Observation, settings: WebSettings) -> str:
    """The observation as the text that the agent reads."""
    seen = observation.seen
    lines = [f"URL: {_short(seen.url, 300)}", f"Title: {_short(seen.title, 200)}"]
    if len(observation.tabs) > 1:
        tabs = (
            f"{number + 1}. {_short(title, 60)}{' (this one)' if number == observation.active_tab else ''}"
            for number, title in enumerate(observation.tabs)
        )
        lines.append(f"Tabs: {'; '.join(tabs)}")
    if not seen.is_loaded:
        lines.append("The page is still loading.")
    lines.extend(f"Note: {note}" for note in observation.notes)
    if seen.above or seen.below:
        lines.append(f"Scrolled: {seen.above} px of the page above, {seen.below} px below")
    if settings.mode == "set_of_marks":
        lines.append("Elements:" if seen.elements else "Elements: none")
        lines.extend(f"[{number}] {element.describe()}" for number, element in enumerate(seen.elements, 1))
        if seen.is_cut:
            lines.append("(there are more elements; scroll to see them)")
    elif settings.mode == "text":
        lines += ["", seen.text or "(the page shows no text)"]
        if seen.is_cut:
            lines.append("(cut here; scroll down to read on)")
    # Pages cut texts in the middle of a character, and so do we.
    return well_formed("\n".join(lines))


def add_note(text: str, note: str) -> str:
    """The text of an observation with one more note; the note is before it where it shows no page."""
    page = read_text(text)
    if page is None:
        return f"{note}\n{text}"
    head = text.removesuffix(page.text).removesuffix("\n")
    return "\n".join([head, f"Note: {note}", *([page.text] if page.text else [])])


def status_note(status: int, text: str) -> str:
    """What is told of a document that came with an HTTP error."""
    return f"The site answered with the status {status} {text}".rstrip() + "."


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"
