"""Worlds of mock servers in worker processes: the default, because nobody has read what a model wrote.

One process serves many worlds of many domains, a call at a time (`worker_main`). It runs with no environment of ours,
no network, no files but its own (`sandbox`). When a call does not come back in time, or takes the process down with it,
only that call pays: it is answered as an error and counts as never made; the other worlds of the process are opened
elsewhere and their calls are made again, every answer compared with the one that was given before. Since clock, uuids,
randomness and hashes come from seeds, they are equal. A call that is merely slow is left alone in its process, and the
others move away.
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
from rollout.messages import ToolResult
from rollout.tasks.discovery import roots
from rollout.tasks.task import Task
from rollout.worlds.results import failed_result
from rollout.worlds.tools.domain import Domain
from rollout.worlds.tools.worker_main import OUT_OF_MEMORY
from rollout.worlds.world import Changes, Invocation, Opening, Snapshot

log = logging.getLogger(__name__)
SLOW = 2.0
"""Seconds after which a call that still runs has its process to itself."""
START_TIMEOUT = 60.0
_encode = msgspec.msgpack.Encoder(enc_hook=str).encode
_decode = msgspec.msgpack.Decoder().decode
_numbers = itertools.count(1)


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


class _Process(asyncio.Protocol):
    """One worker process, seen from here."""

    def __init__(self, folders: Sequence[str], memory_mb: int) -> None:
        self.folders = frozenset(folders)
        self.memory_mb = memory_mb
        self.worlds: set[int] = set()
        self.domains: set[int] = set()
        self.is_open = False
        """Whether worlds may be here; if not, only the owner's."""
        self.owner: int | None = None
        """The world whose call was so slow that the others moved away."""
        self._loop = asyncio.get_running_loop()
        self._requests: collections.deque[_Request] = collections.deque()
        self._received = bytearray()
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
        except Gone:
            raise WorldError(f"the process for mock servers did not start: {self._last_words()}") from None
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
        self._send(what, domain, *args)
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

    def _send(self, what: str, domain: int, *args: Any) -> None:
        data = _encode((what, domain, args))
        self._transport.write(len(data).to_bytes(4, "little") + data)

    def _end(self) -> None:
        if not self._lost.done():
            self._child.kill()

    # ---- what the process says ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= 4 and len(received) >= 4 + (size := int.from_bytes(received[:4], "little")):
            how, value = _decode(bytes(received[4 : 4 + size]))
            del received[: 4 + size]
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


class WorkerPool:
    """The worker processes of a run. They start when they are needed and end with `close`, or with this process."""

    def __init__(self, *, processes: int = 1, memory_mb: int = 2048) -> None:
        self._most = processes
        self._memory_mb = memory_mb
        self._domains: list[Domain] = []
        self._processes: list[_Process] = []
        self._starting = asyncio.Lock()

    def add(self, domain: Domain) -> int:
        """Make a domain known; its number."""
        self._domains.append(domain)
        return len(self._domains) - 1

    async def problems(self) -> list[tuple[Domain, str]]:
        """Load the servers of all domains once: what is wrong with them is found before an episode starts."""
        found = []
        for number, domain in enumerate(self._domains):
            try:
                await self.take(number)
            except ConfigError as error:
                found.append((domain, str(error)))
        return found

    async def take(self, domain: int) -> _Process:
        """A process that has this domain's servers."""
        folders = self._folders(domain)
        process = self._choose(folders)
        if process is None:
            async with self._starting:
                process = self._choose(folders)
                if process is None:
                    process = await self._start()
        if domain not in process.domains:
            files = [msgspec.to_builtins(file) for file in self._domains[domain].files]
            try:
                await process.request(0, START_TIMEOUT, "load", domain, files)
            except Gone as gone:
                if gone.why is None:
                    return await self.take(domain)
                name = self._domains[domain].name
                raise ConfigError(f"{name}: its servers took the process down while loading ({gone.why})") from None
            process.domains.add(domain)
        return process

    def _folders(self, domain: int) -> set[str]:
        return {str(folder.resolve()) for folder in roots(self._domains[domain].base_path)}

    def _choose(self, folders: set[str]) -> _Process | None:
        self._processes = [process for process in self._processes if process.is_open or process.worlds]
        fit = [process for process in self._processes if process.is_open and folders <= process.folders]
        if not fit:
            return None
        best = min(fit, key=lambda process: len(process.worlds))
        return None if best.worlds and len(fit) < self._most else best

    async def _start(self) -> _Process:
        folders = {folder for number in range(len(self._domains)) for folder in self._folders(number)}
        process = _Process(sorted(folders), self._memory_mb)
        await process.start()
        self._processes.append(process)
        return process

    async def close(self) -> None:
        """End all processes."""
        processes, self._processes = self._processes, []
        await asyncio.gather(*(process.stop() for process in processes))


