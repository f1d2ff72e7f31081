"""How fast the stub server is: requests a second, and CPU microseconds it spends on each.

The server runs as a process of its own; this process is the load: raw connections that each send the next request of
about 2 KB as soon as the answer to the last is whole. No two bodies are the same. The server's CPU time is read from
/proc, so the second figure holds even where the two share a core.

    python benchmarks/stub_throughput.py [--requests 200000] [--connections 64]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import uvloop

from rollout.testing import StubProcess

SIMPLE = {"rules": [{"reply": {"content": "A short answer."}}]}
AGENT: dict[str, object] = {}


def make_body(size: int) -> bytes:
    """A request of an agent in the middle of a conversation, about `size` bytes long."""
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    tool = {"type": "function", "function": {"name": "search", "description": "Look it up.", "parameters": parameters}}
    call = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": '{"query": "x"}'}}
    body = {
        "model": "stub",
        "messages": [
            {"role": "system", "content": "You help. "},
            {"role": "user", "content": "Find number 000000000."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "nothing"},
        ],
        "tools": [tool],
        "temperature": 0.7,
    }
    body["messages"][0]["content"] += "x" * (size - len(json.dumps(body)))  # type: ignore[index]
    return json.dumps(body).encode()


class Load(asyncio.Protocol):
    """One connection that keeps one request under way until `remaining` is used up."""

    remaining = 0

    def __init__(self, before: bytes, after: bytes, done: asyncio.Future[None]) -> None:
        self._before = before
        self._after = after
        self._done = done
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by its methods only
        self._send()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, blank, body = self._answer.partition(b"\r\n\r\n")
        if not blank or len(body) < int(head[head.index(b"Content-Length: ") + 16 :].split(b"\r\n", 1)[0]):
            return
        assert head.startswith(b"HTTP/1.1 200"), self._answer[:200]
        self._answer = b""
        self._send()

    def _send(self) -> None:
        if Load.remaining <= 0:
            self._transport.close()
            self._done.set_result(None)
            return
        Load.remaining -= 1
        self._transport.write(b"%b%09d%b" % (self._before, Load.remaining, self._after))


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def drive(url: str, requests: int, connections: int, body: bytes) -> float:
    """Send that many requests over that many connections; the seconds it took."""
    loop = asyncio.get_running_loop()
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer none\r\nAccept: */*\r\nContent-Length: {len(body)}\r\n\r\n"
    Load.remaining = requests
    before, _, after = (head.encode() + body).partition(b"000000000")
    finished = [loop.create_future() for _ in range(connections)]
    started = time.perf_counter()
    for done in finished:
        await loop.create_connection(partial(Load, before, after, done), address.hostname, address.port)
    for done in finished:
        await done
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--size", type=int, default=2048, help="bytes of the request body")
    options = parser.parse_args()
    body = make_body(options.size)
    for name, script in (("fixed text", SIMPLE), ("default script, tool call", AGENT)):
        with StubProcess(script) as stub:
            uvloop.run(drive(stub.url, options.requests // 10, options.connections, body))
            stub.reset()
            before = cpu_seconds(stub.pid)
            seconds = uvloop.run(drive(stub.url, options.requests, options.connections, body))
            used = cpu_seconds(stub.pid) - before
            completed = stub.stats().completed
        rate, cost = completed / seconds, used / completed * 1e6
        sys.stdout.write(f"{name}: {rate:,.0f} requests/s, {cost:.1f} µs CPU a request ({completed:,} requests)\n")


if __name__ == "__main__":
    main()
