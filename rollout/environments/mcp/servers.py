"""The MCP servers of one dataset: what all its episodes share.

The tools are asked for once, when the run is made ready, and stay what they are for the whole run: the agent sees
them beforehand, and a trajectory says exactly what it was told. With one server they keep their names; with several
each has its server's prefix. Each episode gets an instance of every server; one that is declared stateless has a
single instance, shared by all, from the first call until the run ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from mcp_types import Tool

from rollout.config.servers import McpServer
from rollout.core.errors import ConfigError, RolloutError
from rollout.core.messages import Toolset, ToolSpec
from rollout.core.secrets import mask
from rollout.environments.mcp.connection import McpLink, NotStarted, connect
from rollout.environments.mcp.http import HttpEndpoint
from rollout.environments.mcp.process import ServerProcess
from rollout.environments.mcp.slot import Slot
from rollout.environments.routes import Route, find_offered
from rollout.tasks.naming import MAX_TOOL_NAME, offered_name, prefixes

log = logging.getLogger(__name__)
STARTS_AT_ONCE = max(4, 2 * (os.cpu_count() or 1))
"""Servers that start at the same time; more would only make each other late."""


class EpisodePlace(msgspec.Struct, frozen=True):
    """What is an episode's own: what `{seed}`, `{task}` and `{workdir}` stand for."""

    seed: int
    task: str
    workdirs: Mapping[str, Path]
    """By server; only those that need one."""


class McpServers:
    """The servers of a dataset and the tools they offer. Worlds lease slots from here."""

    def __init__(self, settings: Mapping[str, McpServer], listed: Mapping[str, Sequence[Tool]]) -> None:
        self.settings = settings
        self.routes: dict[str, Route] = {}
        self.toolset = self._offer(listed)
        self._schemas = {name: {tool.name: tool.input_schema for tool in tools} for name, tools in listed.items()}
        self._told: set[str] = set()
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)
        self._shared: dict[str, Slot] = {}
        self._shared_place: EpisodePlace | None = None

    async def lease(self, task: str, seed: int) -> tuple[dict[str, Slot], EpisodePlace]:
        """A slot for each server: new ones, and those that all episodes share. The servers are starting."""
        place = await make_place(self._own_settings(is_shared=False), task, seed)
        slots = {}
        for name, settings in self.settings.items():
            slots[name] = await self._share(name, settings) if settings.stateless else self._slot(name, settings, place)
            slots[name].begin()
        return slots, place

    async def close(self) -> None:
        """Let go of the shared servers, at the end of the run."""
        for slot in self._shared.values():
            await slot.close()
        self._shared = {}
        if self._shared_place is not None:
            await remove_place(self._shared_place)
            self._shared_place = None

    def offered(self, name: str) -> str | None:
        """The offered name of a reference action's tool."""
        return find_offered(self.routes, name)

    def _own_settings(self, *, is_shared: bool) -> dict[str, McpServer]:
        return {name: settings for name, settings in self.settings.items() if settings.stateless == is_shared}

    async def _share(self, name: str, settings: McpServer) -> Slot:
        if self._shared_place is None:
            self._shared_place = await make_place(self._own_settings(is_shared=True), "", 0)
        if name not in self._shared:
            self._shared[name] = self._slot(name, settings, self._shared_place)
        return self._shared[name]

    def _slot(self, name: str, settings: McpServer, place: EpisodePlace) -> Slot:
        return Slot(
            name,
            link_maker(name, settings, place),
            start_seconds=settings.start_timeout,
            starts=self._starts,
            is_shared=settings.stateless,
            on_start=lambda tools: self._compare(name, tools),
        )

    def _offer(self, listed: Mapping[str, Sequence[Tool]]) -> Toolset:
        short = prefixes(listed) if len(listed) > 1 else {}
        specs = []
        for server, tools in listed.items():
            for tool in choose_tools(self.settings[server], tools):
                name = _free_name(offered_name(short.get(server), mask(tool.name)), self.routes)
                self.routes[name] = Route(server, tool.name)
                specs.append(_spec_of(name, tool))
        return Toolset(tuple(specs))

    def _compare(self, name: str, tools: Sequence[Tool]) -> None:
        """Warn once if an instance does not offer the tools that the agents were given."""
        now = {tool.name: tool.input_schema for tool in tools}
        planned = {route.tool for route in self.routes.values() if route.server == name}
        gone = sorted(planned - now.keys())
        changed = sorted(tool for tool in planned & now.keys() if now[tool] != self._schemas[name][tool])
        if (gone or changed) and name not in self._told:
            self._told.add(name)
            log.warning(
                "MCP server %r offers other tools than when the run began (gone: %s; changed: %s); agents are still "
                "told what they were told then",
                name,
                ", ".join(gone) or "none",
                ", ".join(changed) or "none",
            )


