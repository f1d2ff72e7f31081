"""The common base of the shipped sites: a visitor's state, the files, the frame of a page.

A visitor is known by a cookie; what it did (a cart, a login, an edited article) is kept in memory and belongs to no
other visitor, so episodes never mix. The number of visitors is bounded: the one not seen for longest is forgotten.
There is no clock here: "today" is `TODAY` on every site, so that a task means the same on every day.
"""

from __future__ import annotations

import datetime
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Generic, TypeVar

from aiohttp import web

from rollout.examples.web.hypertext import Child, Html, el, join

TODAY = datetime.date(2025, 3, 10)
"""A Monday."""
MAX_VISITORS = 2000
MAX_FIELD = 20_000

State = TypeVar("State")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_HERE = Path(__file__).parent


_NEW: ContextVar[tuple[web.Request, str] | None] = ContextVar("new visitor", default=None)


def cookie_for(request: web.Request) -> str | None:
    """The cookie that who asks gets with the answer; None for a visitor who has one."""
    new = _NEW.get()
    return new[1] if new is not None and new[0] is request else None


class Visitors(Generic[State]):
    """What each visitor did."""

    def __init__(self, begin: Callable[[], State], limit: int = MAX_VISITORS) -> None:
        self._begin = begin
        self._limit = limit
        self._states: OrderedDict[str, State] = OrderedDict()

    def of(self, request: web.Request) -> State:
        """The state of who asks. Somebody new gets a cookie with the answer."""
        key = cookie_for(request) or request.cookies.get("visitor", "")
        if key not in self._states:
            key = secrets.token_urlsafe(12)
            _NEW.set((request, key))
            self._states[key] = self._begin()
            if len(self._states) > self._limit:
                self._states.popitem(last=False)
        self._states.move_to_end(key)
        return self._states[key]

    def __len__(self) -> int:
        return len(self._states)


class Frame:
    """What is around every page of a site: its name, colours, navigation and foot."""

    def __init__(self, name: str) -> None:
        self.name = name

    def page(
        self, title: str, *body: Child, header: Child = None, footer: Child = None, status: int = 200
    ) -> web.Response:
        """A whole page as an answer."""
        document = el(
            "html",
            el(
                "head",
                el("meta", charset="utf-8"),
                el("meta", name="viewport", content="width=device-width"),
                el("title", f"{title} - {self.name}" if title else self.name),
                el("link", rel="icon", href="data:,"),
                el("link", rel="stylesheet", href="/style.css"),
                el("script", src="/site.js", defer=True),
            ),
            el(
                "body",
                el("header", header, class_="top"),
                el("main", *body),
                el("footer", footer or self.name, class_="foot"),
            ),
            lang="en",
        )
        return web.Response(text="<!doctype html>" + document, content_type="text/html", status=status)


def make_application(routes: Sequence[tuple[str, str, Handler]], name: str, missing: Handler) -> web.Application:
    """An application with these (method, path, handler), a page for what is not there, and its files.

    The style is the shared one with `<name>/style.css` behind it.
    """

    @web.middleware
    async def keep_visitor(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            answer = await handler(request)
        except (web.HTTPNotFound, web.HTTPMethodNotAllowed):
            answer = await missing(request)
        if (cookie := cookie_for(request)) is not None:
            answer.set_cookie("visitor", cookie, httponly=True, samesite="Lax")
        return answer

    async def send_style(request: web.Request) -> web.Response:
        return web.Response(text=css, content_type="text/css")

    async def send_script(request: web.Request) -> web.Response:
        return web.Response(text=script, content_type="text/javascript")

    css = "".join(path.read_text() for path in (_HERE / "style.css", _HERE / name / "style.css"))
    script = (_HERE / "site.js").read_text()
    application = web.Application(middlewares=[keep_visitor], client_max_size=256 * 1024)
    application.router.add_get("/style.css", send_style)
    application.router.add_get("/site.js", send_script)
    for method, path, handler in routes:
        application.router.add_route(method, path, handler)
    return application


def redirect(location: str) -> web.Response:
    """Go on to another page after something was done."""
    return web.Response(status=303, headers={"Location": location})


async def read_form(request: web.Request) -> dict[str, str]:
    """The fields of a form that was sent, without spaces around them. Of several with one name the last counts."""
    form = await request.post()
    return {name: value.strip()[:MAX_FIELD] for name, value in form.items() if isinstance(value, str)}


def number_of(text: str, default: int, low: int, high: int) -> int:
    """A whole number within bounds; the default where the text is none."""
    try:
        return max(low, min(high, int(text)))
    except ValueError:
        return default


def date_of(text: str) -> datetime.date | None:
    """A date as fields send it, 2025-01-31; None where the text is none."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


def show_date(date: datetime.date) -> str:
    """A date as people read it: Mon 10 Mar 2025."""
    return f"{date:%a} {date.day} {date:%b} {date.year}"


def take_notices(notices: list[tuple[str, str]]) -> Html:
    """What happened at the last request, shown once: pairs of kind (`good`, `bad`) and text."""
    told, notices[:] = list(notices), []
    return join([el("div", text, class_=f"notice {kind}", role="status") for kind, text in told])
