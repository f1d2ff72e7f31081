"""Plug-ins: objects of other packages, found by Python entry points or named as `module:Name` in a config.

A package offers an object by an entry point in one of the groups of `Group`. What is loaded must keep the contract of
its room.

Modules are found where Python finds them, then in the working directory, then beside the configuration file. The two
folders come last in `sys.path`, so that a file in them never hides an installed package.

A program that has the object itself offers it to its run (`Offers`) under a reference. So a configuration holds names
only, wherever it was made, and another process that can import the module finds the same object.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType, ModuleType
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
_imports = 0
"""Imports for a plug-in that are going on."""
UNNAMED = "unnamed"
"""Stands for the module in the reference of an object that no module names."""


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


class Offers(dict[str, Any]):
    """Objects of a program, by the references under which one run finds them."""

    def add(self, given: Any) -> str:
        """A reference for an object.

        It is `module:Name` where a module holds the object under a name: that of a class or function, or a global of
        any caller or of a module that it has imported. The main script counts as the module that it would be
        imported as. Two runs of the same program get the same reference.
        """
        reference = unique = _reference_of(given)
        number = 2
        while self.get(unique, given) is not given:
            unique, number = f"{reference}_{number}", number + 1
        self[unique] = given
        return unique


_offers: ContextVar[Mapping[str, Any]] = ContextVar("rollout_offers")
_taken: dict[str, Any] = {}
"""What the driver of a cluster's run has offered, in its workers."""


@contextlib.contextmanager
def offering(objects: Mapping[str, Any]) -> Iterator[None]:
    """Find these objects under their references inside the block."""
    token = _offers.set(objects)
    try:
        yield
    finally:
        _offers.reset(token)


def offered() -> Mapping[str, Any]:
    """The objects that can be found now, by their references."""
    return _offers.get(_taken)


def take_offers(objects: Mapping[str, Any]) -> None:
    """Take over the objects that another process of the same run has offered."""
    _taken.update(objects)


def is_importing() -> bool:
    """Whether a module is being imported for a plug-in in it."""
    return _imports > 0


def _reference_of(given: Any) -> str:
    module, name = getattr(given, "__module__", None), getattr(given, "__qualname__", None)
    if isinstance(name, str) and isinstance(module, str) and name.isidentifier():
        return f"{_importable(module, vars(sys.modules.get(module, sys)))}:{name}"
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        for names in _namespaces(frame):
            found = next((name for name, value in names.items() if value is given and name.isidentifier()), None)
            if found is not None:
                return f"{_importable(str(names['__name__']), names)}:{found}"
        frame = frame.f_back
    kind = getattr(given, "__name__", None) or type(given).__name__
    return f"{UNNAMED}:{re.sub(r'[^0-9A-Za-z_]', '_', kind).lstrip('0123456789') or 'object'}"


def _namespaces(frame: FrameType) -> Iterator[Mapping[str, Any]]:
    """The globals of a caller outside of this package, and those of the modules that it names."""
    if str(frame.f_globals.get("__name__")).startswith("rollout."):
        return
    yield frame.f_globals
    for value in (*frame.f_globals.values(), *frame.f_locals.values()):
        if isinstance(value, ModuleType) and not value.__name__.startswith("rollout"):
            yield vars(value)


def _importable(module: str, names: Mapping[str, Any]) -> str:
    """The name by which another process imports a module of this one; its own unless it is the main script."""
    if module != "__main__":
        return module
    spec, file = names.get("__spec__"), names.get("__file__")
    if spec is not None and spec.name:
        return str(spec.name)
    if file is None or not Path(file).stem.isidentifier():
        return module
    look_in(Path(file).parent)
    return Path(file).stem


def import_object(reference: str) -> Any:
    """The object at `module:Name`. Raises ConfigError where there is none."""
    if reference in offered():
        return offered()[reference]
    if reference.startswith(f"{UNNAMED}:"):
        raise ConfigError(
            f"{reference!r} is an object of another program that no module names; use it from that program, or give it "
            "a name in a module"
        )
    module_name, _, attribute = reference.partition(":")
    module = _import(reference, module_name)
    try:
        return getattr(module, attribute)
    except AttributeError:
        known = [one for one in vars(module) if not one.startswith("_")]
        text = f"{reference!r} cannot be imported: {module_name} has no {attribute!r}; {suggest(attribute, known)}"
        raise ConfigError(text) from None


def refuse_signature(function: Callable[..., Any], what: str, *parameters: str) -> None:
    """Raise ConfigError where a function cannot be called with these parameters, by place."""
    try:
        inspect.signature(function).bind(*parameters)
    except ValueError:
        return  # Python does not know the signature.
    except TypeError as error:
        raise ConfigError(f"{what}: cannot be called with ({', '.join(parameters)}): {error}") from error


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
    global _imports
    places = list(dict.fromkeys((os.getcwd(), *_folders)))
    if missing := [place for place in places if place not in map(os.path.abspath, sys.path)]:
        sys.path += missing
        importlib.invalidate_caches()
    _imports += 1
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(f"{name!r} cannot be imported: {error}") from error
        where = f"neither an installed package nor in {' or '.join(places)}"
        raise ConfigError(f"{name!r} cannot be imported: {error}: it is {where}") from error
    except Exception as error:
        raise ConfigError(f"{name!r} cannot be imported: {describe_error(error)}") from error
    finally:
        _imports -= 1
