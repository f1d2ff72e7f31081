"""Settling: what a step waits for before the page is observed, and for how long.

After an action three things have to come to rest: the requests that it caused, the document itself, and whatever the
document has planned for the next second. Requests are known from Playwright's events and waited for here. The document
waits for itself (settle.js), and knows its timers from a script in the page's own world (timers.js).

All of it together has one bound, `settle_timeout`, beside the time that a document takes to load. What was still under
way at the bound is reported in the observation. What never ends costs a step its bound once, and later steps nothing:
requests that are repeated or stay open, elements that never stop changing, recurring timers, endless animations.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from rollout.config.browsing import WebSettings
from rollout.core.messages import JSON

if TYPE_CHECKING:
    from playwright.async_api import Page, Request

AWAITED = frozenset({"document", "stylesheet", "script", "xhr", "fetch"})
"""Kinds of requests that a page depends on and that come to an end. Images are many, and seldom decide anything."""
REPEATED = 3
"""The same address so often in one step is a poll."""
REQUESTS = "requests"


class TimerWatch:
    """The script that notes a page's timers, with names for its events that no page can know."""

    def __init__(self) -> None:
        self._asked, self._answered = secrets.token_hex(12), secrets.token_hex(12)

    @property
    def script(self) -> str:
        """For every document of a context, before its own scripts."""
        names = (msgspec.json.encode(name).decode() for name in (self._asked, self._answered))
        return f"{_read('timers.js').strip()}({', '.join(names)})"

    def options(self) -> JSON:
        """For settle.js, which asks."""
        return {"asked": self._asked, "answered": self._answered}


class SettleBudget:
    """The time of one step to settle."""

    def __init__(self, settings: WebSettings) -> None:
        self._left = settings.settle_timeout
        self._loading = asyncio.get_running_loop().time() + settings.load_timeout
        self.busy: tuple[str, ...] = ()
        """What was unfinished when the time was over."""

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, self._left)

    @property
    def left_to_load(self) -> float:
        """Seconds for documents that are on their way."""
        return self._loading - asyncio.get_running_loop().time()

    def spend(self, seconds: float, busy: Sequence[str] = ()) -> None:
        """Some of it has passed, and this was still under way."""
        self._left -= seconds
        self.busy = tuple(dict.fromkeys((*self.busy, *busy)))


class PendingRequests:
    """The requests of a step that its page waits for."""

    def __init__(self) -> None:
        self.awaited = AWAITED
        """Kinds of requests that a step waits for."""
        self._pending: set[Request] = set()
        self._returned = asyncio.Event()
        self._answered: set[str] = set()
        """Addresses, without their queries, of requests that were answered since `settle` last looked."""
        self._rounds: Counter[str] = Counter()
        """In how many rounds of this step such an address was among the answered ones."""
        self._asked: Counter[str] = Counter()
        self._endless: set[str] = set()
        """Addresses, without their queries, that later steps do not wait for."""

    @property
    def has_any(self) -> bool:
        """Whether `settle` would wait, or has not looked yet at an answer."""
        return bool(self._pending or self._answered)

    def begin_step(self) -> None:
        """What was asked before does not count any more."""
        self._pending.clear()
        self._asked.clear()
        self._answered.clear()
        self._rounds.clear()

    def add(self, request: Request) -> None:
        """A request was sent."""
        kind, url = request.resource_type, request.url
        if kind == "document":
            self._endless.clear()
            self._pending.add(request)
        elif kind in self.awaited:
            self._asked[url] += 1
            if self._asked[url] > REPEATED:
                self._endless.add(_without_query(url))
            if _without_query(url) not in self._endless:
                self._pending.add(request)

    def note_answer(self) -> None:
        """A request has begun to be answered."""
        self._returned.set()

    def discard(self, request: Request) -> None:
        """A request was answered, or failed."""
        if request in self._pending and request.resource_type != "document":
            self._answered.add(_without_query(request.url))
        self._pending.discard(request)
        self._returned.set()

    def discard_page(self, page: Page) -> None:
        """A page was closed. What it had asked for is not always reported as failed."""
        self._pending = {request for request in self._pending if not _is_of(request, page)}
        self._returned.set()

    async def is_late(self, page: Page, budget: SettleBudget) -> bool:
        """Wait for the next document of a page, as long as it may load. True where it has not come: until it is given
        up, Chromium passes no question on to the page."""
        while any(_is_next(request, page) for request in self._pending):
            if budget.left_to_load <= 0:
                return True
            self._returned.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(budget.left_to_load):
                    await self._returned.wait()
        return False

    def give_up_documents(self) -> None:
        """The browser was told to stop loading."""
        self._pending = {request for request in self._pending if request.resource_type != "document"}

    async def settle(self, budget: SettleBudget) -> bool:
        """Wait until none is left. True where there were some, also while the document was waited for: its script may
        not have got to the answer yet, and the page may look different now."""
        waited = bool(self._answered) and budget.left > 0
        loop = asyncio.get_running_loop()
        while self._pending:
            is_moving = any(request.resource_type == "document" for request in self._pending)
            left = budget.left_to_load if is_moving else budget.left
            if left <= 0:
                break
            waited, started = True, loop.time()
            self._returned.clear()
            try:
                async with asyncio.timeout(left):
                    await self._returned.wait()
            except TimeoutError:
                pass
            if not is_moving:
                budget.spend(loop.time() - started)
        if self._pending:
            if budget.left <= 0:
                budget.spend(0, (REQUESTS,))
            self._endless.update(_without_query(each.url) for each in self._pending if each.resource_type != "document")
            self._pending.clear()
        self._rounds.update(self._answered)
        self._endless.update(address for address in self._answered if self._rounds[address] > REPEATED)
        self._answered.clear()
        return waited


def settle_options(settings: WebSettings, budget: SettleBudget, step: int, timers: TimerWatch) -> dict[str, Any]:
    """For settle.js, in milliseconds."""
    times = {"quiet": settings.quiet, "settle": budget.left, "load": settings.load_timeout}
    return {name: seconds * 1e3 for name, seconds in times.items()} | {"step": step} | timers.options()


def settle_script() -> str:
    """For the isolated world, before the script that asks it."""
    return _read("settle.js")


def _is_next(request: Request, page: Page) -> bool:
    """Whether a request is for the document that comes after a page's present one, and has no answer yet."""
    if request.resource_type != "document" or request.existing_response is not None:
        return False
    return _is_of(request, page) and request.frame.parent_frame is None


def _is_of(request: Request, page: Page) -> bool:
    from playwright.async_api import Error

    try:
        return request.frame.page is page
    except Error:
        return False  # of a service worker, or of a tab that has not arrived yet


def _without_query(url: str) -> str:
    return url.partition("?")[0]


@functools.cache
def _read(name: str) -> str:
    return resources.files("rollout.environments.web").joinpath(name).read_text()
