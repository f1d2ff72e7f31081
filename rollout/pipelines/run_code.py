"""Keeps code that lies in a run directory from being executed: a run that was received from others is data.

A module could be reached by the folders that `run.json` names, by the working directory, or as `runs.received.module`
from the folder above. So imports themselves are checked, for as long as `no_code_of_runs` is active.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.store.run_dir import RUN_FILE


def is_in_run(place: Path) -> bool:
    """Whether a file or folder is a run directory, or inside of one."""
    resolved = place.resolve()
    return any((each / RUN_FILE).is_file() for each in (resolved, *resolved.parents))


@contextlib.contextmanager
def no_code_of_runs() -> Iterator[None]:
    """Import nothing from run directories inside the block."""
    finder = _GuardingFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def refuse_code_of_runs(config: Config) -> None:
    """Raise ConfigError where a mock domain that lies in a run directory would run unisolated."""
    for name, dataset in config.datasets.items():
        folder = dataset.base_path
        if config.mock_servers.isolation == "none" and folder is not None and is_in_run(folder):
            raise ConfigError(
                f"datasets.{name}.base_path: {folder} is inside of a run directory, so its servers may only run with "
                "mock_servers.isolation: process"
            )


class _GuardingFinder:
    """Finds modules as Python does, but none in a run directory."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module. Raises ImportError."""
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location else [])]
            for place in filter(None, places):
                if is_in_run(Path(place)):
                    raise ImportError(f"{place} is inside of a run directory, from which no code is imported")
        return spec
