"""A site that lets nobody in."""

from __future__ import annotations

from aiohttp import web


def make_app() -> web.Application:
    """Every page is refused."""

    async def refuse(request: web.Request) -> web.Response:
        page = "<title>Access denied</title><h1>Access denied</h1><p>You have been blocked.</p>"
        return web.Response(text=page, status=403, content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", refuse)
    return app
