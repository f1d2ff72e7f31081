"""Worlds of mock servers in worker processes: the default, because code that a model wrote was not reviewed.

A process serves many worlds of one domain. It runs with no environment of ours, no network, no files but its own
(`sandbox`, `reach`). It starts when the first world of its domain is opened and ends when it has been idle for a while.
When a call does not come back in time, or takes the process down with it, only that call pays: it is answered as an
error and counts as never made; the other worlds of the process are opened elsewhere and their calls are made again,
every answer compared with the one that was given before. Since clock, uuids, randomness and hashes come from seeds,
they are equal. A call that is merely slow is left alone in its process, and the others move away. A call that its
caller gives up counts as never made, too: the world leaves the process and is brought back without it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from rollout.core.changes import Changes
from rollout.core.errors import ConfigError, RolloutError, WorldError, describe_error
from rollout.core.messages import ToolResult
from rollout.core.results import failed_result
from rollout.core.task import Task
from rollout.core.world import Invocation, Opening, Snapshot, World
from rollout.environments.domains.domain import Domain
from rollout.environments.domains.host import ServerFile
from rollout.environments.domains.reach import dataset_parts, reach_of
from rollout.environments.domains.worker_process import Gone, WorkerProcess
from rollout.environments.domains.worker_template import Template

IDLE_SECONDS = 30.0
"""How long a process without worlds is kept for the next one."""
MAX_IDLE = 8
"""Processes without worlds that are kept. Where there are more, the one that has been idle longest is ended."""
LOADED_AT_ONCE = 4
"""Domains that are loaded at once to see whether they can be."""
Files = tuple[ServerFile, ...]
_numbers = itertools.count(1)


class WorkerPool:
    """The worker processes of a run, up to `processes` for each domain. They end with `close`, or with this process.

    There are never more than the worlds that are open, and a few idle ones.
    """

    def __init__(self, *, processes: int = 1, memory_mb: int = 2048) -> None:
        self._most = processes
        self._memory_mb = memory_mb
        self._domains: list[Domain] = []
        self._template: Template | None = None
        self._processes: dict[Files, list[WorkerProcess]] = {}
        self._starting: dict[Files, asyncio.Lock] = {}
        self._idle: dict[WorkerProcess, asyncio.TimerHandle] = {}
        self._left_out: frozenset[str] = frozenset()
        self._loading = asyncio.Semaphore(LOADED_AT_ONCE)

    def add(self, domain: Domain) -> int:
        """Make a domain known; its number. Datasets with the same servers share their processes."""
        self._domains.append(domain)
        self._left_out = frozenset()
        return len(self._domains) - 1

    async def problem(self, domain: int) -> str | None:
        """Load the servers of a domain once, so that errors in their code are found before an episode starts."""
        world = next(_numbers)
        try:
            async with self._loading:
                self.release(await self.take(domain, world), world)
        except ConfigError as error:
            return str(error)
        except RolloutError as error:
            return f"{self._domains[domain].name}: {error}"
        return None

    async def take(self, domain: int, world: int) -> WorkerProcess:
        """A process that has this domain's servers, for a world that is to be opened there."""
        files = self._domains[domain].files
        process = self._choose(files)
        if process is None:
            async with self._starting.setdefault(files, asyncio.Lock()):
                process = self._choose(files) or await self._start(self._domains[domain])
        process.worlds.add(world)
        if process in self._idle:
            self._idle.pop(process).cancel()
        return process

    def release(self, process: WorkerProcess, world: int) -> None:
        """A world is done with a process."""
        process.leave(world)
        if process.is_open and not process.worlds:
            loop = asyncio.get_running_loop()
            self._idle[process] = loop.call_later(IDLE_SECONDS, self._retire, process)
            if len(self._idle) > MAX_IDLE:
                self._retire(next(iter(self._idle)))

    def _retire(self, process: WorkerProcess) -> None:
        self._idle.pop(process).cancel()
        process.retire()

    def _choose(self, files: Files) -> WorkerProcess | None:
        found = [process for process in self._processes.get(files, ()) if process.is_open or process.worlds]
        self._processes[files] = found
        fit = [process for process in found if process.is_open]
        if not fit:
            return None
        best = min(fit, key=lambda process: len(process.worlds))
        return None if best.worlds and len(fit) < self._most else best

    async def _start(self, domain: Domain) -> WorkerProcess:
        self._left_out = self._left_out or dataset_parts(self._domains)
        try:
            if self._template is None or not self._template.is_alive:
                self._template = Template()
            process = WorkerProcess(domain.name, self._template)
            await process.start(reach_of(domain, self._left_out), domain.files, self._memory_mb)
        except OSError as error:
            raise WorldError(f"the process for mock servers cannot be started: {describe_error(error)}") from error
        self._processes[domain.files].append(process)
        return process

    async def close(self) -> None:
        """End all processes."""
        for timer in self._idle.values():
            timer.cancel()
        self._idle.clear()
        processes = [process for group in self._processes.values() for process in group]
        self._processes.clear()
        await asyncio.gather(*(process.stop() for process in processes))
        if self._template is not None:
            self._template.close()


