"""What the worlds of all datasets of a run share: processes for mock servers, and browsers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator

from rollout.config.schema import Config
from rollout.errors import ConfigError
from rollout.worlds.tools.workers import WorkerPool
from rollout.worlds.web.browsers import BrowserPool


@dataclasses.dataclass(frozen=True, slots=True)
class Pools:
    """Both start what they need when it is first asked for."""

    workers: WorkerPool | None = None
    """None: mock servers run in this process."""
    browsers: BrowserPool = dataclasses.field(default_factory=BrowserPool)
    are_used: bool = True
    """Whether worlds are opened here. Otherwise nothing of what they need has to be on this machine."""

    async def refuse_broken(self) -> None:
        """Raise ConfigError where a domain that was loaded cannot be served."""
        if self.workers is not None and (problems := await self.workers.problems()):
            raise ConfigError("\n".join(problem for _, problem in problems))


@contextlib.asynccontextmanager
async def open_pools(config: Config, are_used: bool = True) -> AsyncIterator[Pools]:
    """The pools as the configuration has them; everything in them is ended on leaving."""
    servers = config.mock_servers
    async with contextlib.AsyncExitStack() as held:
        workers = None
        if servers.isolation == "process":
            workers = WorkerPool(processes=servers.processes, memory_mb=servers.memory_mb)
            held.push_async_callback(workers.close)
        browsers = BrowserPool(**config.browsers.model_dump())
        held.push_async_callback(browsers.close)
        yield Pools(workers, browsers, are_used)
