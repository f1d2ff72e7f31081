"""Observations of a page: the text that the agent reads, and the same as data for programs.

`shown_page` picks what a mode shows of an observation. A `ShownPage` is the data: its plain form (`to_data`) goes with
the text into the journal, and `describe` words it. Nothing reads the text back: `rollout.environments.web.shown` reads
the data.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.config.browsing import WebMode, WebSettings
from rollout.core.messages import JSON, Image
from rollout.core.results import well_formed
from rollout.core.secrets import mask

MAX_URL = 2_000
MAX_TITLE = 500
"""Characters of an address and of a title in the data. The text has fewer."""
MAX_HOSTS = 5
"""Refused hosts in the text. The data has them all."""


class Element(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something on the page that can be acted on."""

    role: str
    name: str
    state: str
    box: tuple[int, int, int, int]
    """Left, top, width and height in the window, in pixels."""
    number: int | None = None
    """None: its place in the list, from 1 on, as in observations of earlier versions."""
    before: str = ""
    """The text between the element before it and this one. Only in the mode `set_of_marks`."""

    def describe(self) -> str:
        """Role, accessible name and state on one line."""
        name = f' "{self.name}"' if self.name else ""
        return f"{self.role}{name}{f' ({self.state})' if self.state else ''}"


class Seen(msgspec.Struct, frozen=True, rename="camel"):
    """A document's own account of itself."""

    url: str
    title: str
    is_loaded: bool
    above: int
    below: int
    """Pixels of the page above and below what is in the window."""
    elements: tuple[Element, ...] = ()
    text: str = ""
    """The page in the modes `text` and `accessibility_tree`; in `set_of_marks` the text behind the last element."""
    is_cut: bool = False
    """Whether more can be listed than this part."""
    is_closing: bool = False
    """Whether the page has asked for its own tab to be closed."""
    waited: float = 0.0
    """Milliseconds that it took to settle, once it was loaded."""
    busy: tuple[str, ...] = ()
    """What was still under way when the time to settle was over: changes, animations, timers, content."""


class Observation(msgspec.Struct, frozen=True):
    """A page at one moment."""

    seen: Seen
    tabs: tuple[str, ...] = ()
    """The titles of all tabs, where there are several, in the order they were opened."""
    active_tab: int = 0
    notes: tuple[str, ...] = ()
    """Events that the page itself does not show: dialogs, downloads, new tabs since the last observation."""
    image: Image | None = None
    status: int | None = None
    """The HTTP status of the document that came since the last observation; None where none came."""
    refused_hosts: tuple[str, ...] = ()
    """Hosts that the egress rule kept this step from reaching."""
    refused_between: tuple[str, ...] = ()
    """Other hosts that it kept the page from reaching since the last observation. They are counted, but the agent does
    not read of them: they depend on how long it thought, so a replay would not meet them again."""
    busy: tuple[str, ...] = ()
    """What was still under way when the time to settle was over, requests included."""

    @property
    def images(self) -> tuple[Image, ...]:
        return () if self.image is None else (self.image,)


