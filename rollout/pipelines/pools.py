"""What the worlds of all datasets of a run share: processes for mock servers, and browsers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable

from rollout.config.schema import Config
from rollout.core.errors import ConfigError, RolloutError, describe_error
from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.domains.domain import Domain
from rollout.environments.domains.workers import WorkerPool
from rollout.environments.web.browsers import BrowserPool

OPENING_TIMEOUT = 60.0
"""Seconds that opening a world may take when a domain is checked."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pools:
    """Both start what they need when it is first asked for."""

    workers: WorkerPool | None = None
    """None: mock servers run in this process."""
    browsers: BrowserPool = dataclasses.field(default_factory=BrowserPool)
    are_used: bool = True
    """Whether worlds are opened here. Otherwise nothing of what they need has to be on this machine."""

    domains: list[tuple[Domain, Callable[[float], World]]] = dataclasses.field(default_factory=list)
    """The mock domains that were loaded with these pools, each with what makes its worlds."""

    async def problems(self) -> list[tuple[Domain, str]]:
        """What keeps domains from being served: code that cannot be loaded, servers that cannot be constructed.

        A world of each is opened once and closed again, because nothing less shows that an episode could.
        """
        found = [] if self.workers is None else await self.workers.problems()
        broken = {id(domain) for domain, _ in found}
        for domain, make_world in self.domains:
            if id(domain) not in broken and (problem := await _opening_problem(domain, make_world)) is not None:
                found.append((domain, problem))
        return found

    async def refuse_broken(self) -> None:
        """Raise ConfigError where a domain that was loaded cannot be served."""
        if problems := await self.problems():
            raise ConfigError("\n".join(problem for _, problem in problems))


async def _opening_problem(domain: Domain, make_world: Callable[[float], World]) -> str | None:
    """Why no world of a domain can be opened; None where one can."""
    world = make_world(OPENING_TIMEOUT)
    try:
        await world.open(Task("check"), 0)
    except RolloutError as error:
        return f"{domain.base_path / 'mcp_servers'}: {domain.name} cannot be opened: {error}"
    except Exception as error:  # noqa: BLE001 - a server's code may raise anything
        return f"{domain.base_path / 'mcp_servers'}: {domain.name} cannot be opened: {describe_error(error)}"
    finally:
        await world.close()
    return None


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
