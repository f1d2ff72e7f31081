"""From a configuration to the ranks of a run: the settings of the workers, and what starts them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from secrets import token_hex
from typing import Any

from rollout.config.cluster import Cluster
from rollout.config.schema import Config
from rollout.core import secrets
from rollout.core.errors import ConfigError, describe_error
from rollout.core.plugins import folders, offered
from rollout.distributed.environment import worker_environment
from rollout.distributed.link import Machines
from rollout.distributed.ranks import Ranks
from rollout.distributed.worker import OpenPlans, Setup
from rollout.engine.control import Control
from rollout.models.registry import Registry
from rollout.store.journal import Journal

log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def open_ranks(
    config: Config,
    datasets: Sequence[str],
    journal: Journal,
    control: Control,
    registry: Registry,
    open_plans: OpenPlans,
    machines: Machines | None = None,
) -> AsyncIterator[Ranks]:
    """The ranks of a run, ready; ended on leaving. Workers make their plans with `open_plans`; `machines` replace
    Ray's."""
    assert config.cluster is not None
    for name in datasets:
        user = config.datasets[name].user
        if user is not None and user.kind == "person":
            raise ConfigError(f"datasets.{name}.user: a person cannot be asked on a cluster; leave `cluster` out")
    async with contextlib.AsyncExitStack() as held:
        if machines is None:
            if config.cluster.address == "local" and "ray" not in sys.modules:
                # Ray listens on every interface, whatever its settings; clients need the token. It reads this
                # when it is imported.
                os.environ.setdefault("RAY_AUTH_MODE", "token")
                os.environ.setdefault("RAY_AUTH_TOKEN", token_hex(32))
                secrets.register(os.environ["RAY_AUTH_TOKEN"])
            machines = await held.enter_async_context(_connected(config.cluster))
        run_dir = journal.folder.resolve()
        # Whoever sees this file shares the run directory with us.
        for old in run_dir.glob(".shared.*"):
            old.unlink()  # a driver's that was killed
        token = run_dir / f".shared.{os.urandom(8).hex()}"
        held.callback(token.unlink, missing_ok=True)
        token.touch()
        setup = Setup(
            config=config,
            open_plans=open_plans,
            datasets=list(datasets),
            rank=0,
            run_dir=str(run_dir),
            token=token.name,
            folder=str(Path.cwd()),
            module_path=_module_path(),
            environment=worker_environment(os.environ, registry.key_variables(), config.cluster.environment),
            secrets=secrets.known(),
            objects=_pickled(offered()),
        )
        ranks = Ranks(config.cluster, machines, setup, journal, control, registry)
        try:
            await ranks.open()
            yield ranks
        finally:
            await ranks.close()


def _pickled(objects: Mapping[str, Any]) -> bytes:
    """Objects of this program for workers: what a module has by name, and the code itself of what it has not."""
    if not objects:
        return b""
    from ray import cloudpickle

    try:
        return bytes(cloudpickle.dumps(dict(objects)))  # type: ignore[no-untyped-call]
    except Exception as error:
        raise ConfigError(
            f"objects of this program cannot be sent to the workers of a cluster: {describe_error(error)}; move what "
            "cannot be copied into a World's setup, or name the objects in a module"
        ) from error


def _module_path() -> list[str]:
    return list(dict.fromkeys([*(os.path.abspath(path) for path in sys.path), *folders()]))


@contextlib.asynccontextmanager
async def _connected(cluster: Cluster) -> AsyncIterator[Machines]:
    """The machines of Ray. A thread connects to it, and no caller waits for it longer than it wants to: Ray
    takes seconds to start, and where it is not there it may try forever. The thread stays until the end, because
    what Ray starts dies with the thread that started it."""
    answer: Future[Machines] = Future()
    answer.set_running_or_notify_cancel()
    is_over = threading.Event()

    def stay() -> None:
        try:
            from rollout.distributed.ray_nodes import connect

            with connect(cluster) as machines:
                answer.set_result(machines)
                is_over.wait()
        except Exception as error:
            if answer.done():
                log.exception("the cluster was not left well")
            else:
                answer.set_exception(error)

    thread = threading.Thread(target=stay, name="ray", daemon=True)
    thread.start()
    try:
        try:
            async with asyncio.timeout(cluster.start_timeout):
                machines = await asyncio.wrap_future(answer)
        except TimeoutError:
            raise ConfigError(
                f"cluster.address: {cluster.address}: no answer within {cluster.start_timeout:g} s; is Ray running "
                "there?"
            ) from None
        yield machines
    finally:
        is_over.set()
        if answer.done():
            await asyncio.to_thread(thread.join)
