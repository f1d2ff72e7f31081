"""Where a dataset's tasks and tools come from: a domain, MCP servers, functions, a suite.

What is wrong with them is found here, before an episode starts, with the key and the file.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Awaitable, Callable
from pathlib import Path

from rollout.config.browsing import WebSettings
from rollout.config.schema import Dataset
from rollout.core.errors import ConfigError
from rollout.core.messages import NO_TOOLS, Toolset
from rollout.core.world import World
from rollout.environments.domains.domain import SHIPPED, Domain, load_domain
from rollout.environments.domains.mock import MockServers, MockWorld
from rollout.environments.domains.workers import WorkerWorld
from rollout.environments.empty import EmptyWorld
from rollout.environments.functions import FunctionWorld, import_function, spec_of
from rollout.environments.suites.find import load_suite
from rollout.environments.suites.suite import NeedsBrowsers, Suite
from rollout.environments.web.actions import toolset_of
from rollout.environments.web.rates import WebRates
from rollout.environments.web.sites import load_sites
from rollout.environments.web.world import BrowserWorld
from rollout.pipelines.pools import Pools
from rollout.tasks.discovery import find_queries, known_servers
from rollout.tasks.jsonl import TaskFile
from rollout.tasks.naming import split_fused
from rollout.tasks.source import Tasks
from rollout.trajectories.measure import MakeMeasure


async def _nothing_to_close() -> None:
    """For tools that hold nothing beyond a world."""


@dataclasses.dataclass(frozen=True, slots=True)
class DatasetTools:
    """Where a dataset's tools come from."""

    toolset: Toolset
    domain: Domain | None
    make_world: Callable[[float], World]
    offered: Callable[[str], str | None] | None = None
    """The offered name of a reference action's tool, where somebody knows it."""
    close: Callable[[], Awaitable[None]] = _nothing_to_close
    """Lets go of what all worlds share, at the end of the run."""
    suite: Suite | None = None
    measures: tuple[MakeMeasure, ...] = ()
    """What of their trajectories is measured besides."""


def load_tools(name: str, dataset: Dataset, pools: Pools | None = None) -> DatasetTools:
    """The tools that a dataset names: a suite's, a browser's, a domain's, those of MCP servers, functions, or none.
    Without `pools` a domain runs in this process."""
    pools = pools or Pools()
    if dataset.suite is not None:
        suite = load_suite(name, dataset)
        tools = DatasetTools(suite.toolset, None, suite.make_world, suite=suite)
        if isinstance(suite, NeedsBrowsers):
            close = suite.use_browsers(pools.browsers)
            return dataclasses.replace(tools, close=close, measures=(WebRates,))
        return tools
    if dataset.web is not None:
        return _load_web(name, dataset, dataset.web, pools)
    if dataset.mcp_domain is None and dataset.policy is not None:
        raise ConfigError(
            f"datasets.{name}.policy: belongs to a domain, and there is no mcp_domain; use agent.system_prompt_file"
        )
    if dataset.mcpServers and (dataset.mcp_domain is not None or dataset.tools):
        raise ConfigError(
            f"datasets.{name}.mcpServers: stands instead of mcp_domain and tools, not beside them; "
            "`rollout serve-domain` makes an MCP server of a domain"
        )
    if dataset.mcp_domain is not None:
        base = dataset.base_path or _shipped(dataset.mcp_domain)
        domain = load_domain(base, dataset.mcp_domain, dataset.tools, dataset.policy)
        make_world: Callable[[float], World]
        if pools.workers is not None:
            make_world = functools.partial(WorkerWorld, pools.workers, domain, pools.workers.add(domain))
        else:
            make_world = functools.partial(MockWorld, MockServers(domain))
        pools.domains.append((domain, make_world))
        return DatasetTools(domain.toolset, domain, make_world, domain.offered)
    if dataset.mcpServers:
        return _load_mcp_servers(name, dataset)
    for reference in dataset.tools:
        if ":" not in reference:
            raise ConfigError(
                f"datasets.{name}.tools: {reference!r} is neither module:function nor, without mcp_domain, a server; "
                f"set mcp_domain to use the servers of a domain"
            )
    names = [reference.partition(":")[2] for reference in dataset.tools]
    if len(set(names)) < len(names):
        raise ConfigError(f"datasets.{name}.tools: two functions have the same name; rename one: {', '.join(names)}")
    functions = {tool: import_function(reference) for tool, reference in zip(names, dataset.tools, strict=True)}
    toolset = Toolset(tuple(spec_of(function, tool) for tool, function in functions.items()))
    if not functions:
        return DatasetTools(NO_TOOLS, None, lambda timeout: EmptyWorld(NO_TOOLS))
    return DatasetTools(toolset, None, lambda timeout: FunctionWorld(functions, toolset, timeout))


def _load_web(name: str, dataset: Dataset, web: WebSettings, pools: Pools) -> DatasetTools:
    if dataset.mcp_domain is not None or dataset.tools or dataset.mcpServers:
        raise ConfigError(f"datasets.{name}.web: stands instead of mcp_domain, tools and mcpServers, not beside them")
    try:
        if pools.are_used:
            pools.browsers.check()
        sites = load_sites(web.sites)
    except ConfigError as error:
        raise ConfigError(f"datasets.{name}.web: {error}") from error
    return DatasetTools(
        toolset_of(web),
        None,
        lambda timeout: BrowserWorld(pools.browsers, web, sites),
        close=sites.close,
        measures=(WebRates,),
    )


def load_recorded_tools(name: str, dataset: Dataset, pools: Pools) -> DatasetTools:
    """The tools of a dataset whose runs are over. A browser's pages cannot be brought back by its calls, so its worlds
    are empty ones and no browser is needed."""
    if dataset.suite is None and dataset.web is not None:
        toolset = toolset_of(dataset.web)
        return DatasetTools(toolset, None, lambda timeout: EmptyWorld(toolset))
    return load_tools(name, dataset, pools)


def _load_mcp_servers(name: str, dataset: Dataset) -> DatasetTools:
    try:
        from rollout.environments.mcp.servers import load_servers
        from rollout.environments.mcp.world import McpWorld
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ConfigError(f"datasets.{name}.mcpServers: needs the extra: pip install 'rollout[mcp]'") from error
    servers = load_servers(name, dataset.mcpServers)
    return DatasetTools(
        servers.toolset, None, lambda timeout: McpWorld(servers, timeout), servers.offered, servers.close
    )


def open_tasks(name: str, dataset: Dataset, suite: Suite | None) -> Tasks:
    """A dataset's tasks."""
    return suite.tasks if suite is not None else TaskFile(*task_paths(name, dataset))


def task_paths(name: str, dataset: Dataset) -> list[Path]:
    """Where a dataset's tasks are."""
    if dataset.path:
        return dataset.path
    if dataset.mcp_domain is None:
        raise ConfigError(f"datasets.{name}.path: missing; expected a JSONL file of tasks")
    base = dataset.base_path or _shipped(dataset.mcp_domain)
    servers = split_fused(dataset.mcp_domain, known_servers(base)) or []
    return [find_queries(base, servers) or base / "queries" / f"{dataset.mcp_domain}.jsonl"]


def _shipped(domain: str) -> Path:
    """The folder of the shipped examples that has a domain, single or fused."""
    servers = split_fused(domain, known_servers(SHIPPED / "single_domain")) or []
    return SHIPPED / ("cross_domain" if len(servers) > 1 else "single_domain")
