"""From the keys of a dataset to its environment.

A dataset names its environment by one key: `environment` (a plug-in), `suite`, `web`, `mcpServers`, `mcp_domain` or
`tools`. Each kind is made by a function in a module of its own; a new one is a line in `KINDS`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rollout.config.schema import MAX_TURNS, Dataset
from rollout.core.errors import ConfigError, describe_error
from rollout.core.plugins import find_plugin, import_object
from rollout.core.spelling import suggest
from rollout.core.world import World
from rollout.environments.environment import Environment
from rollout.environments.withheld import WithheldTools
from rollout.tasks.jsonl import TaskFile

KINDS: Mapping[str, str] = {
    "environment": "rollout.environments.find:make_plugin",
    "suite": "rollout.environments.find:make_suite",
    "web": "rollout.environments.web.environment:WebEnvironment",
    "mcpServers": "rollout.environments.mcp.environment:McpEnvironment",
    "mcp_domain": "rollout.environments.domains.environment:DomainEnvironment",
    "tools": "rollout.environments.functions:FunctionEnvironment",
}
"""The key that names a kind, in the order in which they are looked at, and the class or function that makes it."""
SUITES: Mapping[str, str] = {
    "bfcl_multi_turn": "rollout.environments.suites.bfcl.environment:BfclMultiTurn",
    "miniwob": "rollout.environments.suites.miniwob.environment:Miniwob",
    "tau2": "rollout.environments.suites.tau2.environment:Tau2",
}
"""The shipped suites."""
_OWN = ("environment", "path", "web", "mcp_domain", "mcpServers", "tools", "base_path", "policy", "mode")
"""Keys that a suite leaves no room for."""
_PLACES = ("suite", "web", "mcp_domain", "mcpServers", "tools", "base_path", "policy")
"""Keys that another environment leaves no room for."""


def find_environment(name: str, dataset: Dataset) -> Environment:
    """The environment of a dataset. Raises ConfigError where its keys do not go together."""
    if dataset.policy is not None and dataset.mcp_domain is None:
        key = next((key for key in ("environment", "suite") if getattr(dataset, key) is not None), None)
        if key is None:
            raise ConfigError(
                f"datasets.{name}.policy: belongs to a domain, and there is no mcp_domain; use agent.system_prompt_file"
            )
    for key in ("environment", "suite"):
        if getattr(dataset, f"{key}_params") and getattr(dataset, key) is None:
            raise ConfigError(f"datasets.{name}.{key}_params: there is no {key} to take them; leave them out")
    kind = next((key for key in KINDS if getattr(dataset, key) not in (None, {}, [])), "tools")
    make = import_object(KINDS[kind])
    environment: Environment = getattr(make, "from_dataset", make)(name, dataset)
    if dataset.mode != "positive":
        return WithheldTools(environment, dataset.mode)
    return environment


def make_suite(name: str, dataset: Dataset) -> Environment:
    """The suite that a dataset names."""
    assert dataset.suite is not None
    refuse_keys(name, dataset, _OWN, dataset.suite)
    try:
        make = find_plugin("rollout.environments", SUITES.get(dataset.suite, dataset.suite))
    except ConfigError as error:
        raise ConfigError(f"datasets.{name}.suite: {error}") from error
    if make is None:
        raise ConfigError(
            f"datasets.{name}.suite: there is no suite {dataset.suite!r}; {suggest(dataset.suite, SUITES, 'known')} "
            "(or an entry point of rollout.environments, or module:Name)"
        )
    return make_from(make, name, dataset.suite, dataset.suite_params)


def make_plugin(name: str, dataset: Dataset) -> Environment:
    """The environment of another package that a dataset names."""
    assert dataset.environment is not None
    refuse_keys(name, dataset, _PLACES, dataset.environment)
    try:
        found = find_plugin("rollout.environments", dataset.environment)
    except ConfigError as error:
        raise ConfigError(f"datasets.{name}.environment: {error}") from error
    if found is None:
        raise ConfigError(
            f"datasets.{name}.environment: there is no environment {dataset.environment!r}; expected module:Name, or "
            "the name of an entry point of rollout.environments"
        )
    environment = make_from(found, name, dataset.environment, dataset.environment_params)
    if dataset.path:
        environment = copy.copy(environment)
        environment.tasks = TaskFile(*dataset.path)
    return environment


def make_from(found: Any, name: str, reference: str, params: Mapping[str, Any]) -> Environment:
    """An environment from what a reference names: the object itself, or a class or function that is called with
    `params` as keyword arguments."""
    if isinstance(found, Environment):
        if params:
            raise ConfigError(f"datasets.{name}: {reference} is an environment already and takes no parameters")
        return found
    if not callable(found):
        raise ConfigError(f"datasets.{name}: {reference} is no environment; expected a rollout.Environment")
    if isinstance(found, type) and issubclass(found, World):
        raise ConfigError(f"datasets.{name}: {reference} is a world; expected rollout.Environment(tasks=…, world=…)")
    make: Callable[..., Any] = found
    try:
        inspect.signature(make).bind(**params)
    except TypeError as error:
        raise ConfigError(f"datasets.{name}: {reference}: wrong parameters: {error}") from error
    try:
        made = make(**params)
    except ConfigError as error:
        raise ConfigError(f"datasets.{name}: {reference}: {error}") from error
    except Exception as error:
        raise ConfigError(f"datasets.{name}: {reference} cannot be made: {describe_error(error)}") from error
    if not isinstance(made, Environment):
        raise ConfigError(f"datasets.{name}: {reference} is no environment; expected a rollout.Environment")
    return made


def refuse_keys(name: str, dataset: Dataset, keys: tuple[str, ...], reference: str) -> None:
    """Raise ConfigError where a dataset sets keys that its environment decides itself."""
    # By value: a run's saved configuration has every key.
    set_twice = [key for key in keys if getattr(dataset, key) != Dataset.model_fields[key].get_default()]
    if set_twice:
        raise ConfigError(
            f"datasets.{name}: {', '.join(set_twice)}: leave out; {reference} brings its own tasks and tools"
        )


def with_defaults(name: str, dataset: Dataset, environment: Environment) -> Dataset:
    """The dataset with its environment's user and limits, where it sets none of its own."""
    defaults = environment.defaults
    settled: dict[str, Any] = {}
    if defaults.user is not None:
        if defaults.is_user_fixed and dataset.user is not None:
            raise ConfigError(
                f"datasets.{name}.user: leave out; the tasks of {environment.name} say what the user says"
            )
        if dataset.user is None:
            settled["user"] = defaults.user
    limits = {"max_turns": defaults.max_turns, "max_steps_per_turn": defaults.max_steps_per_turn}
    if limits["max_turns"] is None and "user" in settled:
        limits["max_turns"] = MAX_TURNS
    if dataset.reward is None and defaults.reward is not None:
        settled["reward"] = defaults.reward
    settled |= {
        key: value for key, value in limits.items() if value is not None and key not in dataset.model_fields_set
    }
    return dataset.model_copy(update=settled)
