"""The application: routes, made from the tables of endpoints, and what an error looks like."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rollout.core.errors import RolloutError, class_name
from rollout.pipelines.run_code import no_code_of_runs
from rollout.viewer import page_files
from rollout.viewer.access import Access
from rollout.viewer.encoding import encode_redacted
from rollout.viewer.endpoint import ApiCall, Endpoint, read_body, read_query
from rollout.viewer.errors import RequestRefused, status_of
from rollout.viewer.following import follow
from rollout.viewer.routes import (
    blobs,
    corrections,
    documents,
    events,
    exports,
    growths,
    marks,
    parts,
    plays,
    runs,
    trajectories,
)
from rollout.viewer.server import Viewer

log = logging.getLogger(__name__)
ENDPOINTS: tuple[Endpoint, ...] = (
    *runs.ENDPOINTS,
    *trajectories.ENDPOINTS,
    *parts.ENDPOINTS,
    *blobs.ENDPOINTS,
    *exports.ENDPOINTS,
    *marks.ENDPOINTS,
    *corrections.ENDPOINTS,
    *growths.ENDPOINTS,
    *plays.ENDPOINTS,
    *events.ENDPOINTS,
    *documents.ENDPOINTS,
)
"""Everything that can be asked. Another module's endpoints are added here."""
_encode = msgspec.json.Encoder().encode


def make_app(viewer: Viewer, *, hosts: Sequence[str] = (), prefix: str = "", code: str | None = None) -> Access:
    """The whole application, with its access checked (`Access`)."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with no_code_of_runs():
            async with asyncio.TaskGroup() as tasks:
                viewer.open(tasks)
                following = tasks.create_task(follow(viewer))
                try:
                    yield
                finally:
                    following.cancel()
                    viewer.stop()
        viewer.close()

    viewer.offer(ENDPOINTS)
    routes = [Route(f"/api/{each.path}", _route(viewer, each), methods=[each.method]) for each in ENDPOINTS]
    routes.append(Route("/{name:path}", page_files.route(viewer), methods=["GET"]))
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_error, Exception: _unexpected},
    )
    return Access(app, token=viewer.token, hosts=hosts, prefix=prefix, code=code)


def _route(viewer: Viewer, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            if endpoint.writes and viewer.read_only:
                raise RequestRefused(403, "this server only reads (--read-only); start it without the option to write")
            call = ApiCall(
                viewer=viewer,
                request=request,
                path=request.path_params,
                query=read_query(request, endpoint.query),
                body=await read_body(request, endpoint.body),
            )
            found = await endpoint.handle(call)
        except RolloutError as error:
            return error_response(status_of(error), str(error))
        return found if isinstance(found, Response) else json_response(found)

    return answer


def json_response(found: Any, status: int = 200) -> Response:
    """An answer as JSON, without secrets that this process knows of."""
    return Response(encode_redacted(found), status, media_type="application/json")


def error_response(status: int, text: str) -> Response:
    """A refusal."""
    return Response(_encode({"error": text}), status, media_type="application/json")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    texts = {
        404: f"{request.url.path}: there is no such address; api/openapi.json lists all",
        405: f"{request.url.path}: {request.method} is not possible here; api/openapi.json lists what is",
    }
    return error_response(error.status_code, texts.get(error.status_code, error.detail))


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("%s %s: %s", request.method, request.url.path, class_name(error), exc_info=error)
    return error_response(500, f"the server made a mistake ({class_name(error)}); its log says more")
