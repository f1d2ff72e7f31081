"""The arguments of `rollout.run` and `rollout.stream`, read as a configuration.

Keyword arguments are the keys of a dataset, and `config` has the top-level keys, so everything that a file can say can
be said here with the same names and meanings. Where a file names an object (`module:Name`), an argument may be the
object itself: it is offered to the plug-ins and replaced by its reference. So one configuration, one check and one
record serve both.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel, SecretStr

from rollout.config.exploring import StrategyChoice
from rollout.config.load import complete_config, load_config, validate
from rollout.config.models import AgentConfig, UserConfig
from rollout.config.schema import Config, Dataset
from rollout.core.errors import ConfigError
from rollout.core.plugins import Offers, is_importing, offering
from rollout.engine.engine import CONSUMER_LEFT
from rollout.environments.environment import Environment
from rollout.pipelines.run import Opened, run_dir_of
from rollout.pipelines.wiring.discover import with_discovered
from rollout.store.connection import is_begun
from rollout.store.files.run_file import recorded_part
from rollout.store.run_dir import FAILED
from rollout.terminal.console import SafeConsole
from rollout.terminal.log_lines import logging_to
from rollout.terminal.shown_run import open_shown_run

log = logging.getLogger(__name__)
What = Environment | str | os.PathLike[str] | Sequence[Any] | Mapping[str, Any] | None
"""What to roll out: an environment, several, the path of a configuration file, or nothing where keys name it."""
_PLAIN = (str, int, float, bool, bytes, Path, SecretStr, BaseModel, type(None))
_NAMING = ("mcp_domain", "suite", "mcpServers", "web", "tools", "path")
"""Keys that can say what to roll out where no environment is given."""


class Arguments(msgspec.Struct, frozen=True):
    """What a call asks for."""

    config: Config
    """With `run_dir` set."""
    resume: bool
    objects: Offers
    """The objects that the configuration names."""
    is_temporary: bool
    """Whether the run directory was made for this call."""

    @property
    def run_dir(self) -> Path:
        assert self.config.run_dir is not None
        return self.config.run_dir


def read_arguments(
    what: What,
    *,
    model: Any = None,
    agent: Any = None,
    user: Any = None,
    run_dir: str | os.PathLike[str] | None = None,
    resume: bool | None = None,
    config: Mapping[str, Any] | None = None,
    keys: Mapping[str, Any],
) -> Arguments:
    """The configuration of a call. Raises ConfigError that names every argument that is wrong."""
    if is_importing():
        raise ConfigError(
            "a run was started while its module was imported for an object in it; put the call below "
            'if __name__ == "__main__":'
        )
    if config is not None and not isinstance(config, Mapping):
        raise ConfigError(f"config: expected a dict of top-level keys, got {config!r}")
    if run_dir is not None and (not isinstance(run_dir, str | os.PathLike) or not str(run_dir)):
        raise ConfigError(f"run_dir: expected the path of a folder, got {run_dir!r}")
    if resume is not None and not isinstance(resume, bool):
        raise ConfigError(f"resume: expected True or False, got {resume!r}")
    if "datasets" in (config or {}):
        raise ConfigError("config: datasets: leave out; the environments that are given are the datasets")
    objects = Offers()
    wanted = _dataset_keys(model, agent, user, keys, objects)
    file = _config_file(what)
    top = {key: name_objects(value, objects) for key, value in (config or {}).items()}
    if file is not None:
        base = with_discovered(load_config(file))
        raw = {**base.model_dump(exclude_unset=True, exclude={"datasets"}), **top}
        raw["datasets"] = {
            name: _merged(dataset.model_dump(exclude_unset=True), wanted) for name, dataset in base.datasets.items()
        }
        where = f"{file} with arguments"
        default_dir: Path | None = run_dir_of(base, file)
    else:
        if not {"model", "program"} & set(wanted.get("agent", ())):
            raise ConfigError("model: missing; expected the name of a model, a Model, or an async function")
        raw = {
            **top,
            "datasets": {name: _merged(named, wanted) for name, named in _named(what, wanted, objects).items()},
        }
        where, default_dir = "arguments", None
    if not raw["datasets"]:
        raise ConfigError(f"{where}: there is nothing to roll out; expected an environment, or a file with datasets")
    place = run_dir or top.get("run_dir") or default_dir
    is_temporary = place is None
    with contextlib.ExitStack() as refused:
        if place is None:
            place = tempfile.mkdtemp(prefix="rollout-")
            refused.callback(os.rmdir, place)
        folder = raw["run_dir"] = Path(place)
        if file is None or run_dir is not None:
            begun = _begun_elsewhere(folder) if file is not None and resume is not False else frozenset()
            for name, dataset in raw["datasets"].items():
                # Beside the journal: two runs in different folders never write the same file.
                if name not in begun:
                    dataset.setdefault("output_path", folder / "outputs" / f"{name}.jsonl")
        with offering(objects):
            made = complete_config(validate(raw, Config, where), where)
        refused.pop_all()
    return Arguments(made, made.resume if resume is None else resume, objects, is_temporary)


@contextlib.asynccontextmanager
async def open_arguments(arguments: Arguments, progress: bool) -> AsyncIterator[Opened]:
    """The run that a call asks for, ready, with its progress on the console where that is wanted. Warns at the end of
    attempts that are left."""
    config = arguments.config
    async with contextlib.AsyncExitStack() as held:
        if config.log_file is not None:
            held.enter_context(logging_to(config.log_file, config.log_level))
        with offering(arguments.objects):
            run = open_shown_run(
                config,
                arguments.run_dir,
                resume=arguments.resume,
                warn=log.warning,
                console=SafeConsole(stderr=True) if progress else None,
                is_called=True,
            )
            try:
                opened = await held.enter_async_context(run)
            except BaseException:
                if arguments.is_temporary:
                    with contextlib.suppress(OSError):
                        os.rmdir(arguments.run_dir)  # Only where nothing was recorded.
                raise
        yield opened
    if opened.engine.control.reason != CONSUMER_LEFT:
        warn_of_rest(opened)


def warn_of_rest(opened: Opened) -> None:
    """Report what a caller must not overlook: attempts that failed, and attempts that are left."""
    assert opened.summary is not None
    total = opened.summary.total
    if total.failed:
        log.warning("failed attempts: %d; causes in %s", total.failed, opened.run_dir / FAILED)
    if total.unfinished:
        reason = opened.engine.control.reason or "some could not be run"
        log.warning("unfinished attempts: %d (%s); the same call goes on with them", total.unfinished, reason)


def _begun_elsewhere(run_dir: Path) -> frozenset[str]:
    """The datasets of a run whose outputs do not lie beside its journal: earlier versions had the command's default."""
    config = (recorded_part(run_dir, "config", dict[str, Any]) if is_begun(run_dir) else None) or {}
    datasets = config.get("datasets")
    recorded = datasets.items() if isinstance(datasets, dict) else ()
    return frozenset(name for name, one in recorded if isinstance(one, dict) and one.get("output_path") is None)


