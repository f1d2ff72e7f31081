"""`--set key=value`: single keys of a configuration, changed for one command.

A key is written with dots, as it is in the YAML file (`datasets.portal.agent.temperature`); `*` stands for every
dataset. A value is read as YAML. The result goes through the same schema as the file, so a misspelt key is refused
with the nearest known one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from rollout.core.errors import ConfigError
from rollout.core.spelling import suggest

SHORTHANDS = {"agent": "model", "user": "model", "cluster": "address", "strategy": "name"}
"""Sections that a file may give as a bare name, and the key that the name is short for."""
DATASETS = "datasets"
EVERY = "*"


def read_setting(text: str, option: str = "--set") -> tuple[str, Any]:
    """The key and the value of `key=value`. Raises ConfigError where it is none."""
    key, given, value = text.partition("=")
    if not given or not all(key.split(".")):
        raise ConfigError(f"{option}: {text!r} is not key=value; expected such as datasets.portal.limit=5")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise ConfigError(f"{option} {key}: the value is not valid YAML: {problem}; put it in quotes") from None


def change_tree(tree: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """A copy of a file's tree of values in which these keys are set. Raises ConfigError where one cannot be."""
    changed: dict[str, Any] = _copied(tree)
    for text in settings:
        key, value = read_setting(text)
        _set(changed, key.split("."), value, key)
    return changed


def _copied(value: Any) -> Any:
    """Aliases of a YAML file are one object in several places, and only one of them is to be changed."""
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


def _set(tree: dict[str, Any], parts: Sequence[str], value: Any, key: str) -> None:
    datasets = tree.get(DATASETS)
    if parts[0] != DATASETS or len(parts) < 2 or not isinstance(datasets, dict):
        _set_below(tree, parts, value, key)
    elif parts[1] == EVERY:
        for name in datasets:
            _set_below(tree, [DATASETS, name, *parts[2:]], value, key)
    else:
        name, rest = _dataset_of(datasets, parts[1:], key)
        _set_below(tree, [DATASETS, name, *rest], value, key)


def _dataset_of(datasets: Mapping[str, Any], parts: Sequence[str], key: str) -> tuple[str, Sequence[str]]:
    """The dataset that a key begins with, and what follows. Its name may have dots in it."""
    for length in range(len(parts), 0, -1):
        if (name := ".".join(parts[:length])) in datasets:
            return name, parts[length:]
    raise ConfigError(f"--set {key}: there is no dataset {parts[0]!r}; {suggest(parts[0], datasets)}")


def _set_below(tree: dict[str, Any], parts: Sequence[str], value: Any, key: str) -> None:
    node: Any = tree
    for place, part in enumerate(parts[:-1]):
        inner = _child(node, part, key)
        if inner is None:
            inner = {}
        elif isinstance(inner, str) and part in SHORTHANDS:
            inner = {SHORTHANDS[part]: inner}
        elif not isinstance(inner, (dict, list)):
            where = ".".join(parts[: place + 1])
            raise ConfigError(f"--set {key}: {where} is {inner!r}, which has no keys; set {where} itself")
        _assign(node, part, inner, key)
        node = inner
    _assign(node, parts[-1], value, key)


def _child(node: dict[str, Any] | list[Any], part: str, key: str) -> Any:
    return node[_index(node, part, key)] if isinstance(node, list) else node.get(part)


def _assign(node: dict[str, Any] | list[Any], part: str, value: Any, key: str) -> None:
    if isinstance(node, list):
        node[_index(node, part, key)] = value
    else:
        node[part] = value


def _index(node: Sequence[Any], part: str, key: str) -> int:
    if part.isdecimal() and int(part) < len(node):
        return int(part)
    raise ConfigError(f"--set {key}: {part!r} is no place in a list of {len(node)}; expected 0 to {len(node) - 1}")
