"""How browsers look to pages, what the agent is shown of them, and how long anything may take."""

from __future__ import annotations

from typing import Literal

import msgspec

Mode = Literal["coordinates", "set_of_marks", "text"]
ImageFormat = Literal["png", "jpeg"]


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of all worlds of one pool."""

    mode: Mode = "set_of_marks"
    """`coordinates`: a screenshot, acted on by points. `set_of_marks`: a screenshot with numbered elements and their
    list. `text`: the page as text with numbered elements, no screenshot."""
    width: int = 1280
    height: int = 720
    locale: str = "en-US"
    timezone: str = "UTC"
    coordinate_range: int | None = None
    """None: points are pixels of the screenshot. A number: points run from 0 to it in both directions, whatever the
    size of the screenshot (1000 for Qwen models)."""
    image_format: ImageFormat = "png"
    jpeg_quality: int = 80
    max_elements: int = 150
    max_text: int = 8000
    """Characters of a page's text in the mode `text`."""
    max_tabs: int = 8
    max_dialogs: int = 10
    """Dialogs (alerts and the like) of one step. Beyond it the page's script is stopped and further ones are muted."""

    hosts: tuple[str, ...] = ()
    """Hosts that a page may reach beside the task's own site, each with its subdomains; `*` is every public host."""
    private_hosts: tuple[str, ...] = ()
    """Hosts and networks that may be reached although they are private: `localhost:8080`, `10.1.0.0/16`."""

    open_timeout: float = 60.0
    """Seconds to get a browser and show the start page, waiting for a free place not counted."""
    step_timeout: float = 30.0
    """Seconds for one action and its observation. A page that was lost is opened again within as much again."""
    load_timeout: float = 10.0
    """Seconds that a page may load before it is shown as far as it is."""
    settle_timeout: float = 3.0
    """Seconds that requests and changes of the page after an action are waited for."""
    quiet: float = 0.06
    """A page without changes for so many seconds is settled."""
    max_wait: float = 10.0
    """The longest that the agent may ask to wait."""
