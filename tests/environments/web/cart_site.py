"""A shop with a cart for each visitor, to score what agents leave behind. `make_app` makes its application."""

from __future__ import annotations

import asyncio
import itertools

from aiohttp import web

PAGE = "<!doctype html><title>{title}</title><h1>{title}</h1>{body}"
second_visitor = asyncio.Event()


def make_app() -> web.Application:
    carts: dict[str, list[str]] = {}
    numbers = itertools.count(1)
    app = web.Application()

    async def show(request: web.Request) -> web.Response:
        visitor = request.cookies.get("visitor")
        is_new = visitor not in carts
        if visitor is None or is_new:
            visitor = str(next(numbers))
            carts[visitor] = []
            if visitor == "2":
                second_visitor.set()
        if request.path == "/add":
            carts[visitor].append("Blue mug")
        items = "".join(f"<li class=item>{item}</li>" for item in carts[visitor])
        title = {"/": "Shop", "/add": "Added", "/cart": "Cart"}.get(request.path)
        if title is None:
            return web.Response(status=500, text="broken")
        body = f"<p>Blue mug, 12 EUR</p><a href=/add>Add to cart</a><ul>{items if title == 'Cart' else ''}</ul>"
        body += f"<script>window.cart = {len(carts[visitor])}</script>"
        reply = web.Response(text=PAGE.format(title=title, body=body), content_type="text/html")
        reply.set_cookie("visitor", visitor)
        return reply

    app.router.add_get("/{path:.*}", show)
    return app
