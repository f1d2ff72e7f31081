"""Machines of a cluster that are all in this process: the whole way of a run, without Ray and without its seconds."""

from __future__ import annotations

import asyncio

import msgspec

from rollout.core.errors import ConfigError
from rollout.distributed.link import LinkLost, Machine
from rollout.distributed.worker import Hello, Setup, Worker


class NearLink:
    """A worker in this process. It can be killed: then it answers nothing more, and nothing of it goes on."""

    def __init__(self, worker: Worker, machine: Machine, refusal: str | None) -> None:
        self.machine = machine
        self.is_dead = False
        self.is_mute = False
        """Whether it has stopped to answer, without being dead."""
        self._worker = worker
        self._refusal = refusal
        self._death = asyncio.Event()
        self._ending: asyncio.Future[None] | None = None

    async def open(self) -> Hello:
        if self._refusal is not None:
            raise ConfigError(self._refusal)
        await self._while_mute()
        return await self._worker.open()

    async def next(self, told: bytes) -> bytes:
        self._check()
        await self._while_mute()
        asked = asyncio.ensure_future(self._worker.next(told))
        died = asyncio.ensure_future(self._death.wait())
        await asyncio.wait([asked, died], return_when=asyncio.FIRST_COMPLETED)
        died.cancel()
        if self.is_dead:
            asked.cancel()
            raise LinkLost("it was killed")
        return asked.result()

    async def tell(self, told: bytes) -> None:
        self._check()
        await self._worker.tell(told)

    async def close(self) -> None:
        if not self.is_dead:
            await self._while_mute()
            await self._worker.close()
        elif self._ending is not None:
            await self._ending

    def kill(self) -> None:
        if not self.is_dead:
            self.is_dead = True
            self._death.set()
            self._ending = asyncio.ensure_future(self._worker.close())

    async def _while_mute(self) -> None:
        if self.is_mute:
            await self._death.wait()
            raise LinkLost("it was killed")

    def _check(self) -> None:
        if self.is_dead:
            raise LinkLost("it was killed")


class NearMachines:
    """Machines by their CPUs. `shares` says whether they see the driver's run directory."""

    def __init__(self, *cpus: float, shares: bool = True, refuses: dict[str, str] | None = None) -> None:
        self.machines: list[Machine] = []
        self._made = 0
        for each in cpus:
            self.join(each)
        self.links: list[NearLink] = []
        self.full: set[str] = set()
        """Machines where no worker that is started now becomes ready."""
        self.looks = 0
        self._shares = shares
        self._refuses = refuses or {}

    def join(self, cpus: float) -> None:
        """A machine more."""
        self.machines.append(Machine(f"m{self._made}", f"host{self._made}", cpus))
        self._made += 1

    def lose(self, place: int) -> None:
        """A machine dies, with its workers."""
        machine = self.machines.pop(place)
        for link in self.links:
            if link.machine == machine:
                link.kill()

    async def list(self) -> list[Machine]:
        self.looks += 1
        return list(self.machines)

    def start(self, setup: Setup, machine: Machine) -> NearLink:
        if not self._shares:
            setup = msgspec.structs.replace(setup, token="nowhere")
        link = NearLink(Worker(setup), machine, self._refuses.get(machine.id))
        link.is_mute = machine.id in self.full
        self.links.append(link)
        return link
