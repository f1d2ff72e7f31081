"""Parts that others bring: found by Python entry points, or named as `module:Name` in a config.

A package offers a part by an entry point in one of the groups `rollout.models`, `rollout.worlds`, `rollout.strategies`,
`rollout.scorers`, `rollout.exporters`, `rollout.suites`, `rollout.sites`, `rollout.memories`. What is loaded must keep
the contract of its room.
"""

from __future__ import annotations

import importlib
import re
from importlib.metadata import entry_points
from typing import Any, Literal

from rollout.errors import ConfigError

Group = Literal[
    "rollout.models",
    "rollout.worlds",
    "rollout.strategies",
    "rollout.scorers",
    "rollout.exporters",
    "rollout.suites",
    "rollout.sites",
    "rollout.memories",
]
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_reference(name: str) -> bool:
    """Whether a name is written as `module:Name`."""
    return _REFERENCE.fullmatch(name) is not None


def find_plugin(group: Group, name: str) -> Any | None:
    """What a name stands for: the object at `module:Name`, or the entry point of that name. None: nothing."""
    if is_reference(name):
        module_name, _, attribute = name.partition(":")
        try:
            return getattr(importlib.import_module(module_name), attribute)
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"{name!r} cannot be imported: {error}") from error
    for point in entry_points(group=group, name=name):
        try:
            return point.load()
        except Exception as error:
            raise ConfigError(f"plugin {name!r} of {group} ({point.value}) cannot be loaded: {error}") from error
    return None
