"""The place of one server in one episode, or in the run where the server is shared: at most one connection at a time.

A server that dies, hangs or floods costs the call it was busy with; the next call finds a new instance. Where the
server keeps state, that state is gone, and the error says so to the agent: nothing is hidden and nothing is guessed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from mcp_types import CallToolResult, Tool

from rollout.core.errors import WorldError
from rollout.core.secrets import redact
from rollout.environments.mcp.connection import Connection, McpLink, McpLost, NotStarted, Refused, connect

log = logging.getLogger(__name__)
STATE_IS_LOST = "its state is lost, and it starts again at the next call"


class CallFault(Exception):
    """A call that failed, with what the agent reads. `kind` is the error kind of the observation."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Slot:
    """Holds the connection to one server, and makes a new one where it was lost."""

    def __init__(
        self,
        name: str,
        make_link: Callable[[], McpLink],
        *,
        start_seconds: float,
        starts: asyncio.Semaphore,
        is_shared: bool,
        on_start: Callable[[tuple[Tool, ...]], None],
    ) -> None:
        self.is_shared = is_shared
        self._name = name
        self._make_link = make_link
        self._start_seconds = start_seconds
        self._starts = starts
        self._on_start = on_start
        self._connection: Connection | None = None
        self._start: asyncio.Task[Connection] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        """Let go of what is left of instances that ended by themselves, while calls go on with the next one."""
        self._has_started = False
        self._is_closed = False

    def begin(self) -> None:
        """Start the server while the caller does something else."""
        if self._connection is None and self._start is None:
            self._start = asyncio.create_task(self._connect())

    async def call(self, tool: str, arguments: dict[str, Any], seconds: float) -> CallToolResult:
        """Call a tool. Raises `CallFault` for what this call cost, `WorldError` where the server never came up."""
        connection = await self._live()
        try:
            return await connection.call(tool, arguments, seconds)
        except Refused as refusal:
            raise CallFault(refusal.kind, str(refusal)) from None
        except McpLost as loss:
            self._tell_loss(connection, str(loss))
            raise CallFault(loss.kind, self._with_note(f"{self._name} {loss}")) from None
        except asyncio.CancelledError:
            if not self.is_shared:
                connection.give_up()
            raise

    async def close(self) -> None:
        """Let go of the server. Works at any time, also twice."""
        self._is_closed = True
        start, self._start = self._start, None
        if start is not None:
            start.cancel()
            await asyncio.wait([start])
            if not start.cancelled() and start.exception() is None:
                self._connection = start.result()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        if self._closing:
            await asyncio.wait(self._closing)

    async def _live(self) -> Connection:
        """The connection, started if necessary."""
        connection = self._connection
        if connection is not None and connection.is_over:
            self._connection = None
            if not self.is_shared and not connection.is_retired:
                # It died between calls. What it knew is gone, so this call must not run as if it were there.
                await connection.close()
                why = connection.why_it_ended()
                self._tell_loss(connection, why)
                raise CallFault("crash", self._with_note(f"{self._name} {why}"))
            if not connection.is_retired:
                closing = asyncio.create_task(connection.close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
            connection = None
        if connection is not None:
            return connection
        if self._is_closed:
            raise WorldError(f"MCP server {self._name!r}: the world is closed")
        self.begin()
        start = self._start
        assert start is not None
        try:
            # Several calls may wait for one start; none of them may take it along when it is cancelled.
            connection = await asyncio.shield(start)
        except NotStarted as error:
            text = f"MCP server {self._name!r} {error}"
            if not self._has_started:
                raise WorldError(_with_last_words(text, error.last_words), transient=True) from error
            log.warning("%s", _with_last_words(text, error.last_words))
            raise CallFault("crash", f"{self._name} could not be started again: it {error}") from None
        finally:
            if start.done() and self._start is start:
                self._start = None
        self._connection = connection
        self._has_started = True
        return connection

    async def _connect(self) -> Connection:
        async with self._starts:
            connection = await connect(self._make_link, self._start_seconds)
        self._on_start(connection.tools)
        return connection

    def _tell_loss(self, connection: Connection, why: str) -> None:
        text = f"MCP server {self._name!r} {why}"
        log.warning("%s", _with_last_words(text, connection.last_words()))

    def _with_note(self, text: str) -> str:
        return text if self.is_shared else f"{text}; {STATE_IS_LOST}"


def _with_last_words(text: str, words: str) -> str:
    return redact(f"{text}; its last words:\n{words}" if words else text)
