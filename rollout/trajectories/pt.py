"""WebGym-compatible `.pt` files, `{'trajectories': [[step, …], …], 'metadata': {…}}`, read and written without torch.

What `torch.save` writes of plain values (dicts, lists, texts, numbers, None, booleans) is a zip archive with one pickle
in it. So the standard library is all it takes, and `torch.load(path, weights_only=True)` reads the result. The pickle
is written a trajectory at a time: each is pickled by itself and appended to the list, and where each begins is in
a further record of the archive, which torch does not look at. With it a file is read a trajectory at a time, too.
`torch.load` itself holds all of a file in memory.
"""

from __future__ import annotations

import io
import itertools
import pickle
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON

PROTOCOL = 2
"""What `torch.load(weights_only=True)` knows all instructions of."""
FOLDER = "archive"
PICKLE = "data.pkl"
_PLACES = ".data/trajectory_places"
RECORDS = {".format_version": b"1", "byteorder": b"little", "version": b"3\n"}
_BEGIN = pickle.PROTO + bytes([PROTOCOL])


class PtFile:
    """A `.pt` file that is being written. `metadata` may be filled until it is closed."""

    def __init__(self, path: Path, metadata: JSON) -> None:
        self._metadata = metadata
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED)
        # A fixed date, as ZipInfo has it: the same trajectories make the same bytes.
        self._file = self._zip.open(zipfile.ZipInfo(f"{FOLDER}/{PICKLE}"), "w", force_zip64=True)
        self._places: list[int] = []
        self._size = 0
        self._put(_BEGIN + pickle.EMPTY_DICT + pickle.MARK + text("trajectories") + pickle.EMPTY_LIST)
        self._places.append(self._size)

    def write(self, trajectory: list[JSON]) -> None:
        """Add a trajectory: its steps."""
        self._put(body(trajectory) + pickle.APPEND)
        self._places.append(self._size)

    def close(self) -> None:
        self._put(text("metadata") + body(self._metadata) + pickle.SETITEMS + pickle.STOP)
        self._file.close()
        for name, content in {**RECORDS, _PLACES: msgspec.json.encode(self._places)}.items():
            self._zip.writestr(zipfile.ZipInfo(f"{FOLDER}/{name}"), content)
        self._zip.close()

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._size += len(data)


def read_pt(path: Path) -> Iterator[Any]:
    """The trajectories of a `.pt` file, one at a time where we wrote it. Raises ConfigError on what is no such file,
    and on one that holds more than plain values: reading that would run whatever code it names."""
    try:
        with zipfile.ZipFile(path) as archive:
            folder = archive.namelist()[0].partition("/")[0]
            with archive.open(f"{folder}/{PICKLE}") as file:
                if f"{folder}/{_PLACES}" in archive.namelist():
                    yield from _read_each(file, msgspec.json.decode(archive.read(f"{folder}/{_PLACES}")))
                else:
                    found = _load(file.read())
                    yield from found["trajectories"] if isinstance(found, dict) else found
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, pickle.UnpicklingError, KeyError, IndexError, EOFError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path}: not a file of trajectories in plain values: {error}") from error


def _read_each(file: Any, places: list[int]) -> Iterator[Any]:
    file.seek(places[0])
    for begin, end in itertools.pairwise(places):
        yield _load(_BEGIN + file.read(end - begin).removesuffix(pickle.APPEND) + pickle.STOP)


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it holds objects of {module}.{name}")


def _load(data: bytes) -> Any:
    return _Plain(io.BytesIO(data)).load()


def body(value: Any) -> bytes:
    """The instructions that make a value, without those that begin and end a pickle."""
    return pickle.dumps(value, PROTOCOL)[len(_BEGIN) : -1]


def text(words: str) -> bytes:
    """The instruction that makes a text."""
    encoded = words.encode()
    return pickle.BINUNICODE + struct.pack("<I", len(encoded)) + encoded
