"""Any world served as an MCP server, so that other MCP clients can act in it.

Each MCP session has a world of its own. Over stdio the process is the session. Over streamable HTTP the session is the
one of the protocol's handshake; the newest protocol has no sessions, so a client that begins with it is asked to use an
older version, as the SDK's clients then do by themselves. A session's seed is the server's, or the `?seed=N` of the
address.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_types import (
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from rollout.core.calls import CallReader
from rollout.core.errors import ConfigError
from rollout.core.messages import ToolCall, ToolResult, Toolset, ToolSpec
from rollout.core.task import Task
from rollout.core.world import World

PATH = "/mcp"
IDLE_SECONDS = 30 * 60
"""A session of which nothing was heard for so long is over; the SDK forgets it too."""
SESSION_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"


class ServedWorlds:
    """The worlds of one server, one for each session."""

    def __init__(self, make_world: Callable[[], World], toolset: Toolset, seed: int) -> None:
        self.toolset = toolset
        self._make_world = make_world
        self._seed = seed
        self._reader = CallReader(toolset)
        self._sessions: dict[str, _Session] = {}

    async def call(self, session: str, seed: int | None, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool in a session's world. What cannot be called is answered as an agent would be."""
        found = await self._session(session, self._seed if seed is None else seed)
        # Calls of one session run in the order in which they came.
        async with found.lock:
            found.heard = time.monotonic()
            call = self._reader.read(ToolCall(f"call_{found.calls}", name, msgspec.json.encode(arguments).decode()))
            found.calls += 1
            if isinstance(call, ToolResult):
                return call
            (result,) = await found.world.call([call])
            return result

    async def end(self, session: str) -> None:
        """Close a session's world, where there is one."""
        found = self._sessions.pop(session, None)
        if found is not None:
            async with found.lock:
                await found.world.close()

    async def close(self) -> None:
        """Close every world."""
        for session in list(self._sessions):
            await self.end(session)

    async def _session(self, name: str, seed: int) -> _Session:
        found = self._sessions.get(name)
        if found is None:
            for old, idle in list(self._sessions.items()):
                if time.monotonic() - idle.heard > IDLE_SECONDS and not idle.lock.locked():
                    await self.end(old)
            found = self._sessions[name] = _Session(self._make_world())
            async with found.lock:
                await found.world.open(Task(id=name), seed)
        return found


class _Session:
    """A world and the order of its calls."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lock = asyncio.Lock()
        self.calls = 0
        self.heard = time.monotonic()


def make_server(name: str, worlds: ServedWorlds, instructions: str | None = None) -> Server[Any]:
    """The SDK's server over these worlds."""
    tools = [_tool_of(spec) for spec in worlds.toolset.specs]

    async def list_tools(context: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        session, seed = _session_of(context.request)
        return _answer(await worlds.call(session, seed, params.name, params.arguments or {}))

    return Server(name, instructions=instructions, on_list_tools=list_tools, on_call_tool=call_tool)


async def serve_stdio(server: Server[Any], worlds: ServedWorlds) -> None:
    """Serve one session over standard input and output, until the input ends."""
    try:
        async with stdio_server() as (reads, writes):
            await server.run(reads, writes, server.create_initialization_options())
    finally:
        await worlds.close()


async def serve_http(
    server: Server[Any], worlds: ServedWorlds, host: str, port: int, on_start: Callable[[str], None]
) -> None:
    """Serve streamable HTTP until a signal comes. `on_start` gets the address; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio sends small answers at once only on sockets that know themselves to be TCP.
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen()  # from here on clients may come: they wait until we serve
        except OSError as error:
            raise ConfigError(f"{host}:{port}: cannot listen there: {error.strerror or error}") from error
        shown = f"[{host}]" if ":" in host else host
        # Plain JSON answers: a stream for each would cost a connection for each, and there is nothing to stream.
        inner = server.streamable_http_app(
            streamable_http_path=PATH, json_response=True, session_idle_timeout=IDLE_SECONDS, host=host
        )
        app = _SessionGate(inner, worlds)
        config = uvicorn.Config(app, log_level="warning", lifespan="on", timeout_graceful_shutdown=2)
        on_start(f"http://{shown}:{listener.getsockname()[1]}{PATH}")
        try:
            await uvicorn.Server(config).serve(sockets=[listener])
        finally:
            await worlds.close()


class _SessionGate:
    """Before the SDK's app: sends clients without sessions to the handshake, and closes the worlds of ended ones."""

    def __init__(self, app: ASGIApp, worlds: ServedWorlds) -> None:
        self._app = app
        self._worlds = worlds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        version = request.headers.get(VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await _use_the_handshake(version, await _request_id(request))(scope, receive, send)
            return
        await self._app(scope, receive, send)
        session = request.headers.get(SESSION_HEADER)
        if request.method == "DELETE" and session is not None:
            await self._worlds.end(session)


async def _request_id(request: Request) -> Any:
    try:
        return msgspec.json.decode(await request.body()).get("id")
    except (msgspec.MsgspecError, AttributeError):
        return None


def _use_the_handshake(requested: str, request_id: Any) -> JSONResponse:
    data = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": requested}
    error = {"code": UNSUPPORTED_PROTOCOL_VERSION, "message": "this server keeps sessions", "data": data}
    return JSONResponse({"jsonrpc": "2.0", "id": request_id, "error": error}, status_code=400)


def _session_of(request: Request | None) -> tuple[str, int | None]:
    """The session of a request, and the seed that its address asks for."""
    if request is None:
        return "stdio", None
    seed = request.query_params.get("seed")
    return request.headers.get(SESSION_HEADER, ""), int(seed) if seed is not None and seed.isdecimal() else None


def _tool_of(spec: ToolSpec) -> Tool:
    hints = None if spec.is_write is None else ToolAnnotations(read_only_hint=not spec.is_write)
    return Tool(name=spec.name, description=spec.description, input_schema=spec.parameters, annotations=hints)


def _answer(result: ToolResult) -> CallToolResult:
    try:
        value = msgspec.json.decode(result.content)
    except (msgspec.MsgspecError, RecursionError):
        value = None
    return CallToolResult(
        content=[TextContent(type="text", text=result.content)],
        structured_content=value if isinstance(value, dict) else None,
        is_error=result.is_error,
    )
