"""The messages between driver and workers. Both directions carry lists of small tagged records, in MessagePack.

What a worker sends is asked for one parcel at a time, so it comes in order. What the driver sends is numbered, because
a large message may be overtaken by a small one: Ray brings it another way.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rollout.core.world import Snapshot
from rollout.engine.plan import AttemptSpec
from rollout.store.record import Finished
from rollout.trajectories.tree import NodeBody


class _Told(msgspec.Struct, tag=True, omit_defaults=True, gc=False):
    """Base of every record."""


# ---- from the driver --------------------------------------------------------------------------------------------


class Start(_Told):
    """Run an episode."""

    dataset: str
    attempt: AttemptSpec
    path: tuple[NodeBody, ...] = ()
    """From the opening's end to the node that it starts from."""
    snapshots: dict[int, Snapshot] = {}
    """The world's state behind nodes of `path`, by their places."""
    saved: tuple[NodeBody, ...] = ()
    """What it has grown already."""
    images: dict[str, bytes] = {}
    """Images that these nodes name and the worker does not have."""
    is_cut: bool = False


class Cut(_Told):
    """End an episode where it stands, and record it."""

    id: int


class Cancel(_Told):
    """Drop an episode where it stands. It goes on another time."""

    id: int


class Pause(_Told):
    """Start nothing new; what is under way finishes its present step."""

    reason: str


class Version(_Told):
    """The version of the agent's weights from now on."""

    version: str | None


class Admit(_Told):
    """A request to a model may begin."""

    ticket: int


ToWorker = Start | Cut | Cancel | Pause | Version | Admit


# ---- from a worker ----------------------------------------------------------------------------------------------


class Nodes(_Told):
    """Nodes that an episode has grown."""

    episode: int
    place: int
    bodies: tuple[NodeBody, ...]


class StateAt(_Told):
    """The world's state behind a node."""

    episode: int
    place: int
    snapshot: Snapshot


class File(_Told):
    """A blob that nodes or heads name."""

    name: str
    data: bytes


class Done(_Told):
    """A finished trajectory."""

    finished: Finished


class Ended(_Told):
    """An episode is over on this worker, and everything of it is let go. `error` says what kept it from its end."""

    episode: int
    error: str | None = None
    text: str = ""


class Ask(_Told):
    """A request to a model would like to begin."""

    ticket: int
    gate: str
    tokens: float = 0.0


class Leave(_Told):
    """A request is over, or is not wanted any more (`is_answered` false)."""

    ticket: int
    is_answered: bool = True
    correction: float = 0.0
    is_overload: bool = False
    retry_after: float | None = None


class Logged(_Told):
    """A line for the driver's log."""

    level: int
    text: str


ToDriver = Nodes | StateAt | File | Done | Ended | Ask | Leave | Logged

_encoder = msgspec.msgpack.Encoder()
_to_worker = msgspec.msgpack.Decoder(tuple[int, list[ToWorker]])
_to_driver = msgspec.msgpack.Decoder(list[ToDriver])


def encode(told: ToWorker | ToDriver) -> bytes:
    """One record."""
    return _encoder.encode(told)


def join(records: Sequence[bytes]) -> bytes:
    """Encoded records as one list."""
    return _encoder.encode([msgspec.Raw(record) for record in records])


def join_numbered(number: int, records: Sequence[bytes]) -> bytes:
    """Encoded records for a worker, and which message to it they are, from 0 on."""
    return _encoder.encode((number, [msgspec.Raw(record) for record in records]))


def read_by_worker(data: bytes) -> tuple[int, list[ToWorker]]:
    """What the driver says, and which of its messages it is."""
    return _to_worker.decode(data)


def read_by_driver(data: bytes) -> list[ToDriver]:
    """What a worker says."""
    return _to_driver.decode(data)