class ShownPage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an observation shows of a page: the data of the observation."""

    url: str
    title: str
    mode: WebMode
    error: str | None = None
    """Why the action failed that led here."""
    status: int | None = None
    """See `Observation`."""
    tabs: tuple[str, ...] = ()
    active_tab: int = 0
    is_loading: bool = False
    busy: tuple[str, ...] = ()
    """See `Observation`."""
    notes: tuple[str, ...] = ()
    refused_hosts: tuple[str, ...] = ()
    refused_between: tuple[str, ...] = ()
    """See `Observation`."""
    above: int = 0
    below: int = 0
    elements: tuple[Element, ...] = ()
    """Those of this part of the list. Empty in the mode `coordinates`."""
    text: str = ""
    """See `Seen`."""
    is_cut: bool = False

    def to_data(self) -> JSON:
        """The plain form, which `rollout.environments.web.shown` reads."""
        data: JSON = _well_formed_data(msgspec.to_builtins(self))
        return data

    def describe(self) -> str:
        """The text that the agent reads, without the error."""
        lines = [f"URL: {_short(self.url, 300)}", f"Title: {_short(self.title, 200)}", *self._about(), *self._body()]
        # Pages cut texts in the middle of a character, and so do we.
        return well_formed("\n".join(lines))

    def below_title(self) -> str:
        """The part of the text below address and title."""
        return well_formed("\n".join([*self._about(), *self._body()]))

    def body(self) -> str:
        """The list of elements, or the page's text; nothing in the mode `coordinates`."""
        return well_formed("\n".join(self._body())).removeprefix("\n")

    def _about(self) -> list[str]:
        lines = []
        if len(self.tabs) > 1:
            tabs = (
                f"{number + 1}. {_short(title, 60)}{' (this one)' if number == self.active_tab else ''}"
                for number, title in enumerate(self.tabs)
            )
            lines.append(f"Tabs: {'; '.join(tabs)}")
        if self.is_loading:
            lines.append("The page is still loading.")
        if self.busy:
            lines.append(f"The page had not settled when it was observed ({', '.join(self.busy)}). Wait to see more.")
        lines.extend(f"Note: {note}" for note in self.notes)
        if self.refused_hosts:
            shown = ", ".join(self.refused_hosts[:MAX_HOSTS])
            more = f" and {len(self.refused_hosts) - MAX_HOSTS} more" if len(self.refused_hosts) > MAX_HOSTS else ""
            lines.append(f"Hosts that this task may not reach were asked for parts of the page: {shown}{more}")
        if self.above or self.below:
            lines.append(f"Scrolled: {self.above} px of the page above, {self.below} px below")
        return lines

    def _body(self) -> list[str]:
        if self.mode == "set_of_marks":
            lines = ["Elements:" if self.elements else "Elements: none"]
            for place, element in enumerate(self.elements, 1):
                lines.extend(filter(None, (element.before, f"[{element.number or place}] {element.describe()}")))
            lines.extend(filter(None, (self.text,)))
            return [*lines, "(cut here; call more for the next part)"] if self.is_cut else lines
        if self.mode in ("text", "accessibility_tree"):
            lines = ["", self.text or "(the page shows no text)"]
            return [*lines, "(cut here; call more to read on)"] if self.is_cut else lines
        return []


def script_options(settings: WebSettings, mode: str, *, is_next: bool = False) -> dict[str, Any]:
    """Settings for the script in the page, but for those of settling. `is_next`: show the next part of what the last
    observation listed."""
    return {
        "mode": mode,
        "isNext": is_next,
        "maxElements": settings.max_elements,
        "maxText": settings.max_text,
    }


def shown_page(observation: Observation, settings: WebSettings, error: str | None = None) -> ShownPage:
    """What the agent is shown of an observation in the mode of the settings. Secrets are masked before anything is cut:
    half of one would not be recognised later."""
    seen = observation.seen
    has_elements = settings.mode != "coordinates"
    return ShownPage(
        _short(mask(seen.url), MAX_URL),
        _short(mask(seen.title), MAX_TITLE),
        settings.mode,
        error=error,
        status=observation.status,
        tabs=tuple(_short(mask(title), MAX_TITLE) for title in observation.tabs),
        active_tab=observation.active_tab,
        is_loading=not seen.is_loaded,
        busy=observation.busy,
        notes=observation.notes,
        refused_hosts=observation.refused_hosts,
        refused_between=observation.refused_between,
        above=seen.above,
        below=seen.below,
        elements=seen.elements if has_elements else (),
        text=seen.text if has_elements else "",
        is_cut=seen.is_cut and has_elements,
    )


def describe(observation: Observation, settings: WebSettings) -> str:
    """The observation as the text that the agent reads."""
    return shown_page(observation, settings).describe()


def status_note(status: int, text: str) -> str:
    """The note about a document that came with an HTTP error."""
    return f"The site answered with the status {status} {text}".rstrip() + "."


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


def _well_formed_data(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else well_formed(value)
    if isinstance(value, dict):
        return {key: _well_formed_data(inner) for key, inner in value.items()}
    return [_well_formed_data(inner) for inner in value] if isinstance(value, list | tuple) else value
