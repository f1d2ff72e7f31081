"""Rows in a `.pt` file, `{'rows': [{column: value}, …], 'metadata': {…}}`, whose columns of numbers are tensors.

Written without torch, a row at a time; `rollout.trajectories.pt` says how such a file is made. What `torch.save` writes
of a tensor is an instruction to build it from a storage, which is a record of the archive: plain numbers, one after the
other. Here the columns of a row that have the same type lie in one storage, one behind the other. Records of an archive
are written one after the other, so the pickle waits in a file of its own until all storages are there.
"""

from __future__ import annotations

import pickle
import shutil
import struct
import sys
import tempfile
import zipfile
from array import array
from pathlib import Path
from typing import Any

from rollout.core.messages import JSON
from rollout.trajectories.exports.parquet import Columns
from rollout.trajectories.pt import FOLDER, PICKLE, PROTOCOL, RECORDS, body, text

_TYPES = {
    "id": ("q", "LongStorage"),
    "int": ("q", "LongStorage"),
    "bit": ("b", "BoolStorage"),
    "bool": ("b", "BoolStorage"),
    "number": ("f", "FloatStorage"),
    "float": ("d", "DoubleStorage"),
}
"""Of a column's numbers: their type in Python's arrays, and the storage that torch keeps them in."""
_MISSING = float("nan")


class RowsPt:
    """A `.pt` file of rows that is being written. Lists of numbers are 1-D tensors, all else is as it is."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._columns = columns
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED)
        self._pickle = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115 - closed in `close`
        self._storages = 0
        self._pickle.write(pickle.PROTO + bytes([PROTOCOL]) + pickle.EMPTY_DICT + pickle.MARK)
        self._pickle.write(text("rows") + pickle.EMPTY_LIST)

    def write(self, row: JSON) -> None:
        """Add a row."""
        stored: dict[str, array[Any]] = {}
        places: dict[str, tuple[str, int]] = {}
        for name, value in row.items():
            column = self._columns[name]
            kind = column[0] if isinstance(column, list) and isinstance(column[0], str) else ""
            if value is not None and kind in _TYPES:
                code, storage = _TYPES[kind]
                held = stored.setdefault(storage, array(code))
                places[name] = storage, len(held)
                held.extend([_MISSING if entry is None else entry for entry in value])
        keys = {storage: self._store(held) for storage, held in stored.items()}
        parts = [pickle.EMPTY_DICT, pickle.MARK]
        for name, value in row.items():
            if name in places:
                storage, offset = places[name]
                made = _tensor(storage, keys[storage], len(stored[storage]), offset, len(value))
            else:
                made = body(value)
            parts += [text(name), made]
        self._pickle.write(b"".join([*parts, pickle.SETITEMS, pickle.APPEND]))

    def close(self) -> None:
        metadata = {"columns": list(self._columns)}
        self._pickle.write(text("metadata") + body(metadata) + pickle.SETITEMS + pickle.STOP)
        self._pickle.seek(0)
        with self._zip.open(_entry(PICKLE), "w", force_zip64=True) as file:
            shutil.copyfileobj(self._pickle, file)
        self._pickle.close()
        for name, content in RECORDS.items():
            self._zip.writestr(_entry(name), content)
        self._zip.close()

    def _store(self, numbers: array[Any]) -> str:
        if sys.byteorder == "big":
            numbers.byteswap()
        key, self._storages = str(self._storages), self._storages + 1
        self._zip.writestr(_entry(f"data/{key}"), numbers.tobytes())
        return key


def _entry(name: str) -> zipfile.ZipInfo:
    # Without a date of its own: the same rows make the same bytes.
    return zipfile.ZipInfo(f"{FOLDER}/{name}")


def _tensor(storage: str, key: str, size: int, offset: int, length: int) -> bytes:
    """The instructions that make a 1-D tensor of `length` numbers of a storage of `size`, from `offset` on."""
    found = [text("storage"), _named("torch", storage), text(key), text("cpu"), _number(size)]
    shape, step = (_number(number) + pickle.TUPLE1 for number in (length, 1))
    no_hooks = _named("collections", "OrderedDict") + pickle.EMPTY_TUPLE + pickle.REDUCE
    return b"".join([
        _named("torch._utils", "_rebuild_tensor_v2"), pickle.MARK,
        pickle.MARK, *found, pickle.TUPLE, pickle.BINPERSID,
        _number(offset), shape, step, pickle.NEWFALSE, no_hooks,
        pickle.TUPLE, pickle.REDUCE,
    ])  # fmt: skip


def _named(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def _number(number: int) -> bytes:
    return pickle.BININT + struct.pack("<i", number)
