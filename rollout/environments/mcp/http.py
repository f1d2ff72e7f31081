"""A streamable HTTP server: the SDK's own transport, with an end to how much an answer may hold, unpacked.

A session has an HTTP client of its own, so that cookies by which a load balancer tells sessions apart cannot mix them.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping

import httpx2
from mcp.client.streamable_http import streamable_http_client

from rollout.core.bodies import ACCEPTED, BadBody, Unpacker
from rollout.environments.mcp.limits import (
    MAX_MESSAGE_BYTES,
    MAX_UNANSWERED_BYTES,
    MAX_UNANSWERED_MESSAGES,
    Streams,
)

CONNECT_SECONDS = 10.0
LEAVE_SECONDS = 5.0
LOST_SECONDS = 0.5
_context: ssl.SSLContext | None = None


class HttpEndpoint:
    """One session with a streamable HTTP server."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = headers
        self.is_lost = False
        self.has_ended = False

    @property
    def leave_seconds(self) -> float:
        """A server that hangs is not asked at length to end the session."""
        return LOST_SECONDS if self.is_lost else LEAVE_SECONDS

    @contextlib.asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        """Connect; on leaving, the server is informed that the session is over."""
        client = httpx2.AsyncClient(
            headers={"Accept-Encoding": ACCEPTED, **self._headers},
            verify=_ssl_context() if self._url.startswith("https:") else False,
            # How long an answer may take is the caller's business: a stream may well be silent for long.
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
            event_hooks={"response": [_limit]},
        )
        async with (
            client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
        ):
            yield streams

    def why_it_ended(self) -> str:
        """What is known of the end, in words that are the same each time it ends so."""
        return "broke off the session"

    def last_words(self) -> str:
        """What it says elsewhere is not ours to read."""
        return ""


class _Limited(httpx2.AsyncByteStream):
    """A body, unpacked, that ends in an error where it grows beyond what it may hold."""

    def __init__(
        self, body: httpx2.AsyncByteStream, encoding: str | None, *, is_event_stream: bool, is_endless: bool
    ) -> None:
        self._body = body
        self._encoding = encoding
        self._is_event_stream = is_event_stream
        self._is_endless = is_endless

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            unpacker = Unpacker(self._encoding)
            limit = MAX_UNANSWERED_BYTES if self._is_event_stream else MAX_MESSAGE_BYTES
            size = events = 0
            async for chunk in self._body:
                for piece in unpacker.unpack(chunk):
                    size += len(piece)
                    if size > limit and not self._is_endless:
                        raise httpx2.StreamError(f"sent more than {limit:,} bytes")
                    if self._is_event_stream and not self._is_endless:
                        events += piece.count(b"\n\n") + piece.count(b"\n\r\n")
                        if events > MAX_UNANSWERED_MESSAGES:
                            raise httpx2.StreamError(
                                f"sent more than {MAX_UNANSWERED_MESSAGES:,} messages without an answer"
                            )
                    yield piece
            unpacker.end()
        except BadBody as error:
            raise httpx2.StreamError(f"answered a body that cannot be read: {error}") from error

    async def aclose(self) -> None:
        await self._body.aclose()


async def _limit(response: httpx2.Response) -> None:
    """Put the limits around the body of an answer. The stream of notices that belongs to no call may go on forever."""
    if isinstance(response.stream, httpx2.AsyncByteStream):
        # The client would unpack each chunk whole; without the header it leaves that to us.
        encoding = response.headers.pop("content-encoding", None)
        response.stream = _Limited(
            response.stream,
            encoding,
            is_event_stream=response.headers.get("content-type", "").lower().startswith("text/event-stream"),
            is_endless=response.request.method != "POST",
        )


def _ssl_context() -> ssl.SSLContext:
    """One for the process: making one costs more than a call."""
    global _context
    if _context is None:
        _context = httpx2.create_ssl_context()
    return _context