class WorkerWorld(World):
    """One episode's sessions on the servers of a domain, in a worker process."""

    def __init__(self, pool: WorkerPool, domain: Domain, number: int, timeout: float = 60.0) -> None:
        self._pool = pool
        self._domain = domain
        self._domain_number = number
        self._timeout = timeout
        self._number = next(_numbers)
        self._process: WorkerProcess | None = None
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
                return _undone(failed_result(call.call_id, "timeout", text))
            what = "used up the memory" if gone.why == "memory" else "ended the process"
            text = f"{call.name} {what} of its server; the call was undone"
            return _undone(failed_result(call.call_id, "crash", text))
        self._calls.append((asked, hash(content)))
        return ToolResult(call.call_id, content, is_error=is_error, error_kind=kind)

    async def changes(self) -> Changes:
        changes: Changes = await self._ask_state("changes")
        return changes

    async def state_key(self) -> str:
        return str(await self._ask_state("state_key"))

    async def snapshot(self) -> Snapshot | None:
        found = await self._ask_state("snapshot")
        return None if found is None else Snapshot(*found)

    async def restore(self, snapshot: Snapshot) -> None:
        self._origin, self._calls = snapshot, []
        if self._process is None:
            await self._attach()
            return
        try:
            await self._become(self._process, snapshot)
        except Gone:
            self._leave()
            await self._attach()
        except BaseException:
            self._leave()
            raise

    async def close(self) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._process is not None:
            self._pool.release(self._process, self._number)
            self._process = None

    # ---- where the world is -------------------------------------------------------------------------------------

    async def _ask(self, what: str, *args: Any) -> Any:
        """Ask the process that has this world, wherever that is by then. Raises `Gone` with the reason why.

        A process may be killed from outside while it has nothing to do. The world that asks it next is not to blame for
        that, so what seems to have ended a process is asked once more, of another one.
        """
        crashes = 0
        while True:
            process = self._process or await self._attach()
            if not process.is_open and process.owner != self._number:
                self._leave()  # another world's slow call has this process to itself
                continue
            try:
                return await process.request(self._number, self._timeout, what, self._number, *args)
            except Gone as gone:
                self._leave()
                crashes += gone.why in ("crash", "protocol")
                if gone.why == "protocol" and crashes > 1:
                    raise self._broken() from None
                if gone.why in ("timeout", "memory") or crashes > 1:
                    raise
            except asyncio.CancelledError:
                # The process may have done it, or be about to. The world is brought back without it.
                self._leave()
                raise

    async def _ask_state(self, what: str) -> Any:
        try:
            return await self._ask(what)
        except Gone as gone:
            raise WorldError(f"{self._domain.name}: reading the state took the process down ({gone.why})") from None

    async def _attach(self) -> WorkerProcess:
        """Open the world in some process and bring it to where it was."""
        crashes = 0
        while True:
            process = self._process = await self._pool.take(self._domain_number, self._number)
            try:
                timeout, world = self._timeout, self._number
                await process.request(world, timeout, "open", world, self._seed)
                if self._origin is not None:
                    await self._become(process, self._origin)
                for asked, answered in self._calls:
                    content, _, _ = await process.request(world, timeout, "call", world, *asked)
                    if hash(content) != answered:
                        raise WorldError(f"{asked[0]} answered otherwise when its call was made again")
                return process
            except Gone as gone:
                self._leave()
                crashes += gone.why in ("crash", "protocol")
                if gone.why == "protocol" and crashes > 1:
                    raise self._broken() from None
                if gone.why in ("timeout", "memory") or crashes > 1:
                    raise WorldError(f"{self._domain.name}: could not be opened ({gone.why})") from None
            except BaseException:
                self._leave()
                raise

    async def _become(self, process: WorkerProcess, snapshot: Snapshot) -> None:
        key = await process.request(self._number, self._timeout, "restore", self._number, snapshot.data)
        if key != snapshot.state_key:
            raise WorldError("the restored state is not the one that was saved")

    def _broken(self) -> WorldError:
        return WorldError(f"{self._domain.name}: its server writes to the engine's channel; no answer can be trusted")


def _undone(result: ToolResult) -> ToolResult:
    return msgspec.structs.replace(result, is_undone=True)