class WorkerWorld:
    """One episode's sessions on the servers of a domain, in a worker process."""

    def __init__(self, pool: WorkerPool, domain: Domain, number: int, timeout: float = 60.0) -> None:
        self._pool = pool
        self._domain = domain
        self._domain_number = number
        self._timeout = timeout
        self._number = next(_numbers)
        self._process: _Process | None = None
        self._seed = 0
        self._origin: Snapshot | None = None
        self._calls: list[tuple[tuple[Any, ...], int]] = []
        """What was called since the origin, with a hash of each answer."""

    async def open(self, task: Task, seed: int) -> Opening:
        self._seed = seed
        await self._attach()
        return Opening(self._domain.toolset)

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        return [await self._call(call) for call in calls]

    async def _call(self, call: Invocation) -> ToolResult:
        route = self._domain.routes[call.name]
        asked = (call.name, route.server, route.tool, call.arguments)
        try:
            content, is_error, kind = await self._ask("call", *asked)
        except Gone as gone:
            if gone.why == "timeout":
                text = f"{call.name} gave no answer within {self._timeout:g} s"
                return failed_result(call.call_id, "timeout", text)
            what = "used up the memory" if gone.why == "memory" else "ended the process"
            return failed_result(call.call_id, "crash", f"{call.name} {what} of its server; the call was undone")
        self._calls.append((asked, hash(content)))
        return ToolResult(call.call_id, content, is_error=is_error, error_kind=kind)

    async def changes(self) -> Changes:
        return msgspec.convert(await self._ask_state("changes"), Changes)

    async def state_key(self) -> str:
        return str(await self._ask_state("state_key"))

    async def snapshot(self) -> Snapshot | None:
        found = await self._ask_state("snapshot")
        return None if found is None else Snapshot(*found)

    async def restore(self, snapshot: Snapshot) -> None:
        self._origin, self._calls = snapshot, []
        if self._process is None:
            await self._attach()
        else:
            await self._become(self._process, snapshot)

    async def close(self) -> None:
        if self._process is not None:
            self._process.leave(self._number, self._domain_number)
            self._process = None

    # ---- where the world is -------------------------------------------------------------------------------------

    async def _ask(self, what: str, *args: Any) -> Any:
        """Ask the process that has this world, wherever that is by then. Raises `Gone` with the reason why.

        A process may be killed by somebody else while it has nothing to do. Whoever asks it next is not to blame for
        that, so what seems to have ended a process is asked once more, of another one.
        """
        crashes = 0
        while True:
            process = self._process or await self._attach()
            if not process.is_open and process.owner != self._number:
                await self.close()  # somebody else's slow call has this process to itself
                continue
            try:
                return await process.request(
                    self._number, self._timeout, what, self._domain_number, self._number, *args
                )
            except Gone as gone:
                await self.close()
                crashes += gone.why == "crash"
                if gone.why in ("timeout", "memory") or crashes > 1:
                    raise

    async def _ask_state(self, what: str) -> Any:
        try:
            return await self._ask(what)
        except Gone as gone:
            raise WorldError(f"{self._domain.name}: reading the state took the process down ({gone.why})") from None

    async def _attach(self) -> _Process:
        """Open the world in some process and bring it to where it was."""
        crashes = 0
        while True:
            process = await self._pool.take(self._domain_number)
            process.worlds.add(self._number)
            self._process = process
            try:
                timeout, domain, world = self._timeout, self._domain_number, self._number
                await process.request(world, timeout, "open", domain, world, self._seed)
                if self._origin is not None:
                    await self._become(process, self._origin)
                for asked, answered in self._calls:
                    content, _, _ = await process.request(world, timeout, "call", domain, world, *asked)
                    if hash(content) != answered:
                        raise WorldError(f"{asked[0]} answered otherwise when its call was made again")
                return process
            except Gone as gone:
                await self.close()
                crashes += gone.why == "crash"
                if gone.why in ("timeout", "memory") or crashes > 1:
                    raise WorldError(f"{self._domain.name}: could not be opened ({gone.why})") from None
            except BaseException:
                await self.close()
                raise

    async def _become(self, process: _Process, snapshot: Snapshot) -> None:
        key = await process.request(
            self._number, self._timeout, "restore", self._domain_number, self._number, snapshot.data
        )
        if key != snapshot.state_key:
            raise WorldError("the restored state is not the one that was saved")
