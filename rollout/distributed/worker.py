"""A worker: runs the episodes that the driver sends, with worlds, browsers and model clients of its own.

It holds nothing that would be missed. The driver calls `open` once, then `next` again and again: that call brings what
the driver has to say, acknowledges what came before, and waits for the next parcel. What cannot wait for it comes by
`tell`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from rollout.config.schema import Config
from rollout.core import plugins, secrets
from rollout.core.errors import BranchMismatch, ConfigError, ReplayMismatch, describe_error
from rollout.distributed.gates import Gates
from rollout.distributed.sending import Sending, SendingRecord
from rollout.distributed.wire import (
    Admit,
    Cancel,
    Cut,
    Ended,
    Logged,
    Pause,
    Start,
    ToWorker,
    Version,
    read_by_worker,
)
from rollout.engine.control import Control, Paused
from rollout.engine.episode import Episode
from rollout.engine.plan import Plan
from rollout.models.registry import Registry
from rollout.tasks.source import TaskList
from rollout.trajectories.tree import RolloutTree

PATIENCE = 10.0
"""A worker with nothing to tell says so after this many seconds: its sign of life."""
FAULT, PAUSED, CANCELLED, REPLAY, BRANCH = "fault", "paused", "cancelled", "replay", "branch"
"""Why an episode ended on a worker without an end of its own."""


OpenPlans = Callable[..., contextlib.AbstractAsyncContextManager[Sequence[Plan]]]
"""`rollout.pipelines.wiring.datasets.open_plans`: how a worker makes its own plans of the configuration."""


class Setup(msgspec.Struct, frozen=True):
    """What a worker needs to know to begin."""

    config: Config
    open_plans: OpenPlans
    datasets: list[str]
    rank: int
    run_dir: str
    token: str
    """The name of a file in `run_dir`: a worker that sees it shares the driver's folder."""
    folder: str
    """The driver's working directory, which the configuration's paths are relative to."""
    module_path: list[str]
    """Where the driver finds modules: after its own places a worker looks there for plugins."""
    environment: dict[str, str]
    secrets: list[str]
    objects: bytes = b""
    """Objects of the driver's program, pickled by reference: see `rollout.core.plugins.offer`."""

    def __repr__(self) -> str:
        return f"Setup(rank={self.rank})"


class Hello(msgspec.Struct, frozen=True):
    """What a worker says of itself."""

    host: str
    pid: int
    is_shared: bool
    """Whether it sees the driver's run directory."""


