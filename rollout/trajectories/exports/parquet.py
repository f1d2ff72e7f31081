"""Records in Parquet, in row groups, so that memory does not grow with the file; and the conversational form in it.

Messages and tools are JSON values (Arrow's `arrow.json`), not structs: in a struct every message would have every key,
and every call every argument that any tool knows. `datasets` gives them back as the objects they were; other readers
see JSON texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.trajectories.exports.conversational import Conversational
from rollout.trajectories.exports.writing import Writer

ROWS_IN_GROUP = 512
GROUP_BYTES = 8 << 20
"""About how much a row group holds before it is written: rows of many tokens or long pages make smaller groups."""
_PLAIN = {
    "text": "string",
    "bool": "bool_",
    "bit": "int8",
    "id": "int32",
    "int": "int64",
    "number": "float32",
    "float": "float64",
}

Column = Any
"""A name of `_PLAIN`, `json` for any value, a list of one Column for lists of it, a dict of Columns for a struct."""
Columns = Mapping[str, Column]
_CONVERSATIONAL: Columns = {
    "success": "bool",
    "messages": ["json"],
    "prompt": ["json"],
    "completion": ["json"],
    "tools": "json",
}


class Parquet(Conversational):
    """For `datasets.load_dataset("parquet", …)` and whatever else reads Parquet."""

    suffix = ".parquet"

    def open(self, path: Path) -> Writer:
        return ParquetFile(path, needed_by="--format parquet")


class ParquetFile:
    """Records collected into row groups. Without `columns` they are those of the first record, in the conversational
    form. What a record does not have is null."""

    def __init__(self, path: Path, columns: Columns | None = None, *, needed_by: str = "Parquet") -> None:
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise ConfigError(f"{needed_by} needs pyarrow: pip install 'rollout[export]'") from error
        self._path = path
        self._columns = columns
        self._writer: Any = None
        self._rows: list[JSON] = []
        self._size = 0

    def write(self, record: JSON) -> None:
        if self._columns is None:
            self._columns = _named(record)
        row = {name: _as_cell(self._columns[name], value) for name, value in record.items()}
        self._rows.append(row)
        self._size += _size(row)
        if len(self._rows) >= ROWS_IN_GROUP or self._size >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        if self._rows or self._writer is None:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = self._columns or _named(["id", "task_id", "success", "messages", "tools"])
        plain = pa.schema([(name, _type(column, pa.string())) for name, column in columns.items()])
        table = pa.Table.from_pylist(self._rows, schema=plain)
        # Arrow cannot make JSON values from Python objects, only out of texts.
        table = table.cast(pa.schema([(name, _type(column, pa.json_())) for name, column in columns.items()]))
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema, compression="zstd")
        self._writer.write_table(table)
        self._rows.clear()
        self._size = 0


def _named(names: Any) -> Columns:
    return {name: _CONVERSATIONAL.get(name, "text") for name in names}


def _as_cell(column: Column, value: Any) -> Any:
    if column == "json":
        return None if value is None else msgspec.json.encode(value).decode()
    return [_as_cell("json", entry) for entry in value] if column == ["json"] and value is not None else value


def _size(value: Any) -> int:
    """About how many bytes a value has. Lists of numbers are long, so only their first entry is looked at."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    if isinstance(value, list) and value and isinstance(value[0], str | dict | list):
        return sum(map(_size, value))
    return 8 * len(value) if isinstance(value, list) else 8


def _type(column: Column, json_type: Any) -> Any:
    import pyarrow as pa

    if isinstance(column, list):
        return pa.list_(_type(column[0], json_type))
    if isinstance(column, dict):
        return pa.struct([(name, _type(inner, json_type)) for name, inner in column.items()])
    return json_type if column == "json" else getattr(pa, _PLAIN[column])()
