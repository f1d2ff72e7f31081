"""Differences that are not wrong: declared for a domain or for a task, never guessed.

A domain's rules are in `<base_path>/scoring/<Domain>.yml` (or `.json`); a combination has the rules of its servers
and those of a file of its own name, in any order. Attributes that the generator's `blueprints.json` marks
`ignore_in_eval` count too. A task adds its own under `task_info.scoring`. What is not declared is compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pydantic import ValidationError

from rollout.config.load import parse_file
from rollout.config.section import Section
from rollout.core.errors import ConfigError
from rollout.core.task import Task
from rollout.tasks.discovery import contained, roots
from rollout.tasks.naming import fold

EVERY = "*"


class Rules(Section):
    """What may differ."""

    ignore: dict[str, list[str]] = {}
    """Fields that are not compared, by table; under `*` those of every table."""
    keys: dict[str, str] = {}
    """The field that identifies a row, by table, where it is neither `<table>_id` nor `id`."""
    ignore_arguments: dict[str, list[str]] = {}
    """Arguments that are not compared, by tool or under `*`."""
    loose_arguments: dict[str, list[str]] = {}
    """Arguments in which case and spacing do not matter, by tool or under `*`."""
    writes: list[str] = []
    """Tools that change something, where no `confirm` argument shows it."""

    def ignored(self, table: str) -> frozenset[str]:
        """The fields of a table that are not compared. A server's own table (`Server.Table`) has its table's."""
        return self._of(self.ignore, table, table.rpartition(".")[2])

    def ignored_arguments(self, tool: str) -> frozenset[str]:
        """The arguments of a tool that are not compared."""
        return self._of(self.ignore_arguments, tool)

    def loose(self, tool: str) -> frozenset[str]:
        """The arguments of a tool in which case and spacing do not matter."""
        return self._of(self.loose_arguments, tool)

    def key_of(self, table: str, row: Mapping[str, Any]) -> str | None:
        """The field that identifies a row of a table, where there is one."""
        bare = table.rpartition(".")[2]
        declared = self.keys.get(table) or self.keys.get(bare)
        if declared is not None:
            return declared if declared in row else None
        folded = fold(bare)
        wanted = (f"{folded}id", f"{folded.removesuffix('s')}id", f"{folded.removesuffix('es')}id", "id")
        by_fold = {fold(field): field for field in row}
        return next((by_fold[name] for name in wanted if name in by_fold), None)

    @staticmethod
    def _of(declared: Mapping[str, Sequence[str]], *names: str) -> frozenset[str]:
        return frozenset(field for name in (EVERY, *names) for field in declared.get(name, ()))

    def merged(self, other: Rules) -> Rules:
        """Both together."""
        return Rules(
            ignore=_joined(self.ignore, other.ignore),
            keys={**self.keys, **other.keys},
            ignore_arguments=_joined(self.ignore_arguments, other.ignore_arguments),
            loose_arguments=_joined(self.loose_arguments, other.loose_arguments),
            writes=[*self.writes, *other.writes],
        )


class TaskRules(Rules):
    """`task_info.scoring`: what may differ in this task, and what counts in it."""

    ordered: bool = False
    """Whether the reference actions must be called in their order."""
    decide: list[str] | None = None
    """The scorers on which `success` depends in this task, where the dataset's `scoring.decide` does not say."""


NO_RULES = Rules()
_NO_TASK_RULES = TaskRules()


def task_rules(task: Task) -> TaskRules:
    """What the task itself declares. Raises ConfigError where it cannot be read."""
    declared = task.info.get("scoring")
    if declared is None:
        return _NO_TASK_RULES
    try:
        return TaskRules.model_validate(declared)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"task {task.id}: task_info.scoring.{where}: {first['msg']}") from None


class RuleBook:
    """The rules of a domain, and of each of its tasks. Tools are named in them as in reference actions."""

    def __init__(self, domain: Rules = NO_RULES, offered: Callable[[str], str | None] | None = None) -> None:
        self._offered = offered
        self._domain = self._renamed(domain)

    def of(self, task: Task) -> Rules:
        """The rules that hold for a task: its domain's and its own."""
        own = task_rules(task)
        return self._domain if own is _NO_TASK_RULES else self._domain.merged(self._renamed(own))

    def _renamed(self, rules: Rules) -> Rules:
        """The rules with each tool under the name that the agent is offered."""
        if self._offered is None:
            return rules
        return rules.model_copy(
            update={
                "ignore_arguments": {self._name(tool): names for tool, names in rules.ignore_arguments.items()},
                "loose_arguments": {self._name(tool): names for tool, names in rules.loose_arguments.items()},
                "writes": [self._name(tool) for tool in rules.writes],
            }
        )

    def _name(self, tool: str) -> str:
        assert self._offered is not None
        return (tool != EVERY and self._offered(tool)) or tool


def load_rules(base_path: Path, servers: Sequence[str]) -> Rules:
    """The rules of a domain. Raises ConfigError with the file's name where one cannot be read."""
    found = NO_RULES
    names = list(servers)
    if len(servers) > 1:
        names += ["_".join(order) for order in itertools.permutations(servers)]
    for root in roots(base_path):
        for name in names:
            for path in (root / "scoring" / f"{name}.yml", root / "scoring" / f"{name}.json"):
                if path.is_file():
                    found = found.merged(parse_file(contained(path, base_path), Rules))
        blueprints = root / "blueprints.json"
        if blueprints.is_file():
            found = found.merged(Rules(ignore=_ignored_in_blueprints(contained(blueprints, base_path), servers)))
    return found


def _ignored_in_blueprints(path: Path, servers: Sequence[str]) -> dict[str, list[str]]:
    """The attributes that the generator marked as not to be compared, of these servers."""
    wanted = {fold(server) for server in servers}
    ignored: dict[str, list[str]] = {}
    try:
        document = msgspec.json.decode(path.read_bytes())
        blueprints = document.values() if isinstance(document, dict) else document
        for blueprint in blueprints:
            if fold(str(blueprint.get("MCP_server_name", ""))) not in wanted:
                continue
            for relationship in blueprint.get("relationships") or ():
                fields = [
                    name
                    for name, about in (relationship.get("attributes") or {}).items()
                    if isinstance(about, dict) and about.get("ignore_in_eval")
                ]
                if fields:
                    ignored.setdefault(relationship["name"], []).extend(fields)
    except (OSError, msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as the generator's blueprints: {error}") from error
    return ignored


def _joined(one: dict[str, list[str]], other: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: [*one.get(name, ()), *other.get(name, ())] for name in {**one, **other}}
