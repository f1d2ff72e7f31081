"""HTTP/1.1 as far as the stub needs it: requests in, bytes out, one connection at a time.

A `ClientConnection` is an `asyncio.Protocol`. It gathers bytes until a whole request is there, gives the request to
`answer` and reads no further one until `finish` was called; what a client pipelines meanwhile waits in the buffer, so
answers always leave in the order of the requests. `answer` may finish at once or much later, from a timer; no task is
made for a request. Between the two it may write raw bytes, close or reset, which is how the faults are made.

Whatever is not HTTP gets a 4xx and a closed connection, never an exception.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Protocol, cast

import msgspec

MAX_HEAD: Final = 64 * 1024
MAX_BODY: Final = 64 * 1024 * 1024

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, for 0 seconds: closing sends RST instead of FIN."""

_ABORT_POLL: Final = 0.001


class RequestHead(msgspec.Struct, frozen=True, gc=False):
    """The parts of a request line and its header fields that the stub keeps."""

    method: bytes
    path: str
    """Without the query."""
    length: int = 0
    is_chunked: bool = False
    keep_alive: bool = True
    authorization: str | None = None
    expects_continue: bool = False


class HttpRequest(msgspec.Struct, frozen=True, gc=False):
    """One whole request."""

    head: RequestHead
    body: bytes


