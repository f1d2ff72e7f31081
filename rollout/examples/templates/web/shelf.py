"""A site: pages about books, and a form that borrows one. Each visitor, known by a cookie, has their own loans."""

from __future__ import annotations

import html
import secrets

from aiohttp import web

BOOKS = {"dune": ("Dune", 1965, 2), "emma": ("Emma", 1815, 1), "ulysses": ("Ulysses", 1922, 0)}
"""By the name in the address: title, year, copies on the shelf."""
COOKIE = "visitor"


def _page(title: str, body: str) -> web.Response:
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
    return web.Response(
        text=f'{head}<h1>{html.escape(title)}</h1>{body}<p><a href="/">All books</a>', content_type="text/html"
    )


def make_app() -> web.Application:
    """The site. `web.sites` in project.yml names this function."""
    loans: dict[str, set[str]] = {}

    def loans_of(request: web.Request) -> set[str]:
        return loans.get(request.cookies.get(COOKIE, ""), set())

    async def home(request: web.Request) -> web.Response:
        items = "".join(f'<li><a href="/book/{key}">{title}</a>' for key, (title, _, _) in BOOKS.items())
        mine = ", ".join(BOOKS[key][0] for key in sorted(loans_of(request))) or "none"
        return _page("Library", f'<ul>{items}</ul><p>Your loans: <span id="loans">{mine}</span>')

    async def book(request: web.Request) -> web.Response:
        if (key := request.match_info["key"]) not in BOOKS:
            raise web.HTTPNotFound
        title, year, copies = BOOKS[key]
        form = f'<form method="post" action="/borrow/{key}"><button>Borrow</button></form>' if copies else ""
        return _page(title, f"<p>First published in {year}. Copies on the shelf: {copies}.{form}")

    async def borrow(request: web.Request) -> web.Response:
        key = request.match_info["key"]
        if key not in BOOKS or not BOOKS[key][2]:
            raise web.HTTPNotFound
        visitor = request.cookies.get(COOKIE) or secrets.token_hex(8)
        loans.setdefault(visitor, set()).add(key)
        answer = web.HTTPSeeOther("/")
        answer.set_cookie(COOKIE, visitor)
        raise answer

    app = web.Application()
    app.add_routes([web.get("/", home), web.get("/book/{key}", book), web.post("/borrow/{key}", borrow)])
    return app
