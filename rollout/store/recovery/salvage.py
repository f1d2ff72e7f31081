"""Reading the rows of a damaged SQLite file, page by page.

A database is a tree of pages. If an inner page, the schema or the header is damaged, SQLite cannot find the rows below
it, although they are intact. Here every page is read by itself, as `.recover` of SQLite's shell does: a page that holds
rows says so in its first byte, and each row carries its own length and the types of its values. A row is returned only
if these match exactly. Pages in the write-ahead log replace those in the file. Nothing is written, and SQLite never
opens the file.

A row does not say to which table it belongs; `Shape` recognizes it by its values. Rows that were written before a
column was added to their table are shorter than later ones. Pages that are no longer in use may hold earlier versions
of rows, so the same row can appear several times.

The format: https://www.sqlite.org/fileformat2.html
"""

from __future__ import annotations

import contextlib
import mmap
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.errors import JournalError
from rollout.store.recovery.wal import FRAME_HEADER, WAL_HEADER, read_header, read_index

MAGIC = b"SQLite format 3\0"
DEFAULT_PAGE = 4096
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INNER = 0x0D, 0x0A, 0x02
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
FORGET_EVERY = 4096
"""Pages after which the memory of those read so far is released: 16 MB of a usual file."""
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (float, int), "TEXT": (str,), "BLOB": (bytes,)}


class RawRow(msgspec.Struct, frozen=True):
    """A row as it is stored. Rows of indexes and of tables WITHOUT ROWID have no row id."""

    rowid: int | None
    values: tuple[Any, ...]


class _Unreadable(Exception):
    """The bytes are not a row."""


class Shape(msgspec.Struct, frozen=True):
    """The form of a table's rows."""

    table: str
    columns: tuple[str, ...]
    """In the order in which they are stored."""
    has_rowid: bool
    alias: str | None
    """The column that is the row id, and is stored as NULL."""
    types: tuple[tuple[type, ...], ...]
    nullable: tuple[bool, ...]
    later: int = 0
    """Columns at the end that were added by migrations. Rows from before a migration do not have its columns."""

    @property
    def lengths(self) -> range:
        """The numbers of values that a row of this table can have."""
        return range(len(self.columns) - self.later, len(self.columns) + 1)

    def read(self, row: RawRow) -> dict[str, Any] | None:
        """The values of a row by column; None if it cannot be a row of this table."""
        if len(row.values) not in self.lengths or (row.rowid is not None) != self.has_rowid:
            return None
        found: dict[str, Any] = {}
        # A shorter row ends before the later columns.
        for name, types, nullable, value in zip(self.columns, self.types, self.nullable, row.values, strict=False):
            if name == self.alias:
                if value is not None:
                    return None
                value = row.rowid
            elif not (isinstance(value, types) or (value is None and nullable)):
                return None
            found[name] = value
        return found


class _Column(msgspec.Struct, frozen=True):
    """A row of `PRAGMA table_info`."""

    number: int
    name: str
    type: str
    is_not_null: int
    default: Any
    key: int
    """The place in the primary key, from 1; 0 for other columns."""


def read_shapes(schema: str, later: Mapping[str, Sequence[str]] | None = None) -> list[Shape]:
    """The shapes of the tables that these statements create. `later`: columns that migrations added, by table."""
    shapes = []
    database = sqlite3.connect(":memory:")
    database.executescript(schema)
    for name, sql in database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall():
        columns = [_Column(*row) for row in database.execute(f"PRAGMA table_info({name})")]
        has_rowid = "WITHOUT ROWID" not in sql.upper()
        if not has_rowid:
            # The key is stored first.
            columns.sort(key=lambda column: (not column.key, column.key, column.number))
        keys = [column for column in columns if column.key]
        is_alias = has_rowid and len(keys) == 1 and keys[0].type.upper() == "INTEGER"
        shapes.append(
            Shape(
                name,
                tuple(column.name for column in columns),
                has_rowid,
                keys[0].name if is_alias else None,
                tuple(_PYTHON_TYPES[column.type.upper()] for column in columns),
                tuple(not column.is_not_null and not column.key for column in columns),
                len((later or {}).get(name, ())),
            )
        )
    database.close()
    return shapes


def salvage_rows(path: Path) -> Iterator[RawRow]:
    """Every readable row of a database file, in the order of the pages. The file may be missing if its write-ahead log
    is there."""
    try:
        with _mapped(path) as main, _mapped(path.with_name(path.name + "-wal")) as log:
            header = read_header(log[:WAL_HEADER], read_index(path))
            pages = _Pages(main, log, header.salts)
            for number in pages.numbers():
                yield from _rows_of(pages, number)
                if number % FORGET_EVERY == 0:
                    pages.forget()
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {error.strerror or error}") from error


