"""Plug-ins: objects of other packages, found by Python entry points or named as `module:Name` in a config.

A package offers an object by an entry point in one of the groups of `Group`. What is loaded must keep the contract of
its room.

Modules are found where Python finds them, then in the working directory, then beside the configuration file. The two
folders come last in `sys.path`, so that a file in them never hides an installed package.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from rollout.core.errors import ConfigError, describe_error
from rollout.core.spelling import suggest

Group = Literal[
    "rollout.models",
    "rollout.agents",
    "rollout.environments",
    "rollout.strategies",
    "rollout.scorers",
    "rollout.filters",
    "rollout.exporters",
    "rollout.row_forms",
    "rollout.sites",
    "rollout.memories",
]
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_folders: list[str] = []


def is_reference(name: str) -> bool:
    """Whether a name is written as `module:Name`."""
    return _REFERENCE.fullmatch(name) is not None


def look_in(folder: Path) -> None:
    """Also find modules in this folder from now on, after all other places."""
    place = os.path.abspath(folder)
    if place not in _folders:
        _folders.append(place)


def folders() -> list[str]:
    """The folders besides the working directory in which modules are looked for."""
    return list(_folders)


def import_object(reference: str) -> Any:
    """The object at `module:Name`. Raises ConfigError where there is none."""
    module_name, _, attribute = reference.partition(":")
    module = _import(reference, module_name)
    try:
        return getattr(module, attribute)
    except AttributeError:
        known = [one for one in vars(module) if not one.startswith("_")]
        text = f"{reference!r} cannot be imported: {module_name} has no {attribute!r}; {suggest(attribute, known)}"
        raise ConfigError(text) from None


def find_plugin(group: Group, name: str) -> Any | None:
    """The object at `module:Name`, or the entry point of that name in the group. None: nothing has this name."""
    if is_reference(name):
        return import_object(name)
    for point in entry_points(group=group, name=name):
        try:
            return point.load()
        except Exception as error:
            raise ConfigError(
                f"plugin {name!r} of {group} ({point.value}) cannot be loaded: {describe_error(error)}"
            ) from error
    return None


def _import(name: str, module_name: str) -> Any:
    places = list(dict.fromkeys((os.getcwd(), *_folders)))
    if missing := [place for place in places if place not in map(os.path.abspath, sys.path)]:
        sys.path += missing
        importlib.invalidate_caches()
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(f"{name!r} cannot be imported: {error}") from error
        where = f"neither an installed package nor in {' or '.join(places)}"
        raise ConfigError(f"{name!r} cannot be imported: {error}: it is {where}") from error
    except Exception as error:
        raise ConfigError(f"{name!r} cannot be imported: {describe_error(error)}") from error
