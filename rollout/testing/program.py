"""The stub server in a process of its own: how it runs there, and how another program starts it.

`run_stub_server` is the program: it serves until SIGINT or SIGTERM. `StubProcess` starts that program as a child and
knows it is ready when the child has written its URL, so no polling is needed. The child's standard input is a
pipe that the parent never writes to: when the parent ends, however it ends, the pipe closes and the child ends too.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import msgspec

import rollout
from rollout.core.errors import ConfigError
from rollout.testing.script import ScriptSource, load_script
from rollout.testing.server import StubServer
from rollout.testing.stats import Stats

STOP_SECONDS: Final = 5.0
"""How long a child may take to end before it is killed."""


def run_stub_server(
    script: ScriptSource = None,
    host: str = "127.0.0.1",
    port: int = 0,
    on_ready: Callable[[str], None] | None = None,
    *,
    until_stdin_closes: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM, on uvloop where there is one. `on_ready` gets the URL once clients may connect."""
    server = StubServer(script, host, port)
    # The requests of a benchmark make much garbage and no cycles: rare collections keep the latency even.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(server, on_ready, until_stdin_closes))


async def _serve(server: StubServer, on_ready: Callable[[str], None] | None, until_stdin_closes: bool) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if until_stdin_closes:
        loop.add_reader(0, _stop_at_end, stop)
    async with server:
        if on_ready is not None:
            on_ready(server.url)
        await stop.wait()
    if until_stdin_closes:
        loop.remove_reader(0)


def _stop_at_end(stop: asyncio.Event) -> None:
    if not os.read(0, 4096):
        stop.set()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class StubProcess:
    """A stub server as a child process; `with` and `async with` both work.

    The script is checked here, before anything is started.
    """

    def __init__(self, script: ScriptSource = None, host: str = "127.0.0.1", port: int = 0) -> None:
        checked = load_script(script)
        self.url = ""
        """The base URL a client is given, ending in /v1; set by `start`."""
        self._command = [sys.executable, "-m", "rollout.testing", "--host", host, "--port", str(port)]
        self._command += ["--until-stdin-closes", "--script", checked.model_dump_json(exclude_unset=True)]
        self._child: subprocess.Popen[bytes] | None = None
        self._complaints: IO[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the child."""
        assert self._child is not None, "not started"
        return self._child.pid

    def start(self) -> Self:
        """Start the child and return once clients may connect."""
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 (closed by stop)
        # The child imports the package that we are part of, wherever either of us was started.
        places = [str(Path(rollout.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        self._child = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))},
        )
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            self._child.wait()
            self._complaints.seek(0)
            complaint = self._complaints.read().decode(errors="replace").strip()
            self.stop()
            raise ConfigError(f"the stub server did not start: {complaint}")
        self.url = json.loads(line)["url"]
        return self

    def stats(self) -> Stats:
        """What the server has done so far. Blocks for the length of one request."""
        return msgspec.json.decode(self._request("GET", "/stats"), type=Stats)

    def reset(self) -> None:
        """Zero the stats."""
        self._request("POST", "/reset")

    def stop(self) -> None:
        """End the child. Does nothing when it has ended."""
        child, self._child = self._child, None
        if child is None:
            return
        child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        for pipe in (child.stdin, child.stdout, self._complaints):
            if pipe is not None:
                pipe.close()

    def _request(self, method: str, path: str) -> bytes:
        request = urllib.request.Request(self.url.removesuffix("/v1") + path, method=method)
        # No proxy of the environment stands between us and our own child.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=STOP_SECONDS) as response:
            return bytes(response.read())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)
