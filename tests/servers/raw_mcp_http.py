"""A streamable HTTP MCP server by hand, in this process, that misbehaves on demand."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
from collections import Counter
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from tests.models.hostile import packed_zeros

TOOLS = ("add", "hang", "endless", "endless_events", "reset", "broken", "forget", "headers", "bomb",
         "bomb_events", "packed", "any", "echo", "authorization", "error500", "cut", "nonsense")  # fmt: skip


class RawHttpServer:
    """Runs while its `async with` block does, at `url`."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """The state of each live session."""
        self.result = b"{}"
        """What the tool `any` answers, as it is sent."""
        self.called: Counter[str] = Counter()
        """How often each tool was called."""
        self.ended: list[str] = []
        """Sessions that a client ended."""
        self._numbers = itertools.count(1)
        self._gone = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/mcp", self._post)
        app.router.add_get("/mcp", self._refuse)
        app.router.add_delete("/mcp", self._delete)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/mcp"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        self._gone.set()
        await self._runner.cleanup()

    async def _refuse(self, request: web.Request) -> web.Response:
        return web.Response(status=405)

    async def _delete(self, request: web.Request) -> web.Response:
        session = request.headers["mcp-session-id"]
        self.ended.append(session)
        self.counts.pop(session, None)
        return web.Response(status=200)

    async def _post(self, request: web.Request) -> web.StreamResponse:
        message = await request.json()
        method, params = message["method"], message.get("params") or {}
        headers = {}
        if "id" not in message:
            return web.Response(status=202)
        if method == "initialize":
            session = f"s{next(self._numbers)}"
            self.counts[session] = 0
            headers = {"mcp-session-id": session}
            result: dict[str, Any] = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "raw", "version": "1"},
            }
        elif request.headers.get("mcp-session-id") not in self.counts:
            return web.Response(status=404)
        elif method == "tools/list":
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        else:
            self.called[params["name"]] += 1
            text = await self._call(request, params["name"])
            if isinstance(text, web.StreamResponse):
                return text
            result = {"content": [{"type": "text", "text": text}]}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)

    async def _call(self, request: web.Request, name: str) -> str | web.StreamResponse:
        session = request.headers["mcp-session-id"]
        match name:
            case "add":
                self.counts[session] += 1
                return str(self.counts[session])
            case "hang":
                await self._gone.wait()
            case "endless":
                return await _pour(request, "application/json", b"x" * 65536)
            case "endless_events":
                notice = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
                event = f"event: message\r\ndata: {json.dumps(notice)}\r\n\r\n".encode()
                return await _pour(request, "text/event-stream", event * 100)
            case "bomb":
                packed = packed_zeros(256)
                return web.Response(body=packed, content_type="application/json", headers={"Content-Encoding": "gzip"})
            case "bomb_events":
                packed = packed_zeros(256)
                return web.Response(body=packed, content_type="text/event-stream", headers={"Content-Encoding": "gzip"})
            case "any":
                request_id = json.dumps((await request.json())["id"]).encode()
                body = b'{"jsonrpc": "2.0", "id": ' + request_id + b', "result": ' + self.result + b"}"
                return web.Response(body=body, content_type="application/json")
            case "packed":
                request_id = (await request.json())["id"]
                result = {"content": [{"type": "text", "text": "unpacked"}]}
                body = json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode()
                return web.Response(
                    body=gzip.compress(body), content_type="application/json", headers={"Content-Encoding": "gzip"}
                )
            case "reset":
                assert request.transport is not None
                request.transport.abort()
            case "broken":
                return web.Response(text="<html>proxy</html>", content_type="text/html")
            case "forget":
                del self.counts[session]
                return web.Response(status=404)
            case "echo":
                return str((await request.json())["params"]["arguments"]["text"])
            case "authorization":
                return request.headers.get("Authorization", "")
            case "error500":
                return web.Response(status=500, text=f"sorry, {request.headers.get('Authorization')}")
            case "cut":
                return await _cut(request)
            case "nonsense":
                body = {"jsonrpc": "2.0", "id": (await request.json())["id"], "result": {"content": "this is no list"}}
                return web.json_response(body)
            case "headers":
                return json.dumps(dict(request.headers))
        return ""


async def _cut(request: web.Request) -> web.StreamResponse:
    """Announce more than comes, and close the connection."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"jsonrpc": "2.0", "id": ')
    assert request.transport is not None
    request.transport.close()
    return response


async def _pour(request: web.Request, content_type: str, piece: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": content_type})
    await response.prepare(request)
    while True:
        await response.write(piece)
