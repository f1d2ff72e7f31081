"""Records in Parquet, in row groups, so that memory does not grow with the file; and the conversational form in it.

Messages and tools are JSON values (Arrow's `arrow.json`), not structs: in a struct every message would have every key,
and every call every argument that any tool knows. `datasets` gives them back as the objects they were; other readers
see JSON texts.

An image is a struct of `bytes` and `path`, as `datasets` stores its `Image` feature, and the file says so in its
metadata: `datasets` gives images back decoded. Records hold the paths of files; the bytes are read when a record is
written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.extras import missing_extra
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

IMAGE, IMAGE_PATH = "image", "image_path"
Column = Any
"""A name of `_PLAIN`, `json` for any value, `image` for a file that becomes part of the table, `image_path` for one
that stays where it is, a list of one Column for lists of it, a dict of Columns for a struct."""
Columns = Mapping[str, Column]
_CONVERSATIONAL: Columns = {
    "success": "bool",
    "messages": ["json"],
    "prompt": ["json"],
    "completion": ["json"],
    "tools": "json",
    "images": [IMAGE],
}


class Parquet(Conversational):
    """For `datasets.load_dataset("parquet", …)` and whatever else reads Parquet."""

    suffix = ".parquet"

    def open(self, path: Path) -> Writer:
        return ParquetFile(path, needed_by="--format parquet")


class ParquetFile:
    """Records collected into row groups. Without `columns` they are those of the first record, in the conversational
    form, and a record with others raises ConfigError. What a record does not have is null."""

    def __init__(self, path: Path, columns: Columns | None = None, *, needed_by: str = "Parquet") -> None:
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise missing_extra(needed_by, "train") from error
        self._path = path
        self._columns = columns
        self._writer: Any = None
        self._rows: list[JSON] = []
        self._size = 0

    def write(self, record: JSON) -> None:
        if self._columns is None:
            self._columns = _columns_of(record)
        elif unknown := record.keys() - self._columns.keys():
            raise ConfigError(
                f"{self._path}: a record has {', '.join(sorted(unknown))}, which those before it have not; "
                "export runs with and without images or a window (max_rounds, max_images) into files of their own"
            )
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

        columns = self._columns or _columns_of(dict.fromkeys(("id", "task_id", "success", "messages", "tools")))
        plain = pa.schema([(name, _type(column, pa.string())) for name, column in columns.items()])
        table = pa.Table.from_pylist(self._rows, schema=plain)
        # Arrow cannot make JSON values from Python objects, only out of texts.
        schema = pa.schema([(name, _type(column, pa.json_())) for name, column in columns.items()])
        table = table.cast(schema.with_metadata(_features(columns)))
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema, compression="zstd")
        self._writer.write_table(table)
        self._rows.clear()
        self._size = 0


def _columns_of(record: JSON) -> Columns:
    """The columns of the conversational form, and of the fields that were added."""
    added = {name: "text" if value is None or isinstance(value, str) else "json" for name, value in record.items()}
    return {name: _CONVERSATIONAL.get(name, column) for name, column in added.items()}


def _features(columns: Columns) -> dict[str, bytes] | None:
    """The hints for `datasets` about columns whose type alone does not say it."""
    images = {
        name: {"_type": "List", "feature": {"_type": "Image"}}
        for name, column in columns.items()
        if column in ([IMAGE], [IMAGE_PATH])
    }
    return {"huggingface": msgspec.json.encode({"info": {"features": images}})} if images else None


def _as_cell(column: Column, value: Any) -> Any:
    if value is None:
        return None
    if column == "json":
        return msgspec.json.encode(value).decode()
    if column == IMAGE:
        return {"bytes": _read_image(Path(value)), "path": Path(value).name}
    if column == IMAGE_PATH:
        return {"bytes": None, "path": value}
    if isinstance(column, list) and column[0] in ("json", IMAGE, IMAGE_PATH):
        return [_as_cell(column[0], entry) for entry in value]
    return value


def _read_image(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: the image cannot be read: {error.strerror or error}") from error


def _size(value: Any) -> int:
    """About how many bytes a value has. Lists of numbers are long, so only their first entry is looked at."""
    if isinstance(value, str | bytes):
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
    if column in (IMAGE, IMAGE_PATH):
        return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    if isinstance(column, dict):
        return pa.struct([(name, _type(inner, json_type)) for name, inner in column.items()])
    return json_type if column == "json" else getattr(pa, _PLAIN[column])()
