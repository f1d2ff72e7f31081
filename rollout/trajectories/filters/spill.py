"""Records put aside in a temporary file, to be read again in order or by their place."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

import msgspec

from rollout.errors import ConfigError

R = TypeVar("R")
IN_MEMORY = 1 << 20
"""Bytes that are not worth a file."""
_encode = msgspec.msgpack.Encoder().encode


class Spill(Generic[R]):
    """A list of records that grows in a file. Leaving its context drops the file, which has no name."""

    def __init__(self, kind: type[R], folder: Path | None = None) -> None:
        is_usable = folder is not None and os.access(folder, os.W_OK)
        self._folder = folder if is_usable else None
        where = None if self._folder is None else str(self._folder)
        # Closed by __exit__.
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY, dir=where)  # noqa: SIM115
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._ends = array("Q", (0,))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, record: R) -> None:
        """Put a record aside. All are put aside before the first is read."""
        data = _encode(record)
        try:
            self._file.write(data)
        except OSError as error:
            where = self._folder or tempfile.gettempdir()
            raise ConfigError(f"{where}: no room for a temporary file: {error.strerror or error}") from error
        self._ends.append(self._ends[-1] + len(data))

    def __getitem__(self, place: int) -> R:
        begin, end = self._ends[place], self._ends[place + 1]
        self._file.seek(begin)
        return self._decode(self._file.read(end - begin))

    def __iter__(self) -> Iterator[R]:
        return map(self.__getitem__, range(len(self)))

    def __enter__(self) -> Spill[R]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
