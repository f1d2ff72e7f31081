"""Worlds of mock servers in worker processes: the default, because nobody has read what a model wrote.

One process serves many worlds of many domains. It runs with no environment of ours, no network, no files but its own
(`sandbox`). When a call does not come back in time, or takes the process down with it, only that call pays: it is
answered as an error and counts as never made; the other worlds of the process are opened elsewhere and their calls are
made again, every answer compared with the one that was given before. Since clock, uuids, randomness and hashes come
from seeds, they are equal. A call that is merely slow is left alone in its process, and the others move away.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from rollout.errors import ConfigError, WorldError
from rollout.messages import ToolResult
from rollout.tasks.discovery import roots
from rollout.tasks.task import Task
from rollout.worlds.results import failed_result
from rollout.worlds.tools.domain import Domain
from rollout.worlds.tools.worker_process import START_TIMEOUT, Gone, WorkerProcess
from rollout.worlds.world import Changes, Invocation, Opening, Snapshot

_numbers = itertools.count(1)


class WorkerPool:
    """The worker processes of a run. They start when they are needed and end with `close`, or with this process."""

    def __init__(self, *, processes: int = 1, memory_mb: int = 2048) -> None:
        self._most = processes
        self._memory_mb = memory_mb
        self._domains: list[Domain] = []
        self._processes: list[WorkerProcess] = []
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

    async def take(self, domain: int) -> WorkerProcess:
        """A process that has this domain's servers."""
        folders = self._folders(domain)
        process = self._choose(folders)
        if process is None:
            async with self._starting:
                process = self._choose(folders)
                if process is None:
                    process = await self._start()
        if domain not in process.loaded:
            files = [msgspec.to_builtins(file) for file in self._domains[domain].files]
            process.loaded[domain] = process.request(0, START_TIMEOUT, "load", domain, files)
        try:
            # Many worlds may wait for it, and one of them that is cancelled takes it from nobody.
            await asyncio.shield(process.loaded[domain])
        except Gone as gone:
            if gone.why is None:
                return await self.take(domain)
            name = self._domains[domain].name
            raise ConfigError(f"{name}: its servers took the process down while loading ({gone.why})") from None
        return process

    def _folders(self, domain: int) -> set[str]:
        return {str(folder.resolve()) for folder in roots(self._domains[domain].base_path)}

    def _choose(self, folders: set[str]) -> WorkerProcess | None:
        self._processes = [process for process in self._processes if process.is_open or process.worlds]
        fit = [process for process in self._processes if process.is_open and folders <= process.folders]
        if not fit:
            return None
        best = min(fit, key=lambda process: len(process.worlds))
        return None if best.worlds and len(fit) < self._most else best

    async def _start(self) -> WorkerProcess:
        folders = {folder for number in range(len(self._domains)) for folder in self._folders(number)}
        process = WorkerProcess(sorted(folders), self._memory_mb)
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

    async def _attach(self) -> WorkerProcess:
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

    async def _become(self, process: WorkerProcess, snapshot: Snapshot) -> None:
        key = await process.request(
            self._number, self._timeout, "restore", self._domain_number, self._number, snapshot.data
        )
        if key != snapshot.state_key:
            raise WorldError("the restored state is not the one that was saved")
