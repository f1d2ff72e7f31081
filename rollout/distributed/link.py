"""The contract of the driver with what starts and reaches workers: Ray, or a stand-in of the tests."""

from __future__ import annotations

from typing import Protocol

import msgspec

from rollout.core.errors import RolloutError
from rollout.distributed.worker import Hello, Setup


class LinkLost(RolloutError):
    """A worker is gone, with everything that it held."""

    kind = "worker"


class Machine(msgspec.Struct, frozen=True):
    """A machine that can have workers."""

    id: str
    host: str
    cpus: float


class Link(Protocol):
    """A worker, from afar. Its methods are the worker's; each raises LinkLost where it is gone."""

    async def open(self) -> Hello: ...

    async def next(self, told: bytes) -> bytes: ...

    async def tell(self, told: bytes) -> None: ...

    async def close(self) -> None: ...

    def kill(self) -> None:
        """End it at once, without a word."""
        ...


class Machines(Protocol):
    """The machines of a cluster."""

    async def list(self) -> list[Machine]:
        """Those that are alive, in an order that stays."""
        ...

    def start(self, setup: Setup, machine: Machine) -> Link:
        """Begin to start a worker on a machine; `open` waits until it is there."""
        ...
