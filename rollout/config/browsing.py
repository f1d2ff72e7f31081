"""The keys of worlds that are browsers: how pages look and what may be done there, and the browsers themselves."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rollout.config.section import Section

WebMode = Literal["coordinates", "set_of_marks", "text", "accessibility_tree"]
ImageFormat = Literal["png", "jpeg"]
Assets = Literal["site", "public"]


class WebSettings(Section):
    """How browsers look to pages, what the agent is shown of them, and how long anything may take."""

    mode: WebMode = "set_of_marks"
    """`coordinates`: a screenshot, acted on by points. `set_of_marks`: a screenshot with numbered elements and their
    list, with the text between them. `text`: the page as text with numbered elements, no screenshot.
    `accessibility_tree`: roles, names and text as a tree, in which an element keeps its number, no screenshot."""
    actions: tuple[str, ...] = ()
    """The actions that are offered, by name; all of the mode where none is named. `answer` is always offered."""
    width: int = Field(1280, ge=100, le=8192)
    """Of the window, in pixels."""
    height: int = Field(720, ge=100, le=8192)
    """Of the window, in pixels."""
    locale: str = "en-US"
    """The language that pages see."""
    timezone: str = "UTC"
    """The time zone that pages see."""
    coordinate_range: int | None = Field(None, ge=1)
    """null: points are pixels of the screenshot. A number: points run from 0 to it in both directions, whatever the
    size of the screenshot (1000 for Qwen models)."""
    image_format: ImageFormat = "png"
    """Of screenshots."""
    jpeg_quality: int = Field(80, ge=1, le=100)
    """Of screenshots in the format jpeg."""
    max_elements: int = Field(150, ge=1)
    """Numbered elements of one observation. The agent asks for the others with `more`."""
    max_text: int = Field(8000, ge=100)
    """Characters of a page's text in one observation. The agent asks for the rest with `more`."""
    max_tabs: int = Field(8, ge=1)
    """Tabs of one episode."""
    max_dialogs: int = Field(10, ge=0)
    """Dialogs (alerts and the like) of one step. Beyond it the page's script is stopped and further ones are muted."""
    hosts: tuple[str, ...] = ()
    """Hosts that a page may reach beside the task's own site, each with its subdomains; `*` is every public host."""
    assets: Assets = "site"
    """`site`: all parts of a page come from the hosts above. `public`: scripts, styles, pictures, fonts and data may
    come from every public host, and pages and frames still only from the hosts above. The default of `rollout web` is
    `public`."""
    private_hosts: tuple[str, ...] = ()
    """Hosts and networks that may be reached although they are private: `localhost:8080`, `10.1.0.0/16`."""
    sites: tuple[str, ...] = ()
    """Sites that are served for the run, each at `http://<name>.test/`: the name of a shipped one or of an entry point
    in the group `rollout.sites`, a folder of files, or `module:function` that makes an `aiohttp.web.Application`."""
    open_timeout: float = Field(60.0, gt=0)
    """Seconds to show the start page, waiting for a browser and for a turn not counted."""
    step_timeout: float = Field(30.0, gt=0)
    """Seconds for one action and its observation, waiting for a turn not counted. A page that was lost is opened again
    within as much again."""
    load_timeout: float = Field(10.0, gt=0)
    """Seconds that a page may load before it is shown as far as it is."""
    settle_timeout: float = Field(3.0, gt=0)
    """The longest that a loaded page may take to come to rest after an action: its requests, changes, animations that
    end and timers of up to a second. The observation names what is still under way then."""
    quiet: float = Field(0.06, ge=0)
    """A page is settled after this many seconds without changes."""
    max_wait: float = Field(10.0, gt=0)
    """The longest that the agent may ask to wait."""


class Browsers(Section):
    """The browsers that all datasets with `web` share."""

    executable: str | None = None
    """Chromium, by path or name. By default `chromium-headless-shell` or `chromium` on PATH, else Playwright's own."""
    max_contexts: int = Field(16, ge=1)
    """Episodes in browsers at once; others wait."""
    contexts_per_browser: int = Field(16, ge=1)
    """Contexts that one browser serves at once."""
    max_served: int = Field(400, ge=1)
    """A browser is replaced when it has served this many contexts."""
    max_memory_mb: int = Field(4096, ge=256)
    """And when its processes hold more than this."""
    max_active: int | None = Field(None, ge=1)
    """Contexts in which something is done at once: one is made, a page is opened, a step is done. Others wait for their
    turn, which no timeout but the episode's counts. By default 8 for each core."""
    min_free_mb: int = Field(512, ge=0)
    """A further context is only made while so much memory is free, of the machine and of the container."""
    spare_contexts: int = Field(1, ge=0)
    """Contexts that are made ahead, for each size of window, so that an episode need not wait for its own."""
