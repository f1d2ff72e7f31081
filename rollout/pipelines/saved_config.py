"""The configuration that a run was made with, as its run file (`run.json`) has it.

Keys are not in it. Relative paths are those of the folder in which the run was started, where that is on record and
they still lead somewhere. The folders in which the run found its plugins are looked in as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel, SecretStr

from rollout.config.schema import Config
from rollout.config.servers import McpServer
from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.core.plugins import look_in
from rollout.core.secrets import MASK
from rollout.store.damage import DATA_ERRORS
from rollout.store.files.run_file import read_run_file
from rollout.store.run_dir import RUN_FILE

HIDDEN = "**********"
"""Replaces a secret in a saved configuration."""
M = TypeVar("M", bound=BaseModel)


def saved_config(run_dir: Path) -> Config:
    """The configuration that a run was made with. Keys are not in it: they come from the environment."""
    path = run_dir / RUN_FILE
    saved = read_run_file(run_dir)
    try:
        config = Config.model_validate(_without_hidden(saved["config"]))
        modules = msgspec.convert(saved.get("modules") or [], list[str])
        folder = msgspec.convert(saved.get("folder"), str | None)
    except DATA_ERRORS as error:
        raise ConfigError(f"{path}: is not a run's configuration: {error}; give it by --config") from error
    for each in map(Path, (*modules, *([folder] if folder is not None else []))):
        look_in(each)
    return config if folder is None else _from_folder(config, Path(folder))


def masked_servers(run_dir: Path, dataset: str) -> list[str]:
    """The MCP servers of a dataset of which the run file holds only masked values of `env` or `headers`."""
    config = read_run_file(run_dir).get("config")
    datasets = config.get("datasets") if isinstance(config, dict) else None
    section = datasets.get(dataset) if isinstance(datasets, dict) else None
    servers = section.get("mcpServers") if isinstance(section, dict) else None
    if not isinstance(servers, dict):
        return []
    return [
        name
        for name, server in servers.items()
        if isinstance(server, dict)
        and not server.get("disabled")
        and any(_is_masked(value) for key in ("env", "headers") for value in (server.get(key) or {}).values())
    ]


def _is_masked(value: Any) -> bool:
    return isinstance(value, str) and (value == HIDDEN or MASK in value)


def _without_hidden(value: Any) -> Any:
    """A saved configuration without what was masked in it."""
    if isinstance(value, dict):
        return {name: _without_hidden(inner) for name, inner in value.items() if not _is_masked(inner)}
    return [_without_hidden(inner) for inner in value] if isinstance(value, list) else value


def _from_folder(section: M, folder: Path) -> M:
    """A section with its relative paths as they were meant in a folder."""
    changed: JSON = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if (meant := _meant(value, folder)) is not value:
            changed[name] = meant
    if isinstance(section, McpServer) and section.command is not None and section.workdir is None:
        cwd = folder / (section.cwd or "")
        changed |= {"cwd": str(cwd)} if cwd.is_dir() else {}
    return section.model_copy(update=changed) if changed else section


def _meant(value: Any, folder: Path) -> Any:
    if isinstance(value, Path):
        found = folder / value
        return found if not value.is_absolute() and found.exists() else value
    if isinstance(value, SecretStr):
        return value
    if isinstance(value, BaseModel):
        return _from_folder(value, folder)
    if isinstance(value, dict):
        made = {name: _meant(inner, folder) for name, inner in value.items()}
        return made if any(made[name] is not inner for name, inner in value.items()) else value
    if isinstance(value, list):
        listed = [_meant(inner, folder) for inner in value]
        return listed if any(new is not old for new, old in zip(listed, value, strict=True)) else value
    return value