class Worker:
    """One rank of a cluster."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._control = Control()
        self._episodes: dict[int, tuple[Episode, asyncio.Task[None]]] = {}
        self._plans: dict[str, Plan] = {}
        self._held = contextlib.AsyncExitStack()
        self._heard = 0
        self._early: dict[int, list[ToWorker]] = {}
        """Messages of the driver that have overtaken others."""
        self._sending = Sending()
        self._gates = Gates(self._sending)

    async def open(self) -> Hello:
        """Make everything ready. Raises ConfigError where this machine lacks something."""
        setup = self._setup
        for secret in setup.secrets:
            secrets.register(secret)
        os.environ.update(setup.environment)
        try:
            os.chdir(setup.folder)
        except OSError as error:
            raise ConfigError(
                f"{socket.gethostname()}: the folder {setup.folder} cannot be used ({error.strerror}); every machine "
                "of the cluster has to see the configuration's files under the same path"
            ) from error
        # Ray puts the driver's folder first, where any file in it may shadow a package.
        own = [path for path in sys.path if path != setup.folder]
        sys.path[:] = own + [path for path in setup.module_path if path not in own]
        if setup.objects:
            # After the module path is set: most of them are found by the names of their modules.
            import pickle

            plugins.take_offers(pickle.loads(setup.objects))
        is_shared = (Path(setup.run_dir) / setup.token).exists()
        folder = Path(setup.run_dir) if is_shared else Path(tempfile.mkdtemp(prefix="rollout-"))
        if not is_shared:
            self._held.callback(shutil.rmtree, folder, ignore_errors=True)
        self._record = SendingRecord(self._sending, folder, is_shared, setup.config.use_checkpoints)
        await self._make_plans(setup.config, folder)
        return Hello(socket.gethostname(), os.getpid(), is_shared)

    async def _make_plans(self, config: Config, folder: Path) -> None:
        registry = await self._held.enter_async_context(
            Registry(
                config.models,
                timeouts=config.timeouts,
                retries=config.retries,
                local=config.local,
                log_dir=folder / "logs",
                make_gate=self._gates.make,
            )
        )
        opening = self._setup.open_plans(
            config, self._setup.datasets, registry, tasks=TaskList("the driver's tasks", [])
        )
        self._plans = {plan.name: plan for plan in await self._held.enter_async_context(opening)}

    def send_log(self) -> None:
        """From now on warnings of this process go to the driver's log, and nowhere else."""
        handler = _SendingHandler(self._sending)
        handler.addFilter(secrets.RedactingFilter())
        root = logging.getLogger("rollout")
        root.handlers[:] = [handler]
        root.propagate = False

    async def next(self, told: bytes) -> bytes:
        """Hear the driver, then wait for something to tell it. What was told before is written down."""
        self._hear(told)
        return await self._sending.take(PATIENCE)

    async def tell(self, told: bytes) -> None:
        """Hear the driver while it waits for `next`."""
        self._hear(told)

    async def close(self) -> None:
        """Let go of everything."""
        for _, task in self._episodes.values():
            task.cancel()
        await asyncio.gather(*(task for _, task in self._episodes.values()), return_exceptions=True)
        self._sending.end()
        await self._held.aclose()

    def _hear(self, data: bytes) -> None:
        number, told = read_by_worker(data)
        self._early[number] = told
        while self._heard in self._early:
            for one in self._early.pop(self._heard):
                self._obey(one)
            self._heard += 1

    def _obey(self, told: ToWorker) -> None:
        match told:
            case Start():
                self._start(told)
            case Admit(ticket):
                self._gates.admit(ticket)
            case Pause(reason):
                self._control.pause(reason)
            case Version(version):
                self._control.weight_version = version
            case Cut(id) if id in self._episodes:
                self._episodes[id][0].cut()
            case Cancel(id) if id in self._episodes:
                self._episodes[id][1].cancel()

    def _start(self, start: Start) -> None:
        try:
            episode = self._open_episode(start)
        except Exception as error:
            logging.getLogger(__name__).exception("%s: could not be opened", start.attempt.trajectory)
            self._sending.add(Ended(start.attempt.id, FAULT, describe_error(error)))
            return
        task = asyncio.get_running_loop().create_task(self._run(episode, start))
        self._episodes[episode.id] = episode, task

    def _open_episode(self, start: Start) -> Episode:
        for name, data in start.images.items():
            self._record.receive(name, data)
        tree = RolloutTree(start.attempt.task.id, start.attempt.task.messages)
        node = tree.trunk
        for place, body in enumerate(start.path):
            node = tree.append(node, body, 0, place)
            node.snapshot = start.snapshots.get(place)
        episode = Episode(self._plans[start.dataset], start.attempt, tree, node, self._record, self._control, ())
        if start.is_cut:
            episode.cut()
        return episode

    async def _run(self, episode: Episode, start: Start) -> None:
        error, text = None, ""
        try:
            await episode.run(start.saved)
        except Paused:
            error = PAUSED
        except asyncio.CancelledError:
            error = CANCELLED
        except BranchMismatch as mismatch:
            error, text = BRANCH, str(mismatch)
        except ReplayMismatch as mismatch:
            error, text = REPLAY, str(mismatch)
        except Exception as fault:
            logging.getLogger(__name__).exception("%s: could not be run", episode.trajectory)
            error, text = FAULT, describe_error(fault)
        finally:
            del self._episodes[episode.id]
            self._sending.add(Ended(episode.id, error, secrets.redact(text)))


class _SendingHandler(logging.Handler):
    """Sends warnings and errors to the driver's log."""

    def __init__(self, sending: Sending) -> None:
        super().__init__(logging.WARNING)
        self._sending = sending
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        told = Logged(record.levelno, self.format(record))
        # Some lines come from threads.
        self._loop.call_soon_threadsafe(self._sending.add, told)
