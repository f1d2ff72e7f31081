"""States that a task names: a condition on the rows that have changed.

    {"table": "Reservation", "added": {"flight": "LK204", "seats": {"$min": 2}}, "count": 1}

`added`: a new row (its key was not there at the beginning). `removed`: a row that is gone. `row`: a row that is as it
was not at the beginning, new or changed into that. Each holds fields and what they must be: a value, or one of `$in` (a
list), `$not`, `$min`, `$max`, `$contains`. `{}` fits any row. `count` (by default 1): how many rows must fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rollout.core.changes import Changes, Row, TableChange
from rollout.core.errors import ConfigError
from rollout.scoring.arguments import same_value
from rollout.scoring.rules import Rules

KINDS = ("added", "removed", "row")
_KNOWN = {"table", "count", "ordered", "name", *KINDS}


class Condition:
    """A state that holds or does not."""

    def __init__(self, declared: Any, rules: Rules) -> None:
        """Raises ConfigError where `declared` is no condition."""
        if not isinstance(declared, dict):
            raise ConfigError(f"expected {{table, added | removed | row}}, got {declared!r}")
        unknown = sorted(set(declared) - _KNOWN)
        kinds = [kind for kind in KINDS if kind in declared]
        if unknown or len(kinds) != 1 or not isinstance(declared.get("table"), str):
            problem = f"unknown {', '.join(unknown)}" if unknown else "needs `table` and one of added, removed, row"
            raise ConfigError(f"{declared!r}: {problem}")
        self.kind = kinds[0]
        self.table: str = declared["table"]
        self.count: int = declared.get("count", 1)
        self.ordered: bool = declared.get("ordered", False)
        self.name: str = declared.get("name") or f"{self.table} {self.kind} {declared[self.kind]!r}"
        self._fields = declared[self.kind]
        self._rules = rules
        if not isinstance(self._fields, dict) or type(self.count) is not int or self.count < 1:
            raise ConfigError(f"{declared!r}: `{self.kind}` holds fields, `count` is a number from 1")
        for field, wanted in self._fields.items():
            _check_wanted(field, wanted)

    def rows(self, changes: Changes) -> list[Row]:
        """The rows that fit; empty where there are fewer than `count`."""
        change = changes.get(self.table, TableChange())
        found = [row for row in self._candidates(change) if self._fits(row)]
        return found if len(found) >= self.count else []

    def _candidates(self, change: TableChange) -> list[Row]:
        if self.kind == "row":
            return list(change.added)
        rows, others = (
            (change.added, change.removed) if self.kind == "added" else (change.removed, change.added)
        )  # fmt: skip
        keys = [_key(other, self.table, self._rules) for other in others]
        return [row for row in rows if (key := _key(row, self.table, self._rules)) is None or key not in keys]

    def _fits(self, row: Row) -> bool:
        return all(_fits(wanted, row.get(field)) for field, wanted in self._fields.items())


def _key(row: Row, table: str, rules: Rules) -> Any:
    field = rules.key_of(table, row)
    return None if field is None else row[field]


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$in": lambda wanted, got: any(same_value(each, got) for each in wanted),
    "$not": lambda wanted, got: not _fits(wanted, got),
    "$min": lambda wanted, got: _comparable(wanted, got) and bool(got >= wanted),
    "$max": lambda wanted, got: _comparable(wanted, got) and bool(got <= wanted),
    "$contains": lambda wanted, got: wanted in got if isinstance(got, str | list) else False,
}


def _fits(wanted: Any, got: Any) -> bool:
    if _is_operation(wanted):
        return all(_OPERATORS[name](value, got) for name, value in wanted.items())
    return same_value(wanted, got)


def _is_operation(wanted: Any) -> bool:
    return isinstance(wanted, dict) and any(str(name).startswith("$") for name in wanted)


def _comparable(wanted: Any, got: Any) -> bool:
    """Numbers with numbers, texts (dates as ISO texts) with texts."""
    if isinstance(wanted, bool) or isinstance(got, bool):
        return False
    return (isinstance(wanted, int | float) and isinstance(got, int | float)) or (
        isinstance(wanted, str) and isinstance(got, str)
    )


def _check_wanted(field: str, wanted: Any) -> None:
    if not _is_operation(wanted):
        return
    unknown = sorted(set(wanted) - set(_OPERATORS))
    if unknown:
        raise ConfigError(f"{field}: unknown {', '.join(unknown)}; known: {', '.join(_OPERATORS)}")
    if "$in" in wanted and not isinstance(wanted["$in"], list):
        raise ConfigError(f"{field}: $in holds a list")
    if "$not" in wanted:
        _check_wanted(field, wanted["$not"])