class _Pages:
    """The pages of a database. Pages in the write-ahead log replace those in the file."""

    def __init__(self, main: mmap.mmap | bytes, wal: mmap.mmap | bytes, salts: bytes) -> None:
        self._main = main
        self._wal = wal
        self.total = len(main) + len(wal)
        self.size = self._page_size()
        is_header_whole = self._main[:16] == MAGIC
        self.usable = self.size - (self._main[20] if is_header_whole else 0)
        if self.usable < self.size - 32:
            self.usable = self.size
        self._frames = self._find_frames(salts)
        self._count = -(-len(self._main) // self.size)

    def numbers(self) -> Iterator[int]:
        """The numbers of all pages."""
        yield from range(1, self._count + 1)
        yield from sorted(number for number in self._frames if number > self._count)

    def page(self, number: int) -> bytes:
        """The bytes of a page, padded with zeros if the file ends in it."""
        place = self._frames.get(number)
        if place is not None:
            return self._wal[place : place + self.size]
        if not 1 <= number <= self._count:
            raise _Unreadable
        return self._main[(number - 1) * self.size : number * self.size].ljust(self.size, b"\0")

    def forget(self) -> None:
        """Release the memory of pages that were read; the kernel reads them again when needed."""
        for file in (self._main, self._wal):
            if isinstance(file, mmap.mmap):
                file.madvise(mmap.MADV_DONTNEED)

    def _page_size(self) -> int:
        sizes = []
        if self._main[:16] == MAGIC:
            (size,) = struct.unpack(">H", self._main[16:18])
            sizes.append(65536 if size == 1 else size)
        if len(self._wal) >= WAL_HEADER:
            sizes += struct.unpack(">I", self._wal[8:12])
        return next((size for size in sizes if 512 <= size <= 65536 and size & (size - 1) == 0), DEFAULT_PAGE)

    def _find_frames(self, salts: bytes) -> dict[int, int]:
        """The offset of the newest version of each page in the log. Frames belong to this log if they have its salts.
        If these are unknown, the salts of the first frame count."""
        found: dict[int, int] = {}
        for start in range(WAL_HEADER, len(self._wal) - FRAME_HEADER - self.size + 1, FRAME_HEADER + self.size):
            (number,) = struct.unpack_from(">I", self._wal, start)
            salts = salts if any(salts) else self._wal[start + 8 : start + 16]
            if self._wal[start + 8 : start + 16] == salts and number:
                found[number] = start + FRAME_HEADER
        return found


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    if not path.is_file():
        yield b""
        return
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def _rows_of(pages: _Pages, number: int) -> Iterator[RawRow]:
    page = pages.page(number)
    start = 100 if number == 1 else 0
    kind = page[start]
    if kind not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INNER):
        return
    first = start + (12 if kind == _INDEX_INNER else 8)
    (count,) = struct.unpack_from(">H", page, start + 3)
    for cell in range(min(count, (pages.size - first) // 2)):
        (place,) = struct.unpack_from(">H", page, first + 2 * cell)
        try:
            yield _read_cell(pages, page, place + (4 if kind == _INDEX_INNER else 0), has_rowid=kind == _TABLE_LEAF)
        except (_Unreadable, IndexError, struct.error, UnicodeDecodeError):
            continue


def _read_cell(pages: _Pages, page: bytes, place: int, *, has_rowid: bool) -> RawRow:
    length, place = _varint(page, place)
    rowid: int | None = None
    if has_rowid:
        rowid, place = _varint(page, place)
    if length > pages.total:
        raise _Unreadable
    usable = pages.usable
    least = (usable - 12) * 32 // 255 - 23
    most = usable - 35 if has_rowid else (usable - 12) * 64 // 255 - 23
    if length <= most:
        payload = page[place : place + length]
    else:
        local = least + (length - least) % (usable - 4)
        local = local if local <= most else least
        (following,) = struct.unpack_from(">I", page, place + local)
        payload = page[place : place + local] + _read_overflow(pages, following, length - local)
    if len(payload) != length:
        raise _Unreadable
    return RawRow(rowid, _read_record(payload))


def _read_overflow(pages: _Pages, number: int, length: int) -> bytes:
    pieces = []
    while length > 0:
        page = pages.page(number)
        (number,) = struct.unpack_from(">I", page)
        piece = page[4 : min(4 + length, pages.usable)]
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def _read_record(payload: bytes) -> tuple[Any, ...]:
    header, place = _varint(payload, 0)
    body = header
    values: list[Any] = []
    while place < header:
        kind, place = _varint(payload, place)
        value, size = _read_value(payload, body, kind)
        values.append(value)
        body += size
    if place != header or body != len(payload):
        raise _Unreadable
    return tuple(values)


def _read_value(payload: bytes, place: int, kind: int) -> tuple[Any, int]:
    if kind == 0:
        return None, 0
    if kind in _INTEGERS:
        size = _INTEGERS[kind]
        return int.from_bytes(payload[place : place + size], "big", signed=True), size
    if kind == 7:
        return struct.unpack_from(">d", payload, place)[0], 8
    if kind in (8, 9):
        return kind - 8, 0
    if kind < 12:
        raise _Unreadable
    size = (kind - 12) // 2
    data = payload[place : place + size]
    return (data.decode() if kind % 2 else data), size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number of one to nine bytes, and the offset after it."""
    value = 0
    for index in range(8):
        byte = data[place + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + index + 1
    value = value << 8 | data[place + 8]
    return (value - (1 << 64) if value >> 63 else value), place + 9
