"""One live session with an MCP server, whichever way it is reached.

The SDK's contexts must be left in the task that entered them, so a connection has a task of its own that opens the
session, waits and closes it; calls come from any task. A call fails in one of two ways: the server refused it
(`Refused`: the session goes on), or the session is over (`McpLost`: it hung, flooded, died, broke off). After a
`McpLost` nothing more is sent here; the connection closes when the last call that is still under way has come back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Literal, Protocol

from mcp import Client
from mcp.client import Transport
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolResult,
    Implementation,
    Tool,
)

from rollout.core.async_tools import is_cancelled
from rollout.core.errors import describe_error, text_of
from rollout.core.extras import installed_version
from rollout.core.secrets import redact

log = logging.getLogger(__name__)
# What the SDK logs of a session we say ourselves, without secrets; without a handler it would print on the terminal.
logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger("httpx2").setLevel(logging.WARNING)
LIST_PAGES = 100
Mode = Literal["legacy", "auto"]


class McpLink(Protocol):
    """A way to one server: a process, or an HTTP endpoint."""

    is_lost: bool
    """Set where nothing of the session matters any more, so that it ends without delay."""
    has_ended: bool
    """The server let go of us, as far as that shows before the next call."""

    @property
    def leave_seconds(self) -> float:
        """How long leaving `streams` may take before it is cut short."""
        ...

    def streams(self) -> Transport:
        """Reach the server; leaving lets go of it. Entered once."""
        ...

    def why_it_ended(self) -> str:
        """What is known of the end, in words that are the same each time it ends so."""
        ...

    def last_words(self) -> str:
        """What it said on its error output before it ended."""
        ...


class NotStarted(Exception):
    """A server could not be reached, or did not get ready. `last_words` is what it left on its error output."""

    def __init__(self, text: str, last_words: str) -> None:
        super().__init__(redact(text))
        self.last_words = last_words


class Refused(Exception):
    """The server answered a call with an error, or with something that is no result."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class McpLost(Exception):
    """The session is over, and the call with it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Connection:
    """A session. Made by `connect`; closed by who has it."""

    def __init__(self, link: McpLink, mode: Mode) -> None:
        self.tools: tuple[Tool, ...] = ()
        self._link = link
        self._mode = mode
        self._client: Client | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._owner = asyncio.create_task(self._own())
        self._calls = 0
        self.is_retired = False
        """A call was lost here, or it was closed."""

    @property
    def is_over(self) -> bool:
        """Whether no new call may be sent."""
        return self.is_retired or self._owner.done() or self._link.has_ended

    def give_up(self) -> None:
        """Nothing of the session matters any more: closing it will not wait for the server."""
        self._link.is_lost = True

    def why_it_ended(self) -> str:
        """Why a session that ended by itself did."""
        return self._link.why_it_ended()

    def last_words(self) -> str:
        """What the server said on its error output."""
        return self._link.last_words()

    async def be_ready(self) -> None:
        """Wait for the handshake and the list of tools. Raises what went wrong."""
        await asyncio.shield(self._ready)

    async def call(self, tool: str, arguments: dict[str, Any], seconds: float) -> CallToolResult:
        """Call a tool. Raises `Refused` or `McpLost`."""
        client = self._client
        if client is None:
            raise McpLost("crash", self._link.why_it_ended())
        self._calls += 1
        try:
            async with asyncio.timeout(seconds):
                return await client.call_tool(tool, arguments)
        except TimeoutError:
            self._link.is_lost = True
            self.is_retired = True
            raise McpLost("timeout", f"gave no answer within {seconds:g} s") from None
        except MCPError as error:
            # -32600 means that the server does not know the session (any more); no tool answers with it.
            if error.code not in (CONNECTION_CLOSED, INVALID_REQUEST):
                kind = "crash" if error.code == PARSE_ERROR else "tool"
                raise Refused(kind, error.message) from None
            self.is_retired = True
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            # Nobody cancelled us: the session's own tasks broke down around the call.
            self.is_retired = True
        except Exception as error:  # noqa: BLE001 - the SDK hands on whatever a server's answer does to it
            text = text_of(error).partition("\n")[0]
            raise Refused("crash", f"its answer is not a valid result: {text}") from None
        finally:
            self._calls -= 1
            if self.is_retired and not self._calls:
                await self.close()
        # Said after closing: by then it is known how the process ended.
        raise McpLost("crash", self._link.why_it_ended())

    async def close(self) -> None:
        """End the session and let go of the server. Works at any time, also twice."""
        self.is_retired = True
        self._leave.set()
        if self._ready.done():
            await asyncio.wait([self._owner], timeout=self._link.leave_seconds)
        if not self._owner.done():
            self._owner.cancel()
            await asyncio.wait([self._owner], timeout=self._link.leave_seconds)
        if self._ready.done():
            self._ready.exception()

    async def _own(self) -> None:
        try:
            async with Client(
                self._link.streams(),
                mode=self._mode,
                cache=None,
                client_info=Implementation(name="rollout", version=installed_version()),
            ) as client:
                self.tools = await _list_tools(client)
                self._client = client
                self._ready.set_result(None)
                await self._leave.wait()
        except BaseException as error:  # noqa: BLE001 - whatever ended the session goes to the task that waits
            if not self._ready.done():
                self._ready.set_exception(_first_cause(error))
        finally:
            self._client = None


async def connect(make_link: Callable[[], McpLink], seconds: float) -> Connection:
    """Reach a server and learn its tools. Raises `NotStarted`.

    Every server of today knows the handshake, and only with it has an HTTP server sessions. A server that has given it
    up says so, and is asked again in the newer way.
    """
    try:
        return await _connect(make_link(), seconds, "legacy")
    except _HandshakeRefused:
        return await _connect(make_link(), seconds, "auto")


class _HandshakeRefused(Exception):
    """The server speaks only versions that know no handshake."""


async def _connect(link: McpLink, seconds: float, mode: Mode) -> Connection:
    connection = Connection(link, mode)
    try:
        async with asyncio.timeout(seconds):
            await connection.be_ready()
    except TimeoutError:
        link.is_lost = True
        await connection.close()
        raise NotStarted(f"was not ready after {seconds:g} s", link.last_words()) from None
    except asyncio.CancelledError:
        link.is_lost = True
        await connection.close()
        raise
    except Exception as error:
        await connection.close()
        if isinstance(error, MCPError) and error.code == UNSUPPORTED_PROTOCOL_VERSION and mode == "legacy":
            raise _HandshakeRefused from None
        raise NotStarted(_why_not(error, link), link.last_words()) from error
    return connection


async def _list_tools(client: Client) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    cursor = None
    for _ in range(LIST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(tools)


def _why_not(error: Exception, link: McpLink) -> str:
    if isinstance(error, MCPError):
        if error.code == CONNECTION_CLOSED:
            return f"{link.why_it_ended()} before it was ready"
        return f"refused the handshake: {error.message}"
    if isinstance(error, OSError):
        return f"cannot be started: {error}"
    return f"cannot be reached: {describe_error(error).partition(chr(10))[0]}"


def _first_cause(error: BaseException) -> BaseException:
    """The error inside the groups that task groups make of it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
        return ConnectionError("it was given up")
    return error
