"""Records stored in a temporary file, to be read again in order or by their place."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Generic, TypeVar

import msgspec

from rollout.core.errors import ConfigError

R = TypeVar("R")
IN_MEMORY = 1 << 20
"""Bytes that are written at once; fewer are not worth a file."""
_encoder = msgspec.msgpack.Encoder()


class Spill(Generic[R]):
    """A list of records that grows in a file. Leaving its context drops the file, which has no name."""

    def __init__(self, kind: type[R], folder: Path | None = None) -> None:
        is_usable = folder is not None and os.access(folder, os.W_OK)
        self._folder = folder if is_usable else None
        self._file: IO[bytes] | None = None
        self._written = 0
        self._tail = bytearray()
        """What is not in the file yet."""
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._ends = array("Q", (0,))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, record: R) -> None:
        """Put a record aside."""
        _encoder.encode_into(record, self._tail, -1)
        self._ends.append(self._written + len(self._tail))
        if len(self._tail) >= IN_MEMORY:
            self._write()

    def _write(self) -> None:
        try:
            if self._file is None:
                where = None if self._folder is None else str(self._folder)
                # Closed by __exit__.
                self._file = tempfile.TemporaryFile(dir=where)  # noqa: SIM115
            self._file.write(self._tail)
            self._file.flush()
        except OSError as error:
            folder = self._folder or tempfile.gettempdir()
            raise ConfigError(f"{folder}: no room for a temporary file: {error.strerror or error}") from error
        self._written += len(self._tail)
        self._tail.clear()

    def __getitem__(self, place: int) -> R:
        begin, end = self._ends[place], self._ends[place + 1]
        if self._file is None or begin >= self._written:
            return self._decode(self._tail[begin - self._written : end - self._written])
        return self._decode(os.pread(self._file.fileno(), end - begin, begin))

    def __iter__(self) -> Iterator[R]:
        return map(self.__getitem__, range(len(self)))

    def __enter__(self) -> Spill[R]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tail.clear()
        if self._file is not None:
            self._file.close()
