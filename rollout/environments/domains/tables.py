"""Tables that episodes share until they write: opening, copying and comparing cost what was changed, not what is there.

A mock server reads its tables with `json.load` and gives each session a `copy.deepcopy` of them. When we load it, both
meet `SharedTable`, a list whose rows are the file's own until one is asked for: then they become `Row`s, the
session's own copies, which note when they are written to. So a deep copy is a copy of pointers, and what a session
changed is known without looking at the rest. To the server it is a list of dicts, also for code in C: what the list
holds inside is at any time what it means.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, SupportsIndex

from rollout.core.changes import Row as PlainRow
from rollout.core.changes import TableChange, encode_row, table_change

Saved = tuple[dict[int, PlainRow], list[PlainRow]] | list[int | PlainRow]
"""A table by value: rows written to and rows added; or, where rows moved, each one or its place in the file."""


class BaseTable:
    """The rows of a file, which all conversations share and none changes."""

    def __init__(self, name: str, rows: list[PlainRow], *, is_file: bool = False) -> None:
        self.name = name
        self.is_file = is_file
        """Whether `name` is the path of the file that holds them."""
        self.rows = rows
        self.places = {id(row): place for place, row in enumerate(rows)}
        self.is_flat = not any(isinstance(value, list | dict) for row in rows for value in row.values())
        self._digests: list[bytes] | None = None
        self._digest: bytes | None = None

    @property
    def digests(self) -> list[bytes]:
        """Each row by its value."""
        if self._digests is None:
            self._digests = [digest_row(row) for row in self.rows]
        return self._digests

    @property
    def digest(self) -> bytes:
        """The whole table by its value."""
        if self._digest is None:
            self._digest = join_digests(self.digests)
        return self._digest


class Row(dict[str, Any]):
    """A row of one session. It is a dict; writing to it is noted at its table."""

    __slots__ = ("home", "place")
    home: SharedTable
    place: int

    def __setitem__(self, name: str, value: Any) -> None:
        self.home.written[self.place] = self
        dict.__setitem__(self, name, value)

    def copy(self) -> PlainRow:
        return dict(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> PlainRow:
        return {name: _copy(value) for name, value in self.items()}

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return dict, (dict(self),)


class SharedTable(list[Any]):
    """One session's view of a table. Whatever hands out a row first makes the rows the session's own."""

    __slots__ = ("base", "is_moved", "is_own", "written")

    def __init__(self, base: BaseTable, rows: Iterable[PlainRow] | None = None) -> None:
        super().__init__(base.rows if rows is None else rows)
        self.base = base
        self.written: dict[int, Row] = {}
        """Rows of the file that were written to, by their place in it."""
        self.is_own = False
        self.is_moved = rows is not None
        """Whether rows of the file may stand elsewhere than in the file, or not at all."""

    # ---- what hands out rows ------------------------------------------------------------------------------------

    def peek(self) -> Iterator[PlainRow]:
        """The rows for reading only: nothing is copied, so nothing may be changed."""
        return list.__iter__(self)

    def _own(self) -> None:
        """Make every row the session's own."""
        self.is_own = True
        places = self.base.places
        for index, row in enumerate(list.__iter__(self)):
            if type(row) is dict and (place := places.get(id(row))) is not None:
                list.__setitem__(self, index, self._copied(row, place))

    def _copied(self, row: PlainRow, place: int) -> Row:
        own = Row(row)
        own.home, own.place = self, place
        if not self.base.is_flat and any(isinstance(value, list | dict) for value in row.values()):
            # What is inside may be changed without our noticing: such a row counts as written to.
            dict.update(own, _copy(row))
            self.written[place] = own
        return own

    def __getitem__(self, index: Any) -> Any:
        if not self.is_own:
            self._own()
        return list.__getitem__(self, index)

    def __iter__(self) -> Iterator[Any]:
        if not self.is_own:
            self._own()
        return list.__iter__(self)

    def __reversed__(self) -> Iterator[Any]:
        if not self.is_own:
            self._own()
        return list.__reversed__(self)

    def copy(self) -> list[Any]:
        return [*self]

    __copy__ = copy

    def __add__(self, other: Any) -> Any:
        return [*self].__add__(other)

    def __mul__(self, count: SupportsIndex) -> Any:
        return [*self] * count

    __rmul__ = __mul__

    # ---- by value -----------------------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedTable:
        return load(self.base, self.save())

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return list, ([dict(row) for row in self.peek()],)

    def save(self) -> Saved:
        """What `load` makes an equal table of. It shares nothing changeable with this one."""
        if self.is_moved:
            return [_copy(row) if (place := _place(self.base, row)) is None else place for row in self.peek()]
        rows, is_flat = self.base.rows, self.base.is_flat
        written = {
            # Rows with something inside count as written to when they are read, so those are looked at.
            place: _copy(row)
            for place, row in self.written.items()
            if is_flat or encode_row(row) != encode_row(rows[place])
        }
        return written, [_copy(row) for row in self._added()]

    def change(self) -> TableChange:
        """What differs from the file."""
        rows = self.base.rows
        if not self.is_moved:
            written = self.written.items()
            return table_change([rows[place] for place, _ in written], [*(row for _, row in written), *self._added()])
        kept = set()
        added = []
        for row in self.peek():
            place = _place(self.base, row)
            if place is None or place in kept:
                added.append(row)
            else:
                kept.add(place)
        return table_change((row for place, row in enumerate(rows) if place not in kept), added)

    def digest(self) -> bytes:
        """The table by its value: equal tables, equal digests."""
        base = self.base
        if self.is_moved:
            places = ((row, _place(base, row)) for row in self.peek())
            return join_digests([digest_row(row) if place is None else base.digests[place] for row, place in places])
        added = self._added()
        if not self.written and not added:
            return base.digest
        digests = [*base.digests, *map(digest_row, added)]
        for place, row in self.written.items():
            digests[place] = digest_row(row)
        return join_digests(digests)

    def _added(self) -> Sequence[PlainRow]:
        """The rows behind the file's, where none of the file's has moved."""
        size = len(self.base.rows)
        return list.__getitem__(self, slice(size, None)) if len(self) > size else ()


