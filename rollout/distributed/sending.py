"""A worker's record: everything that its episodes write down, on its way to the driver.

Records are collected in parcels of bounded size. The driver takes one parcel at a time and asks for the next one when
everything in it is committed, so asking is the acknowledgement. An episode waits for its parcel before it asks a model
again, as it waits for the journal's commit in a run on one machine; so what a worker holds back is bounded by its live
episodes, and what the driver holds by one parcel for each worker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from rollout.core.messages import Image
from rollout.core.world import Snapshot
from rollout.distributed.wire import Done, File, Nodes, StateAt, ToDriver, encode, join
from rollout.store.blobs import name_of, write_named
from rollout.store.record import Finished
from rollout.trajectories.tree import NodeBody

PARCEL_BYTES = 1 << 20
"""A parcel is closed when it would grow beyond this; a single record may be larger."""
GATHER_SECONDS = 0.005
"""How long the first record of a parcel waits for company. A driver that is busy asks later, and so gets more at once.
"""
MOST_KNOWN = 100_000
"""So many names of blobs are remembered; one that was forgotten may travel a second time."""


class Parcel:
    """Records that travel together."""

    __slots__ = ("arrived", "records", "size")

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.size = 0
        self.arrived = asyncio.Event()
        """Set when the driver has it, and has written it down."""


class Sending:
    """Collects what goes to the driver."""

    def __init__(self) -> None:
        self._parcels: deque[Parcel] = deque()
        self._taken: Parcel | None = None
        self._has_some = asyncio.Event()
        self._is_over = False

    def add(self, told: ToDriver) -> Parcel:
        """Send a record in the next batch. Returns that batch."""
        record = encode(told)
        if not self._parcels or self._parcels[-1].size + len(record) > PARCEL_BYTES:
            self._parcels.append(Parcel())
        parcel = self._parcels[-1]
        parcel.records.append(record)
        parcel.size += len(record)
        self._has_some.set()
        return parcel

    async def take(self, patience: float) -> bytes:
        """The next parcel; an empty one where there is none for so long. The one before has arrived."""
        if self._taken is not None:
            self._taken.arrived.set()
            self._taken = None
        if not self._parcels and not self._is_over:
            self._has_some.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._has_some.wait()
            except TimeoutError:
                return join([])
            await asyncio.sleep(GATHER_SECONDS)
        if not self._parcels:
            return join([])
        self._taken = self._parcels.popleft()
        return join(self._taken.records)

    def end(self) -> None:
        """Nothing more comes: a waiting reader gets what there is."""
        self._is_over = True
        self._has_some.set()


class SendingRecord:
    """The `Record` of a worker's episodes. Images are written to `folder`, once; where the driver does not see that
    folder (`is_shared` false) they also travel, once."""

    def __init__(self, sending: Sending, folder: Path, is_shared: bool, keep_nodes: bool) -> None:
        self.folder = folder
        self._sending = sending
        self._is_shared = is_shared
        self._keep_nodes = keep_nodes
        self._known: set[str] = set()
        """Blobs that the driver has."""

    def put(self, episode: int, first_place: int, bodies: Sequence[NodeBody]) -> Parcel | None:
        parcel = self._sending.add(Nodes(episode, first_place, tuple(bodies)))
        return parcel if self._keep_nodes else None

    def finish(self, finished: Finished) -> Parcel:
        return self._sending.add(Done(finished))

    async def settle(self, batch: Parcel) -> None:
        await batch.arrived.wait()

    def keep_snapshot(self, episode: int, place: int, snapshot: Snapshot | None) -> None:
        if snapshot is not None:
            self._sending.add(StateAt(episode, place, snapshot))

    def keep_image(self, image: Image) -> None:
        name = image.name
        write_named(self.folder, name, image.data)
        if not self._is_shared:
            self._send(name, image.data)

    def keep_blob(self, data: bytes) -> str:
        name = name_of(data)
        self._send(f"{name}.json", data)
        return name

    def receive(self, name: str, data: bytes) -> None:
        """Keep an image that the driver sent."""
        self._known.add(name)
        write_named(self.folder, name, data)

    def _send(self, name: str, data: bytes) -> None:
        if name not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known.add(name)
            self._sending.add(File(name, data))
