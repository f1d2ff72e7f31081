"""A database that an episode may change while all others share what it left alone.

tau2 keeps a domain's data in one pydantic model whose fields are tables: dicts of rows, in the large domains. A layer
is such a table over a frozen one: a row is copied when it is first handed out, so opening a world costs nothing that
grows with the size of the rows, and what an episode changed is known without looking at the rest. To a tool that is
declared to change nothing, rows are handed out as they are.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Mapping
from typing import Any

import msgspec

from rollout.core.changes import Changes, Row, compare_tables, encode_row

_MISSING = object()


class Layer(dict[str, Any]):
    """A table over a frozen one. As a dict it holds the frozen rows until they are copied."""

    def __init__(self, frozen: Mapping[str, Any]) -> None:
        super().__init__(frozen)
        self.frozen = frozen
        self.is_reading = False
        """While set, rows are handed out without being copied."""
        self._own: set[str] = set()

    def touched(self) -> set[str]:
        """Keys whose rows may differ from the frozen ones: handed out, put in or taken away."""
        return self._own | (self.frozen.keys() - self.keys())

    def __getitem__(self, key: str) -> Any:
        if key in self._own or self.is_reading or key not in self:
            return super().__getitem__(key)
        row = copy.deepcopy(super().__getitem__(key))
        self[key] = row
        return row

    def __setitem__(self, key: str, row: Any) -> None:
        self._own.add(key)
        super().__setitem__(key, row)

    def as_it_is(self, key: str) -> Any:
        """The row without handing it out: it must not be changed."""
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 - this is `get`

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        if key not in self and default is not _MISSING:
            return default
        row = self[key]
        del self[key]
        return row

    def popitem(self) -> tuple[str, Any]:
        if not self:
            raise KeyError("popitem(): the table is empty")
        key = next(reversed(self))
        return key, self.pop(key)

    def update(self, *others: Any, **named: Any) -> None:
        for key, row in dict(*others, **named).items():
            self[key] = row

    def values(self) -> list[Any]:  # type: ignore[override]
        return [self[key] for key in self]

    def items(self) -> list[tuple[str, Any]]:  # type: ignore[override]
        return [(key, self[key]) for key in self]

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: copy.deepcopy(self.as_it_is(key), memo) for key in self}


def layered(database: Any) -> Any:
    """A database of the same kind that may be changed: its tables are layers, the rest is copied."""
    fields = {
        name: Layer(value) if isinstance(value, dict) else copy.deepcopy(value)
        for name, value in vars(database).items()
    }
    return type(database).model_construct(**fields)


def layers_of(database: Any) -> list[Layer]:
    """The layers of a database."""
    return [value for value in vars(database).values() if isinstance(value, Layer)]


Saved = dict[str, Any]
"""What a database was changed into: of a table the rows that were touched, of any other field all of it."""


def save_database(database: Any) -> Saved:
    """What brings back the database over the same frozen one."""
    return {
        name: {key: value.as_it_is(key) if key in value else None for key in value.touched()}
        if isinstance(value, Layer)
        else value
        for name, value in vars(database).items()
    }


def bring_back(frozen: Any, saved: Saved) -> Any:
    """The database that was saved, over the frozen one."""
    database = layered(frozen)
    for name, value in saved.items():
        table = getattr(database, name)
        if not isinstance(table, Layer):
            setattr(database, name, value)
            continue
        for key, row in value.items():
            if row is not None:
                table[key] = row
            elif key in table:
                del table[key]
    return database


def database_changes(beginning: Any, now: Any, prefix: str = "") -> Changes:
    """What differs between a database and the one that it was layered over, by field."""
    before: dict[str, list[Row]] = {}
    after: dict[str, list[Row]] = {}
    for name, value in vars(now).items():
        was, table = getattr(beginning, name, None), f"{prefix}{name}"
        if isinstance(value, Layer):
            touched = sorted(value.touched())
            before[table] = rows_of({key: value.frozen[key] for key in touched if key in value.frozen})
            after[table] = rows_of({key: value.as_it_is(key) for key in touched if key in value})
        else:
            before[table], after[table] = rows_of(was), rows_of(value)
    return compare_tables(before, after)


def rows_of(value: Any) -> list[Row]:
    """A field of a database as rows: a table's rows by their keys, a list's elements, or one row for all of it."""
    plain = _plain(value)
    if isinstance(value, dict):
        return [row if isinstance(row, dict) else {"key": key, "value": row} for key, row in plain.items()]
    if isinstance(value, list):
        return [row if isinstance(row, dict) else {"value": row} for row in plain]
    return [plain if isinstance(plain, dict) else {"value": plain}]


def _plain(value: Any) -> Any:
    """A value as JSON has it; a model or any other object by its fields."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "__dict__") and not isinstance(value, enum.Enum):
        return _plain(vars(value))
    return msgspec.json.decode(encode_row(value))
