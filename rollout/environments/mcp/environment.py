"""Real MCP servers as an environment (`mcpServers`)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rollout.config.schema import Dataset
from rollout.config.servers import McpServer
from rollout.core.errors import ConfigError
from rollout.core.extras import missing_extra
from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.environment import FileEnvironment, OpenEnvironment, Traits
from rollout.environments.resources import Resources
from rollout.scoring.rules import RuleBook

if TYPE_CHECKING:
    from rollout.environments.mcp.servers import McpServers


class McpEnvironment(FileEnvironment):
    """The tools of MCP servers. They have no state that could be compared, so attempts are scored by what they did."""

    traits = Traits(are_tools_found=True)
    rescoring = "trajectory"

    def __init__(self, name: str, servers: Mapping[str, McpServer], path: Sequence[Path]) -> None:
        super().__init__(name, path)
        self._servers = servers

    @classmethod
    def from_dataset(cls, name: str, dataset: Dataset) -> McpEnvironment:
        """The environment that a dataset's `mcpServers` describe."""
        if dataset.mcp_domain is not None or dataset.tools:
            raise ConfigError(
                f"datasets.{name}.mcpServers: replaces mcp_domain and tools; leave these out, or "
                "serve the domain as an MCP server, too (`rollout serve-domain`)"
            )
        return cls(name, dataset.mcpServers, dataset.path)

    @contextlib.asynccontextmanager
    async def open(self, resources: Resources, *, makes_worlds: bool = True) -> AsyncIterator[OpenEnvironment]:
        try:
            from rollout.environments.mcp.servers import load_servers
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
                raise
            raise missing_extra(f"datasets.{self.name}.mcpServers", "mcp") from error
        servers = load_servers(self.name, self._servers)
        try:
            yield OpenServers(servers, resources.call_timeout)
        finally:
            await servers.close()


class OpenServers(OpenEnvironment):
    """MCP servers in use."""

    def __init__(self, servers: McpServers, call_timeout: float) -> None:
        super().__init__(servers.toolset)
        self.rules = RuleBook(offered=servers.offered)
        self._servers = servers
        self._call_timeout = call_timeout

    def make_world(self, task: Task) -> World:
        from rollout.environments.mcp.world import McpWorld

        return McpWorld(self._servers, self._call_timeout)

    def offered_name(self, name: str) -> str | None:
        return self._servers.offered(name)