def load_servers(dataset: str, servers: Mapping[str, McpServer]) -> McpServers:
    """Start each server once, learn its tools, stop it. Raises ConfigError that names each server that did not start.

    Blocks until that is done, in a thread with a loop of its own, so that it can be called with or without a loop.
    """
    settings = {name: entry for name, entry in servers.items() if not entry.disabled}
    if not settings:
        raise ConfigError(f"datasets.{dataset}.mcpServers: all of them are disabled")
    for name, entry in settings.items():
        if entry.workdir is not None and not entry.workdir.is_dir():
            raise ConfigError(f"datasets.{dataset}.mcpServers.{name}.workdir: {entry.workdir} is not a folder")
    outcome: list[dict[str, tuple[Tool, ...] | NotStarted] | BaseException] = []

    def run() -> None:
        try:
            outcome.append(asyncio.run(_list_all(settings)))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            outcome.append(error)

    thread = threading.Thread(target=run, name="rollout-mcp-tools")
    thread.start()
    thread.join()
    (found,) = outcome
    if isinstance(found, BaseException):
        raise found
    problems = []
    listed = {}
    for name, tools in found.items():
        where = f"datasets.{dataset}.mcpServers.{name}"
        if isinstance(tools, NotStarted):
            words = "".join(f"\n    {line}" for line in tools.last_words.splitlines())
            problems.append(f"{where}: the server {tools}" + (f"; it said:{words}" if words else ""))
            continue
        listed[name] = tools
        known = {tool.name for tool in tools}
        for key, wanted in (
            ("include_tools", settings[name].include_tools),
            ("exclude_tools", settings[name].exclude_tools),
        ):
            missing = [tool for tool in wanted if tool not in known]
            if missing:
                there = ", ".join(sorted(known)) or "none"
                problems.append(f"{where}.{key}: no tool {', '.join(map(repr, missing))}; there are: {there}")
    if problems:
        raise ConfigError("\n".join(problems))
    return McpServers(settings, listed)


async def _list_all(settings: Mapping[str, McpServer]) -> dict[str, tuple[Tool, ...] | NotStarted]:
    place = await make_place(settings, "", 0)
    gate = asyncio.Semaphore(STARTS_AT_ONCE)

    async def list_one(name: str, entry: McpServer) -> tuple[Tool, ...] | NotStarted:
        try:
            async with gate:
                connection = await connect(link_maker(name, entry, place), entry.start_timeout)
                await connection.close()
        except NotStarted as error:
            return error
        return connection.tools

    try:
        async with asyncio.TaskGroup() as group:
            tasks = {name: group.create_task(list_one(name, entry)) for name, entry in settings.items()}
    finally:
        await remove_place(place)
    return {name: task.result() for name, task in tasks.items()}


def choose_tools(settings: McpServer, tools: Sequence[Tool]) -> list[Tool]:
    """Those that are offered, in the server's order. A name that is listed twice means its first tool."""
    unique = {tool.name: tool for tool in reversed(tools)}
    wanted = set(settings.include_tools or unique) - set(settings.exclude_tools)
    return [tool for tool in reversed(unique.values()) if tool.name in wanted]


def _spec_of(name: str, tool: Tool) -> ToolSpec:
    """The tool as it is offered. A server may write its own credentials into a description or a default."""
    hints = tool.annotations
    reads_only = None if hints is None else hints.read_only_hint
    return ToolSpec(
        name=name,
        description=mask(tool.description or tool.title or ""),
        parameters={"type": "object", "properties": {}, **_masked(tool.input_schema)},
        is_write=None if reads_only is None else not reads_only,
    )


def _masked(value: Any) -> Any:
    """A JSON value whose texts and keys hold no secret."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [_masked(each) for each in value]
    return {mask(key): _masked(each) for key, each in value.items()} if isinstance(value, dict) else value


def _free_name(name: str, taken: Mapping[str, Route]) -> str:
    """The name, or the next one that is free: two names may be the same once they are made legal or cut."""
    number = 2
    free = name
    while free in taken:
        ending = f"_{number}"
        free = name[: MAX_TOOL_NAME - len(ending)] + ending
        number += 1
    return free


# ---- what is an episode's own -----------------------------------------------------------------------------------


async def make_place(settings: Mapping[str, McpServer], task: str, seed: int) -> EpisodePlace:
    """Make the folders that these servers need for one episode."""
    wanted = {name: entry.workdir for name, entry in settings.items() if entry.workdir or _names_workdir(entry)}
    if not wanted:
        return EpisodePlace(seed, task, {})
    return EpisodePlace(seed, task, await asyncio.to_thread(_copy_workdirs, wanted))


async def remove_place(place: EpisodePlace) -> None:
    """Remove the folders of an episode that is over."""
    for folder in {workdir.parent for workdir in place.workdirs.values()}:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _copy_workdirs(wanted: Mapping[str, Path | None]) -> dict[str, Path]:
    made: dict[str, Path] = {}
    for name, source in wanted.items():
        folder = Path(tempfile.mkdtemp(prefix="rollout-mcp-"))
        made[name] = folder / (source.name if source is not None else "work")
        try:
            if source is not None:
                shutil.copytree(source, made[name], symlinks=True)
            else:
                made[name].mkdir()
        except OSError as error:
            for path in made.values():
                shutil.rmtree(path.parent, ignore_errors=True)
            raise ConfigError(f"mcpServers.{name}.workdir: {source}: cannot be copied: {error}") from error
    return made


def _names_workdir(entry: McpServer) -> bool:
    secrets = (*entry.env.values(), *entry.headers.values())
    texts = (*entry.args, entry.cwd or "", *(secret.get_secret_value() for secret in secrets))
    return any("{workdir}" in text for text in texts)


def link_maker(name: str, entry: McpServer, place: EpisodePlace) -> Callable[[], McpLink]:
    """How this server is reached in this episode."""
    workdir = place.workdirs.get(name)

    def fill(text: str) -> str:
        for token, value in (("{seed}", str(place.seed)), ("{task}", place.task), ("{workdir}", str(workdir or ""))):
            text = text.replace(token, value)
        return text

    if entry.url is not None:
        url = fill(entry.url)
        headers = {key: fill(value.get_secret_value()) for key, value in entry.headers.items()}
        return lambda: HttpEndpoint(url, headers)
    command = entry.command
    if command is None:
        raise RolloutError(f"mcpServers.{name}: neither command nor url")
    args = [fill(argument) for argument in entry.args]
    env = {key: fill(value.get_secret_value()) for key, value in entry.env.items()}
    cwd = Path(fill(entry.cwd)) if entry.cwd is not None else workdir
    return lambda: ServerProcess(command, args, env, cwd)
