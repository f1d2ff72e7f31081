"""One rank, as the driver sees it: a worker's link, the episodes it has, and what it has done."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rollout.distributed.link import Link, LinkLost
from rollout.distributed.rank_counts import RankCounts
from rollout.distributed.wire import (
    Admit,
    Ask,
    Done,
    Ended,
    File,
    Leave,
    Logged,
    Nodes,
    Pause,
    StateAt,
    ToDriver,
    ToWorker,
    Version,
    encode,
    join_numbered,
    read_by_driver,
)
from rollout.engine.control import Control
from rollout.models.limits import Gate
from rollout.store.journal import CommitBatch, Journal

if TYPE_CHECKING:
    from rollout.distributed.far_episode import FarEpisode

log = logging.getLogger(__name__)


class Rank:
    """A worker and what belongs to it: `join` when it is ready, then `listen` for as long as it lives."""

    def __init__(
        self, number: int, journal: Journal, control: Control, gate: Callable[[str], Gate], silence: float
    ) -> None:
        self.number = number
        self.count = RankCounts(number)
        self.machine = ""
        """The machine that it is on, by its id."""
        self.not_before = 0.0
        """When it may be started again, on the loop's clock."""
        self.quota: int | None = None
        """How many episodes are its own share; None where there are no shares."""
        self.episodes: dict[int, FarEpisode] = {}
        self.is_leaving = False
        """Whether its next parcel is its last."""
        self.is_shared = False
        """Whether it sees the run directory."""
        self.known: set[str] = set()
        """Images that it has."""
        self._journal = journal
        self._control = control
        self._gate = gate
        self._silence = silence
        self._link: Link | None = None
        self._outgoing: list[bytes] = []
        self._messages = 0
        """That its worker was sent."""
        self._is_listening = False
        self._telling: asyncio.Task[None] | None = None
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._held: dict[int, Gate] = {}
        self._since = 0.0

    @property
    def is_live(self) -> bool:
        return self._link is not None

    @property
    def has_room(self) -> bool:
        return self._link is not None and len(self.episodes) < self.count.slots

    def join(self, link: Link, is_shared: bool) -> None:
        """Its worker is ready. `is_shared`: it sees the run directory."""
        self._link = link
        self.is_shared = is_shared
        self.known = set()
        self._messages = 0
        self.count.is_live = True
        self._since = time.monotonic()
        if self._control.reason is not None:
            self.tell(Pause(self._control.reason))
        if self._control.weight_version is not None:
            self.tell(Version(self._control.weight_version))

    async def listen(self) -> None:
        """Take what the worker sends until it is gone (LinkLost), and write it down."""
        link = self._link
        assert link is not None
        try:
            while not self.is_leaving:
                parcel = await self._next(link)
                batch = None
                for told in read_by_driver(parcel):
                    batch = self._take(told) or batch
                if batch is not None:
                    await self._journal.settle(batch)
        finally:
            self._let_go()

    def tell(self, told: ToWorker) -> None:
        """Say something to the worker, with the next call or at once where it is being waited for."""
        self._outgoing.append(encode(told))
        if self._is_listening and self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _next(self, link: Link) -> bytes:
        told = self._message()
        self._is_listening = True
        try:
            async with asyncio.timeout(self._silence):
                return await link.next(told)
        except TimeoutError:
            link.kill()
            raise LinkLost(f"rank {self.number} gave no sign of life for {self._silence:g} s") from None
        finally:
            self._is_listening = False

    async def _tell(self) -> None:
        try:
            # Several things are often said in one round of the loop.
            await asyncio.sleep(0)
            while self._outgoing and self._is_listening and self._link is not None:
                await self._link.tell(self._message())
        except LinkLost:
            pass  # the listener learns of it
        finally:
            self._telling = None

    def _message(self) -> bytes:
        """All that waits to be said."""
        told = join_numbered(self._messages, self._outgoing)
        self._messages += 1
        self._outgoing = []
        return told

    def _let_go(self) -> None:
        """The worker is gone: nothing waits for it any more, and what it held of models' limits is free."""
        self._link = None
        self._outgoing = []
        self.count.is_live = False
        self.count.seconds += time.monotonic() - self._since
        for task in self._asking.values():
            task.cancel()
        self._asking.clear()
        for gate in self._held.values():
            gate.leave_failed(is_overload=False)
        self._held.clear()
        lost, self.episodes = self.episodes, {}
        self.count.running = 0
        for episode in lost.values():
            episode.lose()

    def seconds(self) -> float:
        """How long it has been there, this time and before."""
        return self.count.seconds + (time.monotonic() - self._since if self.is_live else 0.0)

    # ---- what it says -------------------------------------------------------------------------------------------

    def _take(self, told: ToDriver) -> CommitBatch | None:
        match told:
            case Nodes(episode, place, bodies):
                for body in bodies:
                    if body.generation is not None:
                        self.count.steps += 1
                        self._control.charge(body.generation.cost)
                if episode in self.episodes:
                    self.episodes[episode].grew(place, bodies)
                return self._journal.put(episode, place, bodies)
            case Done(finished):
                if finished.is_failed:
                    self.count.failed += 1
                else:
                    self.count.done += 1
                if finished.episode in self.episodes:
                    self.episodes[finished.episode].head = finished.head
                return self._journal.finish(finished)
            case Ended(episode, error, text):
                if episode in self.episodes:
                    self.episodes.pop(episode).end(error, text)
                    self.count.running = len(self.episodes)
            case StateAt(episode, place, snapshot):
                if episode in self.episodes:
                    self.episodes[episode].snapshots[place] = snapshot
            case File(name, data):
                self.known.add(name)
                self._journal.keep_file(name, data)
            case Ask(ticket, gate, tokens):
                task = asyncio.get_running_loop().create_task(self._admit(ticket, gate, tokens))
                self._asking[ticket] = task
            case Leave():
                self._leave(told)
            case Logged(level, text):
                log.log(level, "rank %d: %s", self.number, text)
        return None

    async def _admit(self, ticket: int, name: str, tokens: float) -> None:
        gate = self._gate(name)
        with contextlib.suppress(asyncio.CancelledError):
            await gate.enter(tokens)
            self._asking.pop(ticket, None)
            self._held[ticket] = gate
            self.tell(Admit(ticket))

    def _leave(self, told: Leave) -> None:
        waiting = self._asking.pop(told.ticket, None)
        if waiting is not None:
            waiting.cancel()
            return
        gate = self._held.pop(told.ticket, None)
        if gate is None:
            return
        if told.is_answered:
            gate.leave(correction=told.correction)
        else:
            gate.leave_failed(is_overload=told.is_overload, retry_after=told.retry_after)
