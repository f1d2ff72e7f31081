"""Reading the run file (`run.json`): what ran, on what, with what.

It is there for people and for later commands; the journal is the one truth. So a run file that cannot be read is an
error only where a command has nothing else to go by (`read_run_file`), and otherwise a warning (`recorded_part`).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TypeVar

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.store.damage import DATA_ERRORS

log = logging.getLogger(__name__)
T = TypeVar("T")


def read_run_file(run_dir: Path) -> JSON:
    """The run file of a run directory."""
    path = run_dir / "run.json"
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
    """One part of the run file; None, with a warning, where it is damaged, and None where it is not there."""
    path = run_dir / "run.json"
    if not path.exists():
        return None
    try:
        part = read_run_file(run_dir).get(key)
        return None if part is None else msgspec.convert(part, kind)
    except ConfigError as error:
        log.warning("%s; what it says of %s is left out", error, key)
    except DATA_ERRORS as error:
        log.warning("%s: %s is damaged and left out: %s", path, key, error)
    return None
