"""Endpoints: a table from which both the routes and the OpenAPI document are made.

A module of the server lists its endpoints; `rollout.viewer.app` puts the lists together. A handler is given an
`ApiCall` with path, query and body parsed and checked, and returns a struct, or a response of its own if that is not
JSON.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import msgspec
from starlette.requests import Request

from rollout.pipelines.people.author import author_name
from rollout.viewer.errors import RequestRefused

if TYPE_CHECKING:
    from rollout.viewer.open_runs import OpenRun
    from rollout.viewer.server import Viewer

MOST_BODY = 8 << 20
"""The greatest size of a request body, in bytes."""


class ApiCall(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed request."""

    viewer: Viewer
    request: Request
    path: Mapping[str, str]
    query: Any
    """An instance of the endpoint's `query`."""
    body: Any
    """An instance of the endpoint's `body`."""

    @property
    def run(self) -> OpenRun:
        """The run in the address. Raises RequestRefused if there is none."""
        return self.viewer.runs.get(self.path["run"])

    @property
    def author(self) -> str:
        """The author of a change: the header `X-Rollout-Author`, else the login name. Raises ConfigError if the header
        holds no name."""
        given = unquote(self.request.headers.get("x-rollout-author", "")).strip()
        return author_name(given) if given else self.viewer.author


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A method and path, with the types of its query, body and response."""

    path: str
    """Below `api/`, with parameters such as `{run}`."""
    summary: str
    handle: Callable[[ApiCall], Awaitable[Any]]
    answer: Any
    """The type of the response; None if it is not JSON."""
    method: Literal["GET", "POST", "DELETE"] = "GET"
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    media: str = "application/json"
    """The media type of a response that is not JSON."""
    writes: bool = False
    """Whether it changes anything. Refused by a read-only server."""


def read_query(request: Request, kind: type[msgspec.Struct] | None) -> Any:
    """The query of an address as a struct. Empty values count as missing. Raises RequestRefused."""
    if kind is None:
        return None
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    found: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        field = fields.get(name)
        if field is None:
            known = ", ".join(sorted(fields)) or "none"
            raise RequestRefused(400, f"{name}: there is no such parameter; there are: {known}")
        if value == "":
            continue
        if is_several(field.type):
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise RequestRefused(400, f"the query cannot be read: {error}") from error


async def read_body(request: Request, kind: type[msgspec.Struct] | None) -> Any:
    """The body of a request as a struct. Raises RequestRefused."""
    if kind is None:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY:
            raise RequestRefused(413, f"the request is longer than {MOST_BODY} bytes")
    try:
        return msgspec.json.decode(bytes(body) or b"{}", type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RequestRefused(400, f"the request cannot be read: {error}") from error


def is_several(kind: Any) -> bool:
    """Whether a parameter of this type may be repeated."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return any(map(is_several, typing.get_args(kind)))
    return origin in (tuple, list)
