"""One worker process as the engine sees it: starting it, asking it, and noticing that it hangs, lies or is gone.

The process answers one request at a time (`worker_main`), so the oldest one that is unanswered is the one that runs.
When it takes longer than it may, the process is killed; when it takes long, the others are sent elsewhere. Code
of a mock server can write to the descriptor that we read from. So an answer counts only under the random id of the
oldest request and in the shape that it calls for; anything else that arrives ends the process.
"""

from __future__ import annotations

import asyncio
import collections
import functools
import itertools
import logging
import secrets
import socket
from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec

from rollout.core.errors import MAX_DESCRIBED, ConfigError, WorldError
from rollout.core.secrets import excerpt
from rollout.environments.domains.frames import FrameError, FrameReader, max_frame, read_answer, read_value, write_frame
from rollout.environments.domains.host import ServerFile
from rollout.environments.domains.sandbox import PIECES, Reach
from rollout.environments.domains.worker_main import OUT_OF_MEMORY
from rollout.environments.domains.worker_template import Template, kill

log = logging.getLogger(__name__)
SLOW = 2.0
"""Seconds after which a call that still runs has its process to itself."""
START_TIMEOUT = 60.0
Why = Literal["timeout", "crash", "memory", "protocol"]


class Gone(Exception):
    """The process is not there any more for this request. `why` is None where the request had no part in it."""

    def __init__(self, why: Why | None) -> None:
        super().__init__(why)
        self.why = why


class _Request(msgspec.Struct):
    id: bytes
    what: str
    world: int
    answer: asyncio.Future[Any]
    timeout: float
    since: float
    """When it became the oldest one that is unanswered, which is when it began to run."""


class WorkerProcess(asyncio.Protocol):
    """One worker process. Requests are answered in the order asked; what a request did wrong is in its answer."""

    def __init__(self, name: str, template: Template) -> None:
        self.name = name
        """The domain that it serves."""
        self.worlds: set[int] = set()
        self.is_open = False
        """Whether worlds may be here; if not, only the owner's."""
        self.owner: int | None = None
        """The world whose call was so slow that the others moved away."""
        self._template = template
        self._loop = asyncio.get_running_loop()
        self._requests: collections.deque[_Request] = collections.deque()
        self._frames = FrameReader(self._most)
        self._tick: asyncio.TimerHandle | None = None
        self._why: Why = "crash"
        self._is_over = False
        """Whether nothing that it says counts any more."""
        self._lost = self._loop.create_future()
        self._transport: asyncio.Transport
        self._pid = 0

    async def start(self, reach: Reach, files: Sequence[ServerFile], memory_mb: int) -> None:
        """Start the process, wait until it has given up its rights, and load its servers."""
        ours, theirs = socket.socketpair()
        with theirs:
            await self._loop.create_unix_connection(lambda: self, sock=ours)
            try:
                self._pid = await self._template.fork(theirs)
            except BaseException:
                self._transport.abort()
                raise
        try:
            in_force = await self.request(0, START_TIMEOUT, "confine", reach, memory_mb << 20)
            warn_once(tuple(means for means, is_so in in_force.items() if not is_so))
            await self.request(0, START_TIMEOUT, "load", files)
        except BaseException as error:
            self._end()
            if isinstance(error, Gone):
                raise ConfigError(
                    f"{self.name}: its servers took the process down while loading ({error.why})"
                ) from None
            raise
        self.is_open = True

    def request(self, world: int, timeout: float, what: str, *args: Any) -> asyncio.Future[Any]:
        """Ask for one thing. The answer may be `Gone`, ConfigError or WorldError."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self._is_over:
            answer.set_exception(Gone(None))
            return answer
        request = _Request(secrets.token_bytes(16), what, world, answer, timeout, self._loop.time())
        try:
            frame = write_frame((request.id, what, args))
        except FrameError as error:
            answer.set_exception(WorldError(f"{self.name}: {what}: {error}"))
            return answer
        self._requests.append(request)
        self._transport.write(frame)
        self._watch()
        return answer

    def leave(self, world: int) -> None:
        """A world is done with this process; nothing waits for that."""
        self.worlds.discard(world)
        if not self._is_over:
            ignored = self.request(world, START_TIMEOUT, "close", world)
            ignored.add_done_callback(lambda done: done.cancelled() or done.exception())
            if not self.is_open and not self.worlds:
                self._transport.close()

    def retire(self) -> None:
        """Let the process end once it has answered; no world may come any more."""
        self.is_open = False
        self._transport.close()

    async def stop(self) -> None:
        """End the process, whatever it does."""
        self._end()
        await self._lost

    def _end(self) -> None:
        if not self._is_over:
            self.is_open, self._is_over = False, True
            if self._template.is_alive:
                kill(self._pid)
            self._transport.abort()

    # ---- what the process says ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                if self._is_over:
                    return
                self._hear(frame)
        except FrameError as error:
            log.warning("%s: a mock server wrote to the engine's channel: %s; its process was ended", self.name, error)
            self._why = "protocol"
            self._end()

    def _most(self) -> int:
        return max_frame(self._requests[0].what) if self._requests else 0

    def _hear(self, frame: bytes) -> None:
        answer = read_answer(frame)
        if not self._requests or answer.id != self._requests[0].id:
            raise FrameError("no request has this id")
        request = self._requests[0]
        value = read_value(request.what, answer)
        self._requests.popleft()
        if self._requests:
            self._requests[0].since = self._loop.time()
        if request.answer.done():
            return  # nothing waits any more
        if answer.how == "ok":
            request.answer.set_result(value)
        else:
            text = excerpt(value, MAX_DESCRIBED)
            request.answer.set_exception(ConfigError(text) if answer.how == "config" else WorldError(text))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open, self._is_over = False, True
        if self._tick is not None:
            self._tick.cancel()
        if self._pid:
            self._template.reap(self._pid).add_done_callback(self._settle)
        else:
            self._settle(None)

    def _settle(self, exit_code: asyncio.Future[int] | None) -> None:
        """Tell everybody who waits, once it is known how the process ended."""
        if exit_code is not None and exit_code.exception() is None and exit_code.result() == OUT_OF_MEMORY:
            self._why = "memory"
        for place, request in enumerate(self._requests):
            if not request.answer.done():
                request.answer.set_exception(Gone(self._why if place == 0 else None))
        self._requests.clear()
        if not self._lost.done():
            self._lost.set_result(None)

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
def warn_once(missing: tuple[str, ...]) -> None:
    if missing:
        log.warning(
            "mock servers: this system does not offer %s. Where the kernel does not close a worker process, only an "
            "audit hook does, which keeps out mistakes but not an attacker",
            "; ".join(PIECES.get(piece, piece) for piece in missing),
        )
