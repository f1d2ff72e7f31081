"""Mock domains as environments: Python servers over a database, each domain in worker processes of its own."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from rollout.config.models import AgentConfig
from rollout.config.schema import Dataset
from rollout.core.errors import RolloutError, describe_error
from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.domains.domain import SHIPPED, Domain, load_domain
from rollout.environments.domains.mock import MockWorld, ServersInProcess
from rollout.environments.domains.workers import WorkerPool, WorkerWorld
from rollout.environments.environment import FileEnvironment, OpenEnvironment
from rollout.environments.resources import Resources
from rollout.scoring.rules import RuleBook, load_rules
from rollout.tasks.discovery import find_queries, known_servers
from rollout.tasks.naming import split_fused

OPENING_TIMEOUT = 60.0
"""Seconds that opening a world may take when a domain is checked."""


class DomainEnvironment(FileEnvironment):
    """The servers of one domain, or of several fused ones, over one database (`mcp_domain`)."""

    def __init__(
        self,
        domain: str,
        *,
        base_path: Path | None = None,
        servers: Sequence[str] = (),
        policy: Path | None = None,
        path: Sequence[Path] = (),
    ) -> None:
        """`servers`: only these of the domain's. `policy`: a file that replaces the domain's own. `path`: task files
        that replace the domain's queries."""
        super().__init__(domain, path)
        self._base_path = base_path or shipped_base(domain)
        self._servers = servers
        self._policy = policy

    @classmethod
    def from_dataset(cls, name: str, dataset: Dataset) -> DomainEnvironment:
        """The environment that a dataset's `mcp_domain` names."""
        assert dataset.mcp_domain is not None
        return cls(
            dataset.mcp_domain,
            base_path=dataset.base_path,
            servers=dataset.tools,
            policy=dataset.policy,
            path=dataset.path,
        )

    @functools.cached_property
    def domain(self) -> Domain:
        """The domain as it is on disk. Raises ConfigError where it is not whole."""
        return load_domain(self._base_path, self.name, self._servers, self._policy)

    def task_paths(self) -> Sequence[Path]:
        if self._path:
            return self._path
        servers = split_fused(self.name, known_servers(self._base_path)) or []
        found = find_queries(self._base_path, servers)
        return [found or self._base_path / "queries" / f"{self.name}.jsonl"]

    def system_for(self, agent: AgentConfig) -> str | None:
        return self.domain.policy

    def warnings(self, agent: AgentConfig) -> list[str]:
        if self.domain.policy is not None or agent.system_prompt_file is not None:
            return []
        return [f"no policy for {self.domain.name} in {self._base_path / 'policies'}; the agent has no system prompt"]

    @contextlib.asynccontextmanager
    async def open(self, resources: Resources, *, makes_worlds: bool = True) -> AsyncIterator[OpenDomain]:
        settings = resources.config.mock_servers
        if settings.isolation == "process":
            pool = resources.share(
                WorkerPool, lambda: WorkerPool(processes=settings.processes, memory_mb=settings.memory_mb)
            )
            yield OpenWorkers(self.domain, resources.call_timeout, pool)
        else:
            yield OpenMocks(self.domain, resources.call_timeout)


class OpenDomain(OpenEnvironment):
    """A domain in use, wherever its servers run."""

    def __init__(self, domain: Domain, call_timeout: float) -> None:
        super().__init__(domain.toolset)
        self.domain = domain
        self.rules = RuleBook(load_rules(domain.base_path, domain.servers), domain.offered)
        self._call_timeout = call_timeout

    def make_world(self, task: Task) -> World:
        return self._make(self._call_timeout)

    def _make(self, timeout: float) -> World:
        raise NotImplementedError

    def offered_name(self, name: str) -> str | None:
        return self.domain.offered(name)

    async def check(self) -> list[str]:
        """Open a world and close it again: nothing less shows that an attempt could."""
        where = f"{self.domain.base_path / 'mcp_servers'}: {self.domain.name} cannot be opened"
        world = self._make(OPENING_TIMEOUT)
        try:
            await world.open(Task("check"), 0)
        except RolloutError as error:
            return [f"{where}: {error}"]
        except Exception as error:  # noqa: BLE001 - a server's code may raise anything
            return [f"{where}: {describe_error(error)}"]
        finally:
            await world.close()
        return []


class OpenMocks(OpenDomain):
    """A domain whose servers run in this process: for code that is trusted."""

    def __init__(self, domain: Domain, call_timeout: float) -> None:
        super().__init__(domain, call_timeout)
        self._servers = ServersInProcess(domain)

    def _make(self, timeout: float) -> World:
        return MockWorld(self._servers, timeout)


class OpenWorkers(OpenDomain):
    """A domain whose servers run in worker processes."""

    def __init__(self, domain: Domain, call_timeout: float, pool: WorkerPool) -> None:
        super().__init__(domain, call_timeout)
        self._pool = pool
        self._number = pool.add(domain)

    def _make(self, timeout: float) -> World:
        return WorkerWorld(self._pool, self.domain, self._number, timeout)

    async def check(self) -> list[str]:
        problem = await self._pool.problem(self._number)
        return [problem] if problem is not None else await super().check()


def shipped_base(domain: str) -> Path:
    """The folder of the shipped examples that has a domain, single or fused."""
    servers = split_fused(domain, known_servers(SHIPPED / "single_domain")) or []
    return SHIPPED / ("cross_domain" if len(servers) > 1 else "single_domain")
