"""Ray: the machines of a cluster, and workers on them as actors. The only module that imports it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import Awaitable, Iterator
from typing import Any, TypeVar

from rollout.config.cluster import Cluster
from rollout.core.errors import ConfigError
from rollout.core.extras import missing_extra
from rollout.distributed.environment import only_system_variables
from rollout.distributed.link import LinkLost, Machine
from rollout.distributed.worker import Hello, Setup, Worker

# Nothing is sent home. (Ray reads these when it is imported.)
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

try:
    import ray
    from ray.exceptions import RayActorError, RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ModuleNotFoundError as missing:
    raise missing_extra("cluster:", "ray") from missing

CALLS_AT_ONCE = 16
KNOCK_TIMEOUT = 10.0
CLIENT_PORT = ":10001"
"""Where Ray takes `ray://` without a port."""
T = TypeVar("T")


class _Actor(Worker):
    """A worker as Ray runs it: the only one in its process."""

    async def open(self) -> Hello:
        hello = await super().open()
        self.send_log()
        return hello


class RayLink:
    """A worker that is a Ray actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def open(self) -> Hello:
        return await _answer(self._actor.open.remote())

    async def next(self, told: bytes) -> bytes:
        return await _answer(self._actor.next.remote(told))

    async def tell(self, told: bytes) -> None:
        await _answer(self._actor.tell.remote(told))

    async def close(self) -> None:
        await _answer(self._actor.close.remote())

    def kill(self) -> None:
        with contextlib.suppress(RayError, ValueError):
            ray.kill(self._actor, no_restart=True)


class RayMachines:
    """The machines of the cluster that this process is connected to."""

    def __init__(self, cpus: float) -> None:
        self._cpus = cpus
        self._actor_class = ray.remote(_Actor)

    async def list(self) -> list[Machine]:
        try:
            nodes = await asyncio.to_thread(ray.nodes)
        except (RayError, ConnectionError) as error:
            raise LinkLost(str(error)) from error
        machines = [
            Machine(node["NodeID"], node["NodeManagerHostname"], float(node["Resources"].get("CPU", 0.0)))
            for node in nodes
            if node["Alive"]
        ]
        return sorted(machines, key=lambda machine: (machine.host, machine.id))

    def start(self, setup: Setup, machine: Machine) -> RayLink:
        options = self._actor_class.options(
            num_cpus=self._cpus,
            max_restarts=0,
            max_concurrency=CALLS_AT_ONCE,
            scheduling_strategy=NodeAffinitySchedulingStrategy(machine.id, soft=False),
        )
        return RayLink(options.remote(setup))


@contextlib.contextmanager
def connect(cluster: Cluster) -> Iterator[RayMachines]:
    """Join the cluster, or start one for this run alone; leave it, or end it, at the end."""
    # Without an address Ray would join whatever cluster it finds on this machine, also where one is to be begun.
    options: dict[str, Any] = {"address": cluster.address, "logging_level": "ERROR", "log_to_driver": False}
    if cluster.address == "local":
        ranks = len(cluster.rank_weights or ()) or cluster.workers or 0
        cpus = max(os.cpu_count() or 1, int(ranks * cluster.cpus))
        options |= {"num_cpus": cpus, "include_dashboard": False}
    # A process that has joined already (a script, a test) stays joined.
    is_ours = not ray.is_initialized()
    if is_ours:
        try:
            _knock(cluster.address)
            with only_system_variables() if cluster.address == "local" else contextlib.nullcontext():
                ray.init(**options)
        except (OSError, RuntimeError, ValueError, RayError) as error:
            raise ConfigError(
                f"cluster.address: {cluster.address}: {error}; is Ray running there? `ray start --head` starts it, and "
                "--cluster local needs none"
            ) from error
    try:
        yield RayMachines(cluster.cpus)
    finally:
        if is_ours:
            ray.shutdown()


def _knock(address: str) -> None:
    """Raise OSError where nothing listens: Ray itself tries for long, and then ends the process."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "")
    if address.startswith("ray://") and not re.search(r":\d+$", address):
        address += CLIENT_PORT
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), KNOCK_TIMEOUT).close()
        except OSError as error:
            raise OSError(f"{host}:{port}: {error.strerror or error}") from error


async def _answer(call: Awaitable[T]) -> T:
    try:
        return await call
    except RayTaskError as error:
        raise error.cause if isinstance(error.cause, Exception) else error from None
    except (RayActorError, RayError, ConnectionError) as error:
        raise LinkLost(str(error).strip().partition("\n")[0] or type(error).__name__) from error
