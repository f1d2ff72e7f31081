"""A site that takes its time, so that a run over several of its pages can be stopped in the middle."""

from __future__ import annotations

import asyncio

from aiohttp import web

DELAY = 0.15


def make_app() -> web.Application:
    """Each page comes late."""

    async def show(request: web.Request) -> web.Response:
        await asyncio.sleep(DELAY)
        return web.Response(text=f"<title>Page</title><h1>{request.path}</h1>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", show)
    return app