def load(base: BaseTable, saved: Saved) -> SharedTable:
    """The table that was saved."""
    if isinstance(saved, list):
        return SharedTable(base, [base.rows[row] if isinstance(row, int) else _copy(row) for row in saved])
    written, added = saved
    table = SharedTable(base)
    for place, row in written.items():
        own = table._copied(row, place)
        list.__setitem__(table, place, own)
        table.written[place] = own
    table.extend(map(_copy, added))
    return table


def _place(base: BaseTable, row: Any) -> int | None:
    """The place in the file of a row that is as it is there."""
    if type(row) is Row:
        home = row.home
        return row.place if home.base is base and home.written.get(row.place) is not row else None
    return base.places.get(id(row))


def _copy(row: Any) -> Any:
    if isinstance(row, dict):
        return {name: _copy(value) if isinstance(value, list | dict) else value for name, value in row.items()}
    return copy.deepcopy(row)


def digest_row(row: Any) -> bytes:
    """A row by its value."""
    return hashlib.blake2b(encode_row(row), digest_size=16).digest()


def join_digests(digests: Iterable[bytes]) -> bytes:
    """Rows in their order by their values."""
    return hashlib.blake2b(b"".join(digests), digest_size=16).digest()


def _noting(name: str) -> Callable[..., Any]:
    method = getattr(dict, name)

    def note(self: Row, *args: Any, **kwargs: Any) -> Any:
        self.home.written[self.place] = self
        return method(self, *args, **kwargs)

    return note


def _moving(name: str) -> Callable[..., Any]:
    method = getattr(list, name)

    def move(self: SharedTable, *args: Any, **kwargs: Any) -> Any:
        if not self.is_own:
            self._own()  # `pop` hands out a row, `sort` shows all of them to its key
        self.is_moved = True
        return method(self, *args, **kwargs)

    return move


for _name in ("__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update"):
    setattr(Row, _name, _noting(_name))
for _name in ("__delitem__", "__imul__", "__setitem__", "clear", "insert", "pop", "remove", "reverse", "sort"):
    setattr(SharedTable, _name, _moving(_name))
