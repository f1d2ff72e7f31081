"""The run file (`run.json`): configuration, tasks, and every start of a run with its host and versions.

It is written for people and for later commands; the journal is the source of truth. So an unreadable run file is an
error only for commands that have nothing else to use (`read_run_file`), and a warning for all others
(`recorded_part`).
"""

from __future__ import annotations

import contextlib
import logging
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.extras import DISTRIBUTION
from rollout.core.messages import JSON
from rollout.core.secrets import redact
from rollout.store.blobs import write_atomic
from rollout.store.damage import DATA_ERRORS
from rollout.store.run_dir import RUN_FILE

log = logging.getLogger(__name__)
T = TypeVar("T")
PACKAGES = (
    DISTRIBUTION,
    "aiohttp",
    "msgspec",
    "pydantic",
    "uvloop",
    "litellm",
    "mcp",
    "xllamacpp",
    "playwright",
    "ray",
)
"""The packages whose versions are recorded."""


class RecordedTasks(msgspec.Struct, frozen=True):
    """The tasks of a dataset, as the run file describes them."""

    tasks: Sequence[str]
    """The files that they come from."""
    fingerprint: str


class RunStart(msgspec.Struct, frozen=True):
    """One start of a run: when, where, and with which software."""

    at: str
    host: str
    python: str
    command: Sequence[str]
    versions: Mapping[str, str]
    git: str | None
    """The commit of the working directory."""


def write_run_file(
    run_dir: Path,
    *,
    seed: int,
    datasets: Mapping[str, RecordedTasks],
    config: JSON,
    modules: Sequence[str],
    folder: str | None,
) -> None:
    """Write the run file, and add this start to those of earlier commands. `config` has its secrets left out;
    `modules` are the folders in which plugins were found, `folder` is the one in which the run was started."""
    starts = recorded_part(run_dir, "starts", list[Any]) or []
    document = {
        # Tells a run that was moved aside later from one that was begun under its name.
        "run_dir": str(run_dir.resolve()),
        # Relative paths of the configuration begin here.
        "folder": folder,
        "seed": seed,
        "datasets": datasets,
        "config": config,
        "modules": modules,
        "starts": [*starts, _this_start()],
    }
    # Secrets that a person put into an address or a free field are masked here.
    text = redact(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    write_atomic(run_dir / RUN_FILE, text.encode(), is_private=True)


def _this_start() -> RunStart:
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return RunStart(
        at=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        host=socket.gethostname(),
        python=platform.python_version(),
        command=sys.argv,
        versions=versions,
        git=_git_commit(),
    )


def _git_commit() -> str | None:
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def read_run_file(run_dir: Path) -> JSON:
    """The run file of a run directory. Raises ConfigError if it cannot be read."""
    path = run_dir / RUN_FILE
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: is not a file")
    try:
        return msgspec.json.decode(path.read_bytes(), type=JSON)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror or error}; is {run_dir} a run directory?"
        ) from error
    except DATA_ERRORS as error:
        raise ConfigError(f"{path}: is damaged: {error}") from error


def recorded_part(run_dir: Path, key: str, kind: type[T]) -> T | None:
    """One part of the run file; None if it is missing, and None with a warning if it is damaged."""
    path = run_dir / RUN_FILE
    if not path.exists():
        return None
    try:
        part = read_run_file(run_dir).get(key)
        return None if part is None else msgspec.convert(part, kind)
    except ConfigError as error:
        log.warning("%s; its section %r is ignored", error, key)
    except DATA_ERRORS as error:
        log.warning("%s: the section %r is damaged and ignored: %s", path, key, error)
    return None
