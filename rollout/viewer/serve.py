"""Serving: opening the socket, printing the address, shutting down."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import quote

import uvicorn

from rollout.core.errors import ConfigError
from rollout.viewer.app import make_app
from rollout.viewer.open_runs import OpenRuns
from rollout.viewer.server import Viewer

PORT = 7788
"""The default port, so that the address usually stays the same."""


@contextlib.asynccontextmanager
async def serving(
    places: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    allowed_hosts: Sequence[str] = (),
    prefix: str = "",
    read_only: bool = False,
    token: str | None = None,
    code: str | None = None,
    config_file: Path | None = None,
) -> AsyncIterator[str]:
    """Serve these runs inside the block; yields the address with its token. `code` may replace the token in it once.
    `config_file` replaces the recorded configurations for growths. Raises ConfigError if the port or the host cannot
    be used."""
    prefix = "/" + prefix.strip("/") if prefix.strip("/") else ""
    listening = open_socket(host, port)
    token = token or secrets.token_urlsafe(24)
    viewer = Viewer(OpenRuns(places), token=token, read_only=read_only, config_file=config_file)
    hosts = [*allowed_hosts, host]
    app = make_app(viewer, hosts=hosts, prefix=prefix, code=code)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=2,
        server_header=False,
        ws="none",
    )
    server = _Server(config)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.serve([listening]))
        try:
            await server.is_up.wait()
            shown = f"[{host}]" if ":" in host else host
            yield f"http://{shown}:{listening.getsockname()[1]}{quote(prefix)}/?token={token}"
        finally:
            server.should_exit = True
            viewer.hub.close()
            await task
            listening.close()


class _Server(uvicorn.Server):
    """A server that leaves signals to the command and reports when it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


def open_socket(host: str, port: int | None) -> socket.socket:
    """A listening socket. Without a port: the usual one, else any that is free. Raises ConfigError."""
    wanted = [port] if port is not None else [PORT, 0]
    problem: OSError | None = None
    for each in wanted:
        try:
            family, kind, _, _, address = socket.getaddrinfo(
                host, each, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            found = socket.socket(family, kind)
            try:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                found.bind(address)
                found.listen(128)
            except OSError:
                found.close()
                raise
            return found
        except OSError as error:
            problem = error
    assert problem is not None
    reason = problem.strerror or str(problem)
    raise ConfigError(f"--host {host} --port {wanted[0]}: cannot be used: {reason}; choose another") from problem
