"""Damage in the write-ahead log of a journal, found before SQLite opens it.

SQLite silently ends a log at the first frame whose checksum is wrong. After a kill this is right: the frames of the
last transaction may be incomplete. If the damage is in the middle, everything that was committed after it is dropped,
too. Two things tell these cases apart:

- The index of the log (`-shm`) has the number of committed frames. SQLite writes it after the frames, and both outlive
  the process, so a kill never leaves a number that is too high. Without `journal_sync: full`, a power failure may.
- Frames after the broken one that belong to this log, match the frame before them, and end a transaction. A transaction
  that was killed or rolled back leaves no such frame, and frames of an earlier cycle of the log have other salts.

A live run may write the log at the same time. When it starts a new cycle, the log's header changes first. A frame that
was read half-written is complete when read again. So only damage that is found twice in the same place counts.

The format: https://www.sqlite.org/fileformat2.html#walformat and https://www.sqlite.org/walformat.html
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import msgspec

WAL_HEADER, FRAME_HEADER = 32, 24
_MAGIC = 0x377F0682
"""Its last bit is set if checksums are computed over big-endian words."""
_INDEX_HEADER = 48
_PAGE = 4096
"""The page size to assume if the header is damaged."""
_NO_SALTS = bytes(8)
LOOKS = 5
"""Number of reads. A log in which every read finds something else is being written."""


class Index(msgspec.Struct, frozen=True):
    """The contents of a log's index."""

    salts: bytes
    frames: int
    """Committed frames."""
    copied: int
    """Committed frames that were copied to the database."""


class Header(msgspec.Struct, frozen=True):
    """The header of a log. If it is damaged: the usual values, and the salts of the index or none."""

    is_whole: bool
    words: str
    """The byte order of the words in checksums, for `struct`."""
    page: int
    salts: bytes
    checksum: tuple[int, int]


class _Look(msgspec.Struct, frozen=True):
    """One read of a log: its salts, the frames that SQLite reads, and the number of committed frames after them."""

    salts: bytes = _NO_SALTS
    whole: int = 0
    lost: int = 0


class _Walk(msgspec.Struct):
    """The length of a log, in frames."""

    whole: int = 0
    """Up to the last transaction before the first broken frame; this is what SQLite reads."""
    last_commit: int = 0
    """Up to the last frame of all that matches the one before it and ends a transaction."""


_whole: dict[Path, tuple[object, ...]] = {}
"""The state in which a database's log was found whole: a resumed run is opened several times, and adding up the
checksums of a long log takes seconds."""


def lost_frames(database: Path) -> int:
    """The number of committed frames that SQLite would not find in the log of a database: broken ones and those after
    them. A log that was found whole is read again only after it has changed."""
    state = _state_of(database)
    if _whole.get(database) == state:
        return 0
    seen: _Look | None = None
    for _ in range(LOOKS):
        look = _look_at(database)
        if look.lost == 0:
            _whole[database] = state
            return 0
        if seen is not None and (look.salts, look.whole) == (seen.salts, seen.whole):
            return look.lost
        seen = look
    return 0


def _state_of(database: Path) -> tuple[object, ...]:
    try:
        found = database.with_name(database.name + "-wal").stat()
    except OSError:
        return (read_index(database),)
    return (read_index(database), found.st_ino, found.st_size, found.st_mtime_ns)


def _look_at(database: Path) -> _Look:
    index = read_index(database)
    wal = database.with_name(database.name + "-wal")
    if not wal.is_file():
        if index is None or wal.exists():
            return _Look()
        return _Look(index.salts, lost=max(0, index.frames - index.copied))
    try:
        with wal.open("rb", buffering=0) as file:
            begin = file.read(WAL_HEADER)
            header = read_header(begin, index)
            walk = _walk(file, header)
            file.seek(0)
            if file.read(WAL_HEADER) != begin:
                return _Look()
    except OSError:
        # A run that just ended deleted it; or SQLite gets the same error, which is not damage.
        return _Look()
    hidden = walk.last_commit - walk.whole
    if index is None or (header.is_whole and index.salts != header.salts):
        return _Look(header.salts, walk.whole, hidden)
    if walk.whole == 0 and index.frames <= index.copied:
        return _Look()
    return _Look(header.salts, walk.whole, max(hidden, index.frames - walk.whole))


def read_index(database: Path) -> Index | None:
    """The index of a database's log; None if there is none, or if it is incomplete."""
    path = database.with_name(database.name + "-shm")
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            data = file.read(2 * _INDEX_HEADER + 4)
    except OSError:
        return None
    header = data[:_INDEX_HEADER]
    if len(data) < 2 * _INDEX_HEADER + 4 or header != data[_INDEX_HEADER : 2 * _INDEX_HEADER] or not header[12]:
        return None
    (frames,) = struct.unpack_from("=I", data, 16)
    (copied,) = struct.unpack_from("=I", data, 2 * _INDEX_HEADER)
    return Index(header[32:40], frames, copied)


def read_header(data: bytes, index: Index | None) -> Header:
    """Read the header of a log from its bytes."""
    data = data.ljust(WAL_HEADER, b"\0")
    magic, _, page, _ = struct.unpack_from(">4I", data)
    is_ours = magic & ~1 == _MAGIC
    words = ">" if (magic & 1 if is_ours else sys.byteorder == "big") else "<"
    checksum = struct.unpack_from(">2I", data, 24)
    if is_ours and _sum((0, 0), data[:24], words) == checksum:
        return Header(True, words, page, data[16:24], checksum)
    salts = _NO_SALTS if index is None else index.salts
    return Header(False, words, _PAGE, salts, (0, 0))


def _walk(file: FileIO, header: Header) -> _Walk:
    walk = _Walk()
    before, salts = header.checksum, header.salts
    is_whole = header.is_whole
    for number, frame in enumerate(_frames(file, header.page), 1):
        page, commit = struct.unpack_from(">2I", frame)
        checksum = struct.unpack_from(">2I", frame, 16)
        if salts == _NO_SALTS:
            salts = frame[8:16]
        # Most frames after the end are of an earlier cycle; their salts differ, so no checksum is computed.
        is_good = (
            page > 0
            and frame[8:16] == salts
            and checksum == _sum(_sum(before, frame[:8], header.words), frame[FRAME_HEADER:], header.words)
        )
        is_whole = is_whole and is_good
        before = checksum
        if is_good and commit:
            walk.last_commit = number
            if is_whole:
                walk.whole = number
    return walk


def _frames(file: FileIO, page: int) -> Iterator[bytes]:
    while len(frame := file.read(FRAME_HEADER + page)) == FRAME_HEADER + page:
        yield frame


def _sum(before: tuple[int, int], data: bytes, words: str) -> tuple[int, int]:
    """SQLite's checksum of a log, continued over more data."""
    first, second = before
    numbers = iter(struct.unpack(f"{words}{len(data) // 4}I", data))
    for one, other in zip(numbers, numbers, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second
