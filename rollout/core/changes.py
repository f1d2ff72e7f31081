"""Telling two states of a world apart, row by row."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rollout.core.values import key_of
from rollout.core.workdir import Entry

Row = dict[str, Any]


class TableChange(msgspec.Struct, frozen=True):
    """The rows of one table that are not as they were. An updated row is removed as it was and added as it is."""

    added: tuple[Row, ...] = ()
    removed: tuple[Row, ...] = ()


Changes = dict[str, TableChange]
"""What differs from a world's beginning, by table. A table that is as it was is not in it."""

_encode = msgspec.json.Encoder(order="sorted", enc_hook=str).encode


def encode_row(row: Any) -> bytes:
    """A row by its value: equal rows, equal bytes."""
    try:
        return _encode(row)
    except TypeError:
        return _encode(with_text_keys(row))


def with_text_keys(value: Any) -> Any:
    """A value whose dicts have texts for keys, as JSON has it: only those can be put in order."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else repr(key): with_text_keys(inner) for key, inner in value.items()}
    return [with_text_keys(inner) for inner in value] if isinstance(value, list | tuple) else value


def table_change(before: Iterable[Row], after: Iterable[Row]) -> TableChange:
    """The rows that are on one side only, sorted by value; a row that is there twice counts twice."""
    return change_of(map(encode_row, before), map(encode_row, after))


def change_of(before: Iterable[bytes], after: Iterable[bytes]) -> TableChange:
    """The same for rows that are encoded already."""
    old, new = Counter(before), Counter(after)
    return TableChange(_rows(new - old), _rows(old - new))


def compare_tables(before: Mapping[str, Iterable[Row]], after: Mapping[str, Iterable[Row]]) -> Changes:
    """What differs between two states. The order of rows is nothing that anybody asked for."""
    found = {
        name: table_change(before.get(name, ()), after.get(name, ())) for name in sorted(before.keys() | after.keys())
    }
    return {name: change for name, change in found.items() if change.added or change.removed}


def _rows(counted: Counter[bytes]) -> tuple[Row, ...]:
    return tuple(msgspec.json.decode(row) for row in sorted(counted.elements()))


def tables_of_attributes(attributes: Mapping[str, Any], files: Mapping[str, Entry]) -> dict[str, list[Row]]:
    """The attributes of a world as tables: entries of dicts and lists are rows, any other value is one row. The files
    of its folder are the table `workdir`."""
    tables = {name: _rows_of(value) for name, value in attributes.items()}
    tables["workdir"] = [_row_of_entry(name, entry) for name, entry in files.items()]
    return tables


def _row_of_entry(name: str, entry: Entry) -> Row:
    if isinstance(entry, bytes):
        return {"file": name, "sha256": hashlib.sha256(entry).hexdigest()}
    kind, content = entry
    data = content if isinstance(content, bytes) else content.encode()
    return {"file": name, "kind": kind, "sha256": hashlib.sha256(data).hexdigest()}


def _rows_of(value: Any) -> list[Row]:
    if isinstance(value, Mapping):
        return [{"key": _plain(key), "value": _plain(inner)} for key, inner in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [{"value": _plain(inner)} for inner in value]
    return [{"value": _plain(value)}]


def _plain(value: Any) -> Any:
    """A value that JSON can hold; where it cannot, its key, which is equal where the value is."""
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, RecursionError):
        return key_of(value)
