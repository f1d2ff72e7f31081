"""The conversational form in Parquet, in row groups, so that memory does not grow with the file.

Messages and tools are JSON values (Arrow's `arrow.json`), not structs: in a struct every message would have every key,
and every call every argument that any tool knows. `datasets` gives them back as the objects they were; other readers
see JSON texts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from rollout.errors import ConfigError
from rollout.messages import JSON
from rollout.trajectories.exports.conversational import Conversational
from rollout.trajectories.exports.writing import Writer

ROWS_IN_GROUP = 512
_JSON_LISTS = ("messages", "prompt", "completion")


class Parquet(Conversational):
    """For `datasets.load_dataset("parquet", …)` and whatever else reads Parquet."""

    suffix = ".parquet"

    def open(self, path: Path) -> Writer:
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise ConfigError("--format parquet needs pyarrow: pip install 'rollout[export]'") from error
        return ParquetFile(path)


class ParquetFile:
    """Records collected into row groups. The columns are those of the first record."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: Any = None
        self._rows: list[JSON] = []

    def write(self, record: JSON) -> None:
        row = {key: _as_cell(key, value) for key, value in record.items()}
        self._rows.append(row)
        if len(self._rows) >= ROWS_IN_GROUP:
            self._flush()

    def close(self) -> None:
        if self._rows or self._writer is None:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = list(self._rows[0]) if self._rows else ["id", "task_id", "success", "messages", "tools"]
        plain = pa.schema([(name, _type(name, pa.string())) for name in columns])
        table = pa.Table.from_pylist(self._rows, schema=plain)
        # Arrow cannot make JSON values from Python objects, only out of texts.
        table = table.cast(pa.schema([(name, _type(name, pa.json_())) for name in columns]))
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema, compression="zstd")
        self._writer.write_table(table)
        self._rows.clear()


def _as_cell(key: str, value: Any) -> Any:
    if key in _JSON_LISTS:
        return [msgspec.json.encode(entry).decode() for entry in value]
    return msgspec.json.encode(value).decode() if key == "tools" else value


def _type(name: str, json_type: Any) -> Any:
    import pyarrow as pa

    if name in _JSON_LISTS:
        return pa.list_(json_type)
    if name == "tools":
        return json_type
    return pa.bool_() if name == "success" else pa.string()
