"""One worker process as the engine sees it: starting it, asking it, and noticing that it hangs or is gone.

The process answers one request at a time (`worker_main`), so the oldest one that is unanswered is the one that runs.
When it takes longer than it may, the process is killed; when it takes long, the others are told to go elsewhere.
"""

from __future__ import annotations

import asyncio
import collections
import functools
import itertools
import logging
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from rollout.errors import ConfigError, WorldError
from rollout.worlds.tools.frames import FrameReader, write_frame
from rollout.worlds.tools.worker_main import OUT_OF_MEMORY

log = logging.getLogger(__name__)
SLOW = 2.0
"""Seconds after which a call that still runs has its process to itself."""
START_TIMEOUT = 60.0


class Gone(Exception):
    """The process is not there any more for this request. `why` is None where the request had no part in it."""

    def __init__(self, why: Literal["timeout", "crash", "memory"] | None) -> None:
        super().__init__(why)
        self.why = why


class _Request(msgspec.Struct):
    world: int
    answer: asyncio.Future[Any]
    timeout: float
    since: float
    """When it became the oldest one that is unanswered, which is when it began to run."""


class WorkerProcess(asyncio.Protocol):
    """One worker process. Requests are answered in the order asked; what a request did wrong is in its answer."""

    def __init__(self, folders: Sequence[str], memory_mb: int) -> None:
        self.folders = frozenset(folders)
        self.memory_mb = memory_mb
        self.worlds: set[int] = set()
        self.loaded: dict[int, asyncio.Future[Any]] = {}
        """The loading of each domain that was asked for, done or under way."""
        self.is_open = False
        """Whether worlds may be here; if not, only the owner's."""
        self.owner: int | None = None
        """The world whose call was so slow that the others moved away."""
        self._loop = asyncio.get_running_loop()
        self._requests: collections.deque[_Request] = collections.deque()
        self._frames = FrameReader()
        self._tick: asyncio.TimerHandle | None = None
        self._why: Literal["timeout", "crash", "memory"] = "crash"
        self._ready = self._loop.create_future()
        self._lost = self._loop.create_future()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        self._transport: asyncio.Transport
        self._child: subprocess.Popen[bytes]

    async def start(self) -> None:
        """Start the process and wait until it has given up its rights."""
        ours = self._spawn()
        await self._loop.create_unix_connection(lambda: self, sock=ours)
        self._requests.append(_Request(0, self._ready, START_TIMEOUT, self._loop.time()))
        self._watch()
        try:
            in_force = await self._ready
        except BaseException as error:
            self._end()
            if isinstance(error, Gone):
                raise WorldError(f"the process for mock servers did not start: {self._last_words()}") from None
            raise
        self.is_open = True
        _warn_once(tuple(means for means, is_so in in_force.items() if not is_so))

    def _spawn(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self._child = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "rollout.worlds.tools.worker_main"),
                    *(str(theirs.fileno()), str(self.memory_mb << 20), *sorted(self.folders)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
                # Nothing of ours. A fixed hash seed, so that sets come in the same order in every process.
                env={
                    "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
                    "PYTHONHASHSEED": "0",
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "LANG": "C.UTF-8",
                },
            )
        return ours

    def request(self, world: int, timeout: float, what: str, domain: int, *args: Any) -> asyncio.Future[Any]:
        """Ask for one thing. The answer may be `Gone`, ConfigError or WorldError."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self._lost.done():
            answer.set_exception(Gone(None))
            return answer
        self._requests.append(_Request(world, answer, timeout, self._loop.time()))
        self._transport.write(write_frame((what, domain, args)))
        self._watch()
        return answer

    def leave(self, world: int, domain: int) -> None:
        """A world is done with this process; nobody waits for that."""
        self.worlds.discard(world)
        if not self._lost.done():
            ignored = self.request(world, START_TIMEOUT, "close", domain, world)
            ignored.add_done_callback(lambda done: done.cancelled() or done.exception())
            if not self.is_open and not self.worlds:
                self._transport.close()

    async def stop(self) -> None:
        """End the process, whatever it does."""
        self.is_open = False
        self._end()
        await self._lost
        self._said.close()

    def _end(self) -> None:
        if not self._lost.done():
            self._child.kill()

    # ---- what the process says ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for how, value in self._frames.feed(data):
            request = self._requests.popleft()
            if self._requests:
                self._requests[0].since = self._loop.time()
            if request.answer.done():
                continue  # nobody waits any more
            if how == "ok":
                request.answer.set_result(value)
            else:
                request.answer.set_exception(ConfigError(value) if how == "config" else WorldError(value))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self._tick is not None:
            self._tick.cancel()
        self._child.kill()
        if self._child.wait() == OUT_OF_MEMORY:
            self._why = "memory"
        if not self._lost.done():
            self._lost.set_result(None)
        for place, request in enumerate(self._requests):
            if not request.answer.done():
                request.answer.set_exception(Gone(self._why if place == 0 else None))
        self._requests.clear()

    def _last_words(self) -> str:
        self._said.seek(0)
        text = self._said.read().decode("utf-8", "replace").strip()
        return text.splitlines()[-1] if text else f"exit code {self._child.returncode}"

    # ---- calls that take long -----------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self._tick is None and self._requests:
            self._tick = self._loop.call_later(SLOW / 2, self._look)

    def _look(self) -> None:
        self._tick = None
        if not self._requests:
            return
        oldest = self._requests[0]
        age = self._loop.time() - oldest.since
        if age >= oldest.timeout:
            self._why = "timeout"
            self._end()
            return
        if age >= SLOW and self.is_open:
            self.is_open, self.owner = False, oldest.world
            for request in itertools.islice(self._requests, 1, None):
                if request.world != oldest.world and not request.answer.done():
                    request.answer.set_exception(Gone(None))
        self._tick = self._loop.call_later(min(SLOW / 2, max(0.01, oldest.timeout - age)), self._look)


@functools.cache
def _warn_once(missing: tuple[str, ...]) -> None:
    for means in missing:
        log.warning("mock servers: this system has no way to take the %s from a process; only Python refuses it", means)