def name_objects(value: Any, objects: Offers) -> Any:
    """A value in which every object that no file could hold is replaced by a reference to it."""
    if isinstance(value, Mapping):
        return {key: name_objects(inner, objects) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [name_objects(inner, objects) for inner in value]
    return value if isinstance(value, _PLAIN) else objects.add(value)


def _dataset_keys(model: Any, agent: Any, user: Any, keys: Mapping[str, Any], objects: Offers) -> dict[str, Any]:
    known = Dataset.model_fields
    wanted = {key: name_objects(value, objects) for key, value in keys.items() if key != "strategy"}
    if "strategy" in keys:
        chosen = keys["strategy"]
        is_written = isinstance(chosen, str | Mapping | StrategyChoice)
        wanted["strategy"] = name_objects(chosen, objects) if is_written else {"name": objects.add(chosen)}
    if agent is not None:
        if isinstance(agent, str):
            agent = {"model": agent}
        elif isinstance(agent, AgentConfig):
            agent = agent.model_dump(exclude_unset=True)
        is_written = isinstance(agent, Mapping)
        wanted["agent"] = name_objects(agent, objects) if is_written else {"program": objects.add(agent)}
    if model is not None:
        if "model" in wanted.get("agent", {}):
            raise ConfigError("model: is short for agent={'model': …}, and agent has a model already; leave one out")
        wanted["agent"] = {**wanted.get("agent", {}), "model": name_objects(model, objects)}
    if user is not None:
        is_written = isinstance(user, Mapping | UserConfig)
        wanted["user"] = name_objects(user if is_written else {"model": user}, objects)
    if unknown := sorted(set(wanted) - set(known)):
        top = [key for key in unknown if key in Config.model_fields]
        if top:
            raise ConfigError(f"{', '.join(top)}: belongs to the whole run; say config={{{top[0]!r}: …}}")
    return wanted


def _config_file(what: What) -> Path | None:
    """The configuration file that is meant, if one is."""
    if isinstance(what, os.PathLike):
        return Path(what)
    if isinstance(what, str) and (what.endswith((".yml", ".yaml", ".json")) or Path(what).is_file()):
        return Path(what)
    return None


def _named(what: What, wanted: Mapping[str, Any], objects: Offers) -> dict[str, dict[str, Any]]:
    """The datasets that are meant, by name, each with the key of its environment."""
    if what is None:
        key = next((key for key in _NAMING if wanted.get(key) not in (None, [], {})), None)
        if key is None:
            raise ConfigError(
                f"expected an environment, the path of a configuration, or one of the keys {', '.join(_NAMING)}"
            )
        value = wanted[key]
        return {value if isinstance(value, str) and key in ("mcp_domain", "suite") else "rollouts": {}}
    if wanted.get("environment") is not None:
        raise ConfigError("environment: leave out; the first argument is the environment")
    if isinstance(what, Mapping):
        return {str(name): {"environment": _reference(one, objects)} for name, one in what.items()}
    if isinstance(what, Environment | str) or not isinstance(what, Sequence):
        what = [what]
    named: dict[str, dict[str, Any]] = {}
    for one in what:
        name = _name_of(one)
        if name in named:
            raise ConfigError(f"two environments are called {name!r}; give them names: Environment(…, name=…)")
        named[name] = {"environment": _reference(one, objects)}
    return named


def _name_of(one: Any) -> str:
    if isinstance(one, str):
        return one.rpartition(":")[2]
    return str(getattr(one, "name", "") or getattr(one, "__name__", "") or type(one).__name__)


def _reference(one: Any, objects: Offers) -> str:
    if isinstance(one, _PLAIN) and not isinstance(one, str):
        raise ConfigError(f"expected a rollout.Environment, or module:Name, got {one!r}")
    if isinstance(one, Environment):
        objects.update(one.objects)
    return one if isinstance(one, str) else objects.add(one)


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Keys over keys. Of agent and user only the keys that are given change."""
    merged = {**base, **more}
    for key in ("agent", "user", "scoring"):
        if isinstance(base.get(key), Mapping) and isinstance(more.get(key), Mapping):
            merged[key] = {**base[key], **more[key]}
    return merged
