"""The files of the page, served as they were built."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rollout.viewer.server import Viewer

INDEX = "index.html"
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
NOT_BUILT = (
    "<!doctype html><meta charset=utf-8><title>rollout view</title>"
    "<p>The page is not built. Run <code>make page</code>; the API answers below <code>api/</code> without it.</p>"
)


def route(viewer: Viewer) -> Callable[[Request], Awaitable[Response]]:
    """Answers with a file of the page."""

    async def answer(request: Request) -> Response:
        name = request.path_params["name"] or INDEX
        if name == "api" or name.startswith("api/"):
            raise HTTPException(404)
        # Only names that are in the folder itself: a request never forms a path.
        files = {path.name: path for path in viewer.page.glob("*") if path.suffix in MEDIA and path.is_file()}
        if name not in files:
            if name == INDEX:
                return HTMLResponse(NOT_BUILT)
            raise HTTPException(404)
        content = await to_thread.run_sync(files[name].read_bytes)
        return Response(content, media_type=MEDIA[files[name].suffix])

    return answer
