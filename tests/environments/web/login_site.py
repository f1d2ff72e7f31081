"""A site that knows its visitors by a cookie, and can act at the very moment that a page is asked for."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import TracebackType

from aiohttp import web

HEAD = "<!doctype html><title>{0}</title><h1>{0}</h1>"
LOGIN = HEAD.format("Sign in") + (
    "<form method=post action=/login><label>Name <input name=name></label><button>Enter</button></form>"
)
ACCOUNT = "<p>Hello {name}</p><a href=/basket>Basket</a>"
BASKET = "<ul>{items}</ul><form method=post action=/add><button>Add a mug</button></form>"


class LoginSite:
    """Baskets belong to the cookie: whoever has lost it sees the sign-in page."""

    def __init__(self, clock: Callable[[], str] = lambda: "") -> None:
        """`clock`: a text that the sign-in page shows."""
        self.on_request: Callable[[str], None] = lambda path: None
        """Called with the path of each request before it is answered."""
        self._clock = clock
        self._names: dict[str, str] = {}
        self._baskets: dict[str, int] = {}
        self._numbers = itertools.count(1)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)

    async def __aenter__(self) -> LoginSite:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.host = f"127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def url(self, path: str) -> str:
        return f"http://{self.host}{path}"

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.on_request(request.path_qs)
        if request.path == "/login" and request.method == "POST":
            visitor = f"v{next(self._numbers)}"
            self._names[visitor] = str((await request.post())["name"])
            self._baskets[visitor] = 0
            moved = web.HTTPFound("/account")
            moved.set_cookie("visitor", visitor)
            raise moved
        visitor = request.cookies.get("visitor", "")
        if visitor not in self._names:
            return _page(LOGIN + self._clock())
        if request.path == "/account":
            return _page(HEAD.format("Account") + ACCOUNT.format(name=self._names[visitor]))
        if request.path == "/add":
            self._baskets[visitor] += 1
            raise web.HTTPFound("/basket")
        items = "<li class=item>Mug</li>" * self._baskets[visitor]
        return _page(HEAD.format("Basket") + BASKET.format(items=items))


def _page(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html")
