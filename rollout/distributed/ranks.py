"""All ranks of a run: where the next episode goes, and what happens when machines come and go.

Episodes are pulled: a rank that has room gets the next one. With `rank_weights` each rank has its share of the
places and of the episodes, and goes beyond its share (`stolen`) only where its own is used up and others are behind,
or dead. Without weights the places are divided by the CPUs of the machines that are there, and each machine has one
rank.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections import Counter, deque
from collections.abc import Iterable, Sequence

import msgspec

from rollout.config.cluster import Cluster
from rollout.core.errors import ConfigError, RolloutError
from rollout.core.shares import share_out
from rollout.distributed.far_episode import FarEpisode
from rollout.distributed.link import Link, LinkLost, Machine, Machines
from rollout.distributed.rank import Rank
from rollout.distributed.rank_counts import RankCounts
from rollout.distributed.wire import Pause, Version
from rollout.distributed.worker import Setup
from rollout.engine.control import Control
from rollout.engine.episode import Growing
from rollout.engine.observer import Observer
from rollout.engine.plan import AttemptSpec, Plan
from rollout.models.registry import Registry
from rollout.store.journal import Journal
from rollout.store.record import Record
from rollout.trajectories.tree import Node, NodeBody, RolloutTree

log = logging.getLogger(__name__)
LOOK_EVERY = 2.0
"""Seconds between two looks at the machines, and before a rank that died at once is started a second time."""
LONGEST_WAIT = 60.0
CLOSE_TIMEOUT = 15.0


class Ranks:
    """The workers of a run. `rollout.distributed.opening` opens them."""

    def __init__(
        self,
        cluster: Cluster,
        machines: Machines,
        setup: Setup,
        journal: Journal,
        control: Control,
        registry: Registry,
    ) -> None:
        self._cluster = cluster
        self._machines = machines
        self._setup = setup
        self._journal = journal
        self._control = control
        self._registry = registry
        self._max_workers = setup.config.max_workers
        self._ranks: list[Rank] = []
        self._cpus: dict[str, float] = {}
        """Of the machines that were seen, by id."""
        self._links: dict[int, Link] = {}
        self._lives: dict[int, asyncio.Task[None]] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._problems: list[str] = []
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._is_closing = False
        control.on_pause(self._pause)
        control.on_version(lambda: self._tell_all(Version(control.weight_version)))

    # ---- what the engine asks -----------------------------------------------------------------------------------

    def open_episode(
        self,
        plan: Plan,
        attempt: AttemptSpec,
        tree: RolloutTree,
        start: Node,
        record: Record,
        control: Control,
        observers: Sequence[Observer],
    ) -> Growing:
        """An episode that runs on one of these ranks, which write its record down as it comes."""
        return FarEpisode(self, plan, attempt, tree, start, control, observers)

    async def place(self, episode: FarEpisode) -> Rank:
        """Wait for a rank with room, and give it the episode. Raises `Paused` where the run pauses meanwhile."""
        self._control.go_on()
        if self._waiting or (rank := self._choose()) is None:
            rank = await self._wait_for_room()
        rank.episodes[episode.id] = episode
        rank.count.running = len(rank.episodes)
        rank.count.stolen += rank.quota is not None and rank.count.taken >= rank.quota
        rank.count.taken += 1
        self._journal.place_episode(episode.id, rank.number)
        return rank

    def give_back(self, rank: Rank, episode: FarEpisode) -> None:
        """An episode is over on a rank, or was lost with it."""
        rank.episodes.pop(episode.id, None)
        rank.count.running = len(rank.episodes)
        self._wake()

    def images_for(self, rank: Rank, bodies: Iterable[NodeBody]) -> dict[str, bytes]:
        """The images that these nodes name and that a rank does not have; from now on it has them."""
        if rank.is_shared:
            return {}
        names = {name for body in bodies if body.message is not None for name in body.message.images} - rank.known
        rank.known |= names
        return {name: (self._journal.folder / "blobs" / name).read_bytes() for name in names}

    def counts(self) -> list[RankCounts]:
        """What each rank has done, for people."""
        total = self._max_workers
        return [
            msgspec.structs.replace(rank.count, seconds=rank.seconds(), share=rank.count.slots / total)
            for rank in self._ranks
        ]

    def divide(self, total: int) -> None:
        """Give each rank its share of this many episodes, where ranks have weights."""
        if self._cluster.rank_weights is not None:
            weights = self._cluster.rank_weights
            for rank, quota in zip(self._ranks, share_out(total, weights, [total] * len(weights)), strict=True):
                rank.quota = quota

    # ---- who is next --------------------------------------------------------------------------------------------

    def _choose(self) -> Rank | None:
        free = [rank for rank in self._ranks if rank.has_room]
        if not free:
            return None
        own = [rank for rank in free if rank.quota is None or rank.count.taken < rank.quota]
        # The emptiest first, so that equal ranks fill evenly.
        return min(own or free, key=lambda rank: len(rank.episodes) / rank.count.slots)

    async def _wait_for_room(self) -> Rank:
        while True:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._wake()
                raise
            self._control.go_on()
            if (rank := self._choose()) is not None:
                return rank

    def _wake(self) -> None:
        """Let those go on for whom there is room, or all where the run pauses."""
        places = sum(rank.count.slots - len(rank.episodes) for rank in self._ranks if rank.has_room)
        while self._waiting and (places > 0 or self._control.is_pausing):
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                places -= 1

    def _pause(self) -> None:
        assert self._control.reason is not None
        self._tell_all(Pause(self._control.reason))
        self._wake()

    def _tell_all(self, told: Pause | Version) -> None:
        for rank in self._ranks:
            if rank.is_live:
                rank.tell(told)

    def _give_slots(self) -> None:
        """Divide the places: by the weights over all ranks, else by CPUs over those that are there."""
        weights = self._cluster.rank_weights
        there = self._ranks if weights is not None else [rank for rank in self._ranks if rank.is_live]
        if weights is None:
            on_machine = Counter(rank.machine for rank in there)
            weights = [max(self._cpus.get(rank.machine, 1.0), 0.1) / on_machine[rank.machine] for rank in there]
        for rank in self._ranks:
            rank.count.slots = 0
        for rank, slots in zip(
            there, share_out(self._max_workers, weights, [self._max_workers] * len(there)), strict=True
        ):
            rank.count.slots = slots
        live = [rank for rank in self._ranks if rank.is_live]
        if live and not any(rank.count.slots for rank in live):
            # There are fewer places than ranks, and those that have one are gone: the others do not stand by idly.
            for rank, slots in zip(live, share_out(self._max_workers, [1] * len(live), [1] * len(live)), strict=True):
                rank.count.slots = slots
        self._wake()

    # ---- coming and going ---------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the ranks and wait until all are ready, or have failed. Raises ConfigError where not one is ready."""
        machines = await self._look()
        if not machines:
            raise ConfigError("cluster: there is no machine with CPUs; start Ray on one: ray start --head")
        used: Counter[str] = Counter()
        for _ in range(self._first_ranks(machines)):
            self._add_rank(self._emptiest(machines, used))
        self._give_slots()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._cluster.start_timeout):
                while any(not rank.is_live and rank.number in self._lives for rank in self._ranks):
                    self._changed.clear()
                    await self._changed.wait()
        if not any(rank.is_live for rank in self._ranks):
            why = "\n  ".join(self._problems) or f"none was ready after {self._cluster.start_timeout:g} s"
            raise ConfigError(f"cluster: no worker could be started\n  {why}")
        for problem in self._problems:
            log.error("%s", problem)
        self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """End all ranks."""
        self._is_closing = True
        if self._watching is not None:
            self._watching.cancel()
        for rank in self._ranks:
            rank.is_leaving = True
            # Who is not ready has nothing to tell, and may never be: Ray may find no place for it.
            if not rank.is_live and rank.number in self._lives:
                self._lives[rank.number].cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                closing = (self._links[rank.number].close() for rank in self._ranks if rank.is_live)
                await asyncio.gather(*closing, *self._lives.values(), return_exceptions=True)
        for task in self._lives.values():
            task.cancel()
        await asyncio.gather(*self._lives.values(), return_exceptions=True)
        for link in self._links.values():
            link.kill()

    @property
    def _is_one_each(self) -> bool:
        """Whether each machine has one rank, also those that join."""
        fixed = (self._cluster.workers, self._cluster.rank_weights)
        return fixed == (None, None) and self._cluster.address != "local"

    def _first_ranks(self, machines: Sequence[Machine]) -> int:
        if self._cluster.rank_weights is not None:
            return len(self._cluster.rank_weights)
        if self._cluster.workers is not None:
            return self._cluster.workers
        if self._cluster.address == "local":
            return max(1, int(machines[0].cpus))
        return len(machines)

    async def _look(self) -> list[Machine]:
        machines = await self._machines.list()
        self._cpus.update({machine.id: machine.cpus for machine in machines})
        return [machine for machine in machines if machine.cpus >= self._cluster.cpus]

    def _emptiest(self, machines: Sequence[Machine], used: Counter[str]) -> Machine:
        """Where the next rank goes: of the machines that have CPUs left for it, else of all, the one with the fewest
        ranks. It is counted as used."""
        cpus = self._cluster.cpus

        def order(machine: Machine) -> tuple[bool, int]:
            return (used[machine.id] + 1) * cpus > machine.cpus, used[machine.id]

        found = min(machines, key=order)
        used[found.id] += 1
        return found

    def _add_rank(self, machine: Machine) -> None:
        rank = Rank(len(self._ranks), self._journal, self._control, self._registry.gate, self._cluster.silence)
        self._ranks.append(rank)
        self._begin(rank, machine)

    def _begin(self, rank: Rank, machine: Machine) -> None:
        rank.machine = machine.id
        rank.count.host = machine.host
        life = asyncio.get_running_loop().create_task(self._live(rank, machine))
        self._lives[rank.number] = life
        life.add_done_callback(functools.partial(self._died, rank))

    async def _live(self, rank: Rank, machine: Machine) -> None:
        """A worker's life, from its start to its loss."""
        link = self._machines.start(msgspec.structs.replace(self._setup, rank=rank.number), machine)
        self._links[rank.number] = link
        try:
            try:
                async with asyncio.timeout(self._cluster.start_timeout):
                    hello = await link.open()
            except TimeoutError:
                raise LinkLost(
                    f"was not ready after {self._cluster.start_timeout:g} s; has the machine {self._cluster.cpus:g} "
                    "free CPUs?"
                ) from None
            rank.count.host = hello.host
            rank.join(link, hello.is_shared)
            self._give_slots()
            self._changed.set()
            await rank.listen()
        finally:
            if not self._is_closing:
                link.kill()

    def _died(self, rank: Rank, life: asyncio.Task[None]) -> None:
        """The worker of a rank is gone. Its episodes have been passed to other ranks."""
        self._lives.pop(rank.number, None)
        self._changed.set()
        if self._is_closing or life.cancelled():
            return
        error = life.exception()
        if isinstance(error, RolloutError) and error.kind == "journal":
            self._control.pause("the run directory cannot be written", str(error))
        told = f"rank {rank.number} on {rank.count.host}: {error}"
        if self._watching is None:
            self._problems.append(told)
        elif not self._control.is_pausing:
            log.warning("%s", told)
        self._give_slots()

    async def _watch(self) -> None:
        """Start what died again, and ranks on machines that are new; pause where no worker is left for too long."""
        loop = asyncio.get_running_loop()
        last_seen = loop.time()
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if self._control.is_pausing:
                continue
            if any(rank.is_live for rank in self._ranks):
                last_seen = loop.time()
            elif loop.time() - last_seen > self._cluster.start_timeout:
                log.error("no worker is left, and none came back within %g s", self._cluster.start_timeout)
                self._control.pause("no worker is left")
                continue
            try:
                machines = await self._look()
            except LinkLost as error:
                log.warning("the cluster cannot be asked for its machines: %s", error)
                continue
            if machines:
                self._fill(machines)

    def _fill(self, machines: Sequence[Machine]) -> None:
        used = Counter(rank.machine for rank in self._ranks if rank.number in self._lives)
        now, most = asyncio.get_running_loop().time(), self._cluster.max_restarts
        gone = [rank for rank in self._ranks if rank.number not in self._lives]
        dead = [rank for rank in gone if rank.count.restarts < most and rank.not_before <= now]
        # Where each machine has one rank, those that died wait for a machine without one; where a rank was given up or
        # is not due yet, its machine waits with it.
        taken = {rank.machine for rank in gone if rank not in dead} | set(used)
        free = [machine for machine in machines if machine.id not in taken] if self._is_one_each else None
        for rank in dead if free is None else dead[: len(free)]:
            machine = free.pop(0) if free else self._emptiest(machines, used)
            rank.not_before = now + min(LOOK_EVERY * 2**rank.count.restarts, LONGEST_WAIT)
            rank.count.restarts += 1
            self._begin(rank, machine)
        for machine in free or ():
            self._add_rank(machine)
