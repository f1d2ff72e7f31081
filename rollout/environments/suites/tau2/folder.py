"""Loading a domain from a clone of tau2-bench that the user points at. Nothing of it is shipped.

Only the modules of the domain and what they import are loaded. The package's own `__init__` is stepped round: it would
import every agent, every model client and the voice parts. What loading puts into the process's environment (the
package reads a `.env` file of its own accord) is taken out again.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollout.core.errors import ConfigError, describe_error
from rollout.core.extras import install_command
from rollout.environments.domains.stand_ins import make_deterministic

PACKAGE = "tau2"


class DomainCode:
    """The modules of one domain."""

    def __init__(self, folder: Path, domain: str) -> None:
        self.folder = folder
        self.domain = domain
        package = folder / "src" / PACKAGE
        domains = package / "domains"
        if not domains.is_dir():
            raise ConfigError(f"suite_params.path: {folder} is no clone of tau2-bench (no src/{PACKAGE}/domains in it)")
        known = sorted(path.parent.name for path in domains.glob("*/environment.py"))
        if domain not in known:
            raise ConfigError(f"suite_params.domain: there is no {domain!r} in {domains}; known: {', '.join(known)}")
        with _as_if_alone(folder):
            _register(package)
            self._environment = _import(f"{PACKAGE}.domains.{domain}.environment")
            self._base = _import(f"{PACKAGE}.environment.environment")
            self.messages = _import(f"{PACKAGE}.data_model.message")
        for part in ("tools", "user_tools"):
            module = sys.modules.get(f"{PACKAGE}.domains.{domain}.{part}")
            if module is not None:
                make_deterministic(module)
        self._takes = set(inspect.signature(self._environment.get_environment).parameters)

    def make_environment(self, **databases: Any) -> Any:
        """A fresh environment. `db` and `user_db` are used instead of the files, where the domain has them."""
        try:
            return self._environment.get_environment(**{k: v for k, v in databases.items() if k in self._takes})
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"suite_params.domain: {self.domain} cannot be opened: {error}") from error

    def keeps_in_step(self, environment: Any) -> bool:
        """Whether an environment carries changes from one side to the other."""
        return type(environment).sync_tools is not self._base.Environment.sync_tools

    def read_tasks(self, split: str | None) -> list[Any]:
        """The tasks of a split; without one, what the domain itself takes by default."""
        try:
            tasks: list[Any] = (
                self._environment.get_tasks(split) if split is not None else self._environment.get_tasks()
            )
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"suite_params.split: the tasks of {self.domain} cannot be read: {error}") from error
        return tasks

    def guidelines(self, *, with_tools: bool) -> str | None:
        """What tau2 tells its simulated users, where the folder holds it."""
        name = f"simulation_guidelines{'_tools' if with_tools else ''}.md"
        path = self.folder / "data" / PACKAGE / "user_simulator" / name
        return path.read_text(encoding="utf-8") if path.is_file() else None


def _register(package: Path) -> None:
    """Make the package importable without running its `__init__`."""
    known = sys.modules.get(PACKAGE)
    if known is None:
        module = types.ModuleType(PACKAGE)
        module.__path__ = [str(package)]
        sys.modules[PACKAGE] = module
    elif str(package) not in [str(Path(place).resolve()) for place in known.__path__]:
        raise ConfigError(
            f"suite_params.path: {PACKAGE} was already loaded from {next(iter(known.__path__), 'elsewhere')}; one "
            "process can use one clone"
        )


def _import(name: str) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.partition(".")[0] == PACKAGE:
            raise ConfigError(f"suite_params.path: {missing} is not in this clone of tau2-bench") from error
        raise ConfigError(f"{name} needs {missing}: {install_command('suites')}, or pip install {missing}") from error
    except Exception as error:
        raise ConfigError(f"{name} cannot be loaded: {describe_error(error)}") from error


@contextlib.contextmanager
def _as_if_alone(folder: Path) -> Iterator[None]:
    """With the folder's own data, without its chatter, and with our environment as it was."""
    with contextlib.suppress(ModuleNotFoundError):
        from loguru import logger

        logger.disable(PACKAGE)
    before = dict(os.environ)
    os.environ["TAU2_DATA_DIR"] = str(folder / "data")
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)
