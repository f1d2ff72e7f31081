"""`widget`: a payment form that the pages of `patterns` show in a frame, from a host of its own."""

from __future__ import annotations

from aiohttp import web

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Payment</title><p>Pay with</p>
<button>Card</button> <button>Invoice</button>
<script>onclick = event => { if (event.target.tagName === "BUTTON")
parent.postMessage({ part: "paid", value: event.target.textContent.toLowerCase() }, "*"); };</script></html>"""


def make_app() -> web.Application:
    """The form."""

    async def show(request: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    app = web.Application()
    app.router.add_get("/", show)
    return app
