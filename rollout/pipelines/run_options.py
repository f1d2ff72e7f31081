"""Changes that a command makes to a configuration: the options that `run`, `check` and `compare` share.

Each option replaces a key of the file for one command. Keys that an option has no word for are set with `--set`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rollout.config.cluster import Cluster
from rollout.config.load import load_config
from rollout.config.models import AgentConfig, UserConfig
from rollout.config.schema import Config, Dataset
from rollout.core.errors import ConfigError
from rollout.core.spelling import suggest
from rollout.pipelines.run import run_dir_of
from rollout.pipelines.wiring.datasets import with_other_strategy
from rollout.pipelines.wiring.discover import with_discovered

BUILTIN_USER = "builtin/user"


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one command. None leaves a key as the file has it."""

    datasets: tuple[str, ...] = ()
    """Only these; all where there are none."""
    limit: int | None = None
    samples: int | None = None
    agent_model: str | None = None
    user_model: str | None = None
    strategy: str | None = None
    cluster: str | None = None
    output: Path | None = None
    """The folder of everything that the run writes: run directory and trajectories."""
    settings: tuple[str, ...] = ()
    """Any other keys, as key=value."""

    def words(self) -> str:
        """These options as they are written on a command line, for a command that goes on."""
        given = {
            "--limit": self.limit,
            "--samples": self.samples,
            "--agent-model": self.agent_model,
            "--user-model": self.user_model,
            "--strategy": self.strategy,
            "--cluster": self.cluster,
            "--output": self.output,
        }
        words = [word for name in self.datasets for word in ("--dataset", name)]
        words += [word for option, value in given.items() if value is not None for word in (option, str(value))]
        words += [word for setting in self.settings for word in ("--set", setting)]
        return shlex.join(words)


def load_changed(path: Path, options: RunOptions) -> tuple[Config, list[str]]:
    """A configuration file with the options of a command, its run directory set, and the datasets that are meant.
    Raises ConfigError where file or options are wrong."""
    config = with_discovered(load_config(path, settings=options.settings))
    names = choose_datasets(config, options.datasets, path)
    config = _with_datasets(config, names, options)
    if options.cluster is not None:
        cluster = (config.cluster or Cluster()).model_copy(update={"address": options.cluster})
        config = config.model_copy(update={"cluster": cluster})
    if options.output is not None:
        config = with_output(config, options.output)
    elif config.run_dir is None:
        config = config.model_copy(update={"run_dir": run_dir_of(config, path)})
    return config, names


def choose_datasets(config: Config, names: Sequence[str] | None, path: Path) -> list[str]:
    """The named datasets, or all of them."""
    if not config.datasets:
        raise ConfigError(f"{path}: datasets: there are none; expected at least one")
    unknown = [name for name in names or () if name not in config.datasets]
    if unknown:
        hint = suggest(unknown[0], config.datasets)
        raise ConfigError(f"{path}: no dataset {', '.join(map(repr, unknown))}; {hint}")
    return list(dict.fromkeys(names)) if names else list(config.datasets)


def with_output(config: Config, folder: Path) -> Config:
    """The configuration with everything that it writes in one folder."""
    datasets = {
        name: dataset.model_copy(update={"output_path": folder / f"{name}.jsonl"})
        for name, dataset in config.datasets.items()
    }
    return config.model_copy(update={"run_dir": folder, "datasets": datasets})


def _with_datasets(config: Config, names: Sequence[str], options: RunOptions) -> Config:
    datasets = dict(config.datasets)
    for name in names:
        datasets[name] = _changed(name, datasets[name], options)
    return config.model_copy(update={"datasets": datasets})


def _changed(name: str, dataset: Dataset, options: RunOptions) -> Dataset:
    if options.strategy is not None:
        choice = dataset.strategy.model_copy(update={"name": options.strategy, "params": {}})
        dataset = with_other_strategy(dataset, choice)
    update: dict[str, object] = {}
    if options.limit is not None:
        update["limit"] = options.limit
    if options.samples is not None:
        if dataset.strategy.name != "chain":
            raise ConfigError(
                f"--samples: dataset {name!r} explores by {dataset.strategy.name}, which decides itself how often a "
                f"task is attempted; leave it out, or use --strategy chain"
            )
        update["samples"] = options.samples
    if options.agent_model is not None:
        update["agent"] = _agent(dataset.agent, options.agent_model)
    if options.user_model is not None:
        update["user"] = _user(name, dataset.user, options.user_model)
    return dataset.model_copy(update=update)


def _agent(agent: AgentConfig, model: str) -> AgentConfig:
    # Errors that the built-in model makes on purpose mean nothing to another.
    params = agent.params if model == agent.model else {}
    return agent.model_copy(update={"model": model, "params": params})


def _user(name: str, user: UserConfig | None, model: str) -> UserConfig:
    if user is None:
        raise ConfigError(
            f"--user-model: dataset {name!r} has no user to replace; choose other datasets with --dataset, or set one: "
            f"--set datasets.{name}.user={model}"
        )
    if user.kind in ("scripted", "person"):
        raise ConfigError(f"--user-model: the user of dataset {name!r} is a {user.kind} one; leave the option out")
    kind = "builtin" if model == BUILTIN_USER else "model"
    return user.model_copy(update={"model": model, "kind": kind})