class BadHttp(Exception):
    """The bytes are no request we can read. Answered with `status`, then the connection closes."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Pending(Protocol):
    """What is under way for a connection; told when the client leaves before its answer."""

    def abandon(self) -> None: ...


@lru_cache(maxsize=1024)
def read_head(raw: bytes) -> RequestHead:
    """Read request line and header fields, without the blank line that ends them.

    A client's heads differ only in their Content-Length, so most of them have been read before.
    """
    line, _, fields = raw.partition(b"\r\n")
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[0].isalpha() or parts[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise BadHttp("malformed request line")
    length, is_chunked, keep_alive = 0, False, parts[2] == b"HTTP/1.1"
    authorization, expects_continue = None, False
    for field in fields.split(b"\r\n") if fields else ():
        name, colon, value = field.partition(b":")
        if not colon or not name or name[-1:].isspace():
            raise BadHttp("malformed header field")
        name = name.lower()
        if name == b"content-length":
            value = value.strip()
            if not value.isdigit():
                raise BadHttp("malformed Content-Length")
            if len(value) > 12 or (length := int(value)) > MAX_BODY:
                raise BadHttp(f"bodies are limited to {MAX_BODY} bytes", 413)
        elif name == b"connection":
            keep_alive = keep_alive and b"close" not in value.lower()
        elif name == b"authorization":
            authorization = value.strip().decode("latin-1")
        elif name == b"transfer-encoding":
            if value.strip().lower() != b"chunked":
                raise BadHttp("unsupported Transfer-Encoding", 501)
            is_chunked = True
        elif name == b"expect":
            expects_continue = value.strip().lower() == b"100-continue"
    path = parts[1].partition(b"?")[0].decode("latin-1")
    return RequestHead(parts[0], path, length, is_chunked, keep_alive, authorization, expects_continue)


class ChunkReader:
    """Takes chunks off a buffer as they arrive. `at` is how far it has read."""

    def __init__(self, at: int) -> None:
        self.at = at
        self._parts = bytearray()
        self._in_trailer = False

    def read(self, buffer: bytearray) -> bytes | None:
        """The whole body once its last chunk is there, else None."""
        while True:
            end = buffer.find(b"\r\n", self.at)
            if end < 0:
                if len(buffer) - self.at > MAX_HEAD:
                    raise BadHttp("malformed chunk")
                return None
            line = bytes(buffer[self.at : end])
            if self._in_trailer:
                self.at = end + 2
                if not line:
                    return bytes(self._parts)
                continue
            size = self._read_size(line)
            if size == 0:
                self._in_trailer, self.at = True, end + 2
                continue
            after = end + 2 + size
            if len(buffer) < after + 2:
                return None
            if buffer[after : after + 2] != b"\r\n":
                raise BadHttp("malformed chunk")
            self._parts += buffer[end + 2 : after]
            self.at = after + 2

    def _read_size(self, line: bytes) -> int:
        digits = line.partition(b";")[0].strip()
        if not digits or len(digits) > 8 or digits.strip(b"0123456789abcdefABCDEF"):
            raise BadHttp("malformed chunk size")
        size = int(digits, 16)
        if len(self._parts) + size > MAX_BODY:
            raise BadHttp(f"bodies are limited to {MAX_BODY} bytes", 413)
        return size


class ClientConnection(asyncio.Protocol):
    """One client's connection: reads requests one after the other, and writes what it is given."""

    def __init__(
        self,
        answer: Callable[[HttpRequest, ClientConnection], None],
        reject: Callable[[int, str], bytes],
        connections: set[ClientConnection],
        on_lost: Callable[[], None],
    ) -> None:
        self._answer = answer
        self._reject = reject
        self._connections = connections
        self._on_lost = on_lost
        self._transport: asyncio.Transport
        self._buffer = bytearray()
        self._scanned = 0
        self._head: RequestHead | None = None
        self._body_at = 0
        self._chunks: ChunkReader | None = None
        self._is_busy = False
        self._is_reading = False
        self.pending: Pending | None = None
        """Set by `answer` when it does not finish at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by its methods only
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.abandon()
        self._on_lost()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._is_busy:
            self._read_requests()
        elif len(self._buffer) > MAX_BODY:
            self.abort()

    def _read_requests(self) -> None:
        self._is_reading = True
        try:
            while self._buffer and not self._is_busy and not self._transport.is_closing():
                request = self._read_request()
                if request is None:
                    break
                self._is_busy = True
                self._answer(request, self)
        except BadHttp as error:
            self._is_busy = True
            self.write(self._reject(error.status, str(error)))
            self.close()
        finally:
            self._is_reading = False

    def _read_request(self) -> HttpRequest | None:
        buffer = self._buffer
        head = self._head
        if head is None:
            while buffer.startswith(b"\r\n"):
                del buffer[:2]
                self._scanned = 0
            end = buffer.find(b"\r\n\r\n", max(0, self._scanned - 3))
            if (end if end >= 0 else len(buffer)) > MAX_HEAD:
                raise BadHttp("header fields too large", 431)
            if end < 0:
                self._scanned = len(buffer)
                return None
            head = self._head = read_head(bytes(buffer[:end]))
            self._body_at = end + 4
            self._chunks = ChunkReader(self._body_at) if head.is_chunked else None
            if head.expects_continue:
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._chunks is not None:
            body = self._chunks.read(buffer)
            if body is None:
                return None
            stop = self._chunks.at
        else:
            stop = self._body_at + head.length
            if len(buffer) < stop:
                return None
            body = bytes(buffer[self._body_at : stop])
        del buffer[:stop]
        self._head, self._chunks, self._scanned = None, None, 0
        return HttpRequest(head, body)

    def write(self, data: bytes) -> None:
        """Write bytes of an answer that `finish` or one of the endings below will end."""
        self._transport.write(data)

    def finish(self, *, keep_alive: bool) -> None:
        """The answer is written: read the next request, or close."""
        self.pending = None
        if not keep_alive:
            self.close()
            return
        self._is_busy = False
        if self._buffer and not self._is_reading:
            self._read_requests()

    def close(self) -> None:
        """Close after what was written has left."""
        self.pending = None
        self._transport.close()

    def abort(self) -> None:
        """Close now, whatever was written."""
        self._transport.abort()

    def reset(self) -> None:
        """Send RST once what was written has left, as a server that crashed in the middle of an answer."""
        self.pending = None
        if self._transport.is_closing():
            return
        # The event loop may still hold the bytes (uvloop sends them at the end of its round); abort would drop them.
        if self._transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(_ABORT_POLL, self.reset)
            return
        connected: socket.socket | None = self._transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()


_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_JSON_200: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"


def encode_response(
    status: int,
    body: bytes,
    *,
    content_type: str = "application/json",
    fields: tuple[tuple[str, str], ...] = (),
    keep_alive: bool = True,
) -> bytes:
    """A whole answer as bytes."""
    if status == 200 and keep_alive and not fields and content_type == "application/json":
        return _JSON_200 % (len(body), body)
    lines = [
        f"HTTP/1.1 {status} {_PHRASES.get(status, 'Unknown')}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in fields),
    ]
    if not keep_alive:
        lines.append("Connection: close")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
