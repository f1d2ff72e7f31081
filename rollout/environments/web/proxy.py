"""The one way out of a browser context: a forward proxy of its own that asks the egress rule.

Chromium is set up to send everything of a context through it, loopback included, so the rule holds for whatever makes a
request: pages, frames, redirects, workers, websockets, downloads, prefetches. It needs no request interception, which
would cost a round trip through Playwright for each request and switch off the browser's cache. Names are resolved here
and the connection goes to the address that was checked, so a name cannot change its address in between.

Plain HTTP is one request a connection; everything else (https, websockets) is a tunnel, whose bytes are only passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from urllib.parse import urlsplit

from rollout.environments.web.egress import Egress

MAX_HEAD = 64 * 1024
CHUNK = 64 * 1024
HEAD_TIMEOUT = 60.0
CONNECT_TIMEOUT = 10.0
MAX_TOLD = 20
MAX_REFUSED = 100
REFUSED = "403 Forbidden"
_HOP_BY_HOP = (b"connection:", b"proxy-connection:", b"proxy-authorization:", b"keep-alive:")


class Unreachable(Exception):
    """A connection that was refused by the rule or could not be made."""

    def __init__(self, text: str, status: str) -> None:
        super().__init__(text)
        self.status = status


class EgressProxy:
    """The proxy of one context. Without a rule it refuses everything."""

    def __init__(self) -> None:
        self.egress = Egress()
        self.faults: dict[str, str] = {}
        """By host, why connections failed since this was last emptied."""
        self.refused: set[str] = set()
        """Hosts that the rule refused since this was last emptied."""
        self._server: asyncio.Server | None = None
        self._work: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MAX_HEAD)

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._work.add(task)
        try:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # close() broke it off; the server that made this task wants no error of it
        finally:
            self._work.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_TIMEOUT):
            head = await reader.readuntil(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        method, _, rest = lines[0].partition(b" ")
        target, _, version = rest.rpartition(b" ")
        try:
            host, port, path = _target(method, target.decode("latin-1"))
            upstream, answer = await self._connect(host, port)
        except Unreachable as fault:
            # A plain request is cut off: to the page it is a host that cannot be reached, not one that answers.
            if method == b"CONNECT":
                writer.write(f"HTTP/1.1 {fault.status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
                await writer.drain()
            return
        try:
            if method == b"CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                kept = [line for line in lines[1:-2] if not line.lower().startswith(_HOP_BY_HOP)]
                answer.write(b"\r\n".join([b" ".join((method, path, version)), *kept, b"Connection: close", b"", b""]))
            await _join(reader, writer, upstream, answer)
        finally:
            answer.close()

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the host, at an address that the rule allows."""
        refusal = self.egress.refusal_of_host(host, port)
        if refusal is not None:
            raise self._fault(host, refusal, REFUSED)
        why = f"{host}:{port} cannot be reached"
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                route = self.egress.route_of(host, port)
                if route is not None:
                    return await asyncio.open_connection(*route)
                loop = asyncio.get_running_loop()
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                refusals = []
                for family, _, _, _, address in found:
                    refusal = self.egress.refusal_of_address(
                        host, port, ipaddress.ip_address(str(address[0]).partition("%")[0])
                    )
                    if refusal is not None:
                        refusals.append(refusal)
                        continue
                    try:
                        return await asyncio.open_connection(str(address[0]), port, family=family)
                    except OSError as error:
                        why = f"{host}:{port} cannot be reached ({error.strerror or error})"
                if len(refusals) == len(found) and refusals:
                    raise self._fault(host, refusals[0], REFUSED)
        except TimeoutError:
            why = f"{host}:{port} cannot be reached (no connection within {CONNECT_TIMEOUT:g} s)"
        except socket.gaierror as error:
            why = f"{host} cannot be found ({error.strerror})"
        except OSError as error:
            why = f"{host}:{port} cannot be reached ({error.strerror or error})"
        except UnicodeError:
            why = f"{host} is not a host name"
        raise self._fault(host, why, "502 Bad Gateway")

    def refuse(self, host: str, why: str) -> None:
        """Note that a host was refused, by the rule, before it was asked for."""
        self._fault(host, why, REFUSED)

    def _fault(self, host: str, text: str, status: str) -> Unreachable:
        if len(self.faults) < MAX_TOLD:
            self.faults[host] = text
        if status == REFUSED and len(self.refused) < MAX_REFUSED:
            self.refused.add(host)
        return Unreachable(text, status)


def _target(method: bytes, target: str) -> tuple[str, int, bytes]:
    """Host, port and path that a request line asks for."""
    try:
        if method == b"CONNECT":
            host, _, port = target.rpartition(":")
            return host.strip("[]"), int(port), b""
        parts = urlsplit(target)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(target)
        path = parts.path or "/"
        query = f"?{parts.query}" if parts.query or target.endswith("?") else ""
        return parts.hostname, parts.port or 80, f"{path}{query}".encode("latin-1")
    except ValueError:
        raise Unreachable(f"not a request for a proxy: {target[:200]}", "400 Bad Request") from None


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    upstream: asyncio.StreamReader,
    answer: asyncio.StreamWriter,
) -> None:
    """Pass bytes on in both directions until one side is done."""
    ways = {asyncio.create_task(_pass_on(reader, answer)), asyncio.create_task(_pass_on(upstream, writer))}
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK):
        target.write(data)
        await target.drain()
