"""Plain Python values as bytes, by value: snapshots and state keys of worlds.

`encode` writes down numbers, texts, containers, enums, dates, paths, random generators, and objects of classes that
keep their state in attributes (dataclasses, msgspec Structs, pydantic models, ordinary classes). Shared references and
cycles stay what they are. `decode` gives the same values again. It imports no module and calls no constructor but those
of Structs, so bytes that were tampered with can do no more than hold wrong values; pickle could run anything.

`key_of` is a hash of a value: equal values have equal keys in every process, whatever the order of dicts and sets. Each
object is read once, also where objects refer to one another.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import hashlib
import pathlib
import random
import sys
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

_BIG = 1 << 63
_TEXTS: dict[type, tuple[str, Callable[[str], Any]]] = {
    decimal.Decimal: ("decimal", decimal.Decimal),
    fractions.Fraction: ("fraction", fractions.Fraction),
    uuid.UUID: ("uuid", uuid.UUID),
    datetime.datetime: ("datetime", datetime.datetime.fromisoformat),
    datetime.date: ("date", datetime.date.fromisoformat),
    datetime.time: ("time", datetime.time.fromisoformat),
    pathlib.PosixPath: ("path", pathlib.Path),
    pathlib.PurePosixPath: ("pure_path", pathlib.PurePosixPath),
    complex: ("complex", complex),
}
"""Values whose text says everything. Their `isoformat` or `str` is read by the function beside it."""
_READ_TEXT = dict(_TEXTS.values())
_LISTS: dict[type, str] = {list: "list", set: "set", collections.deque: "deque"}
_DICTS: dict[type, str] = {
    dict: "dict",
    collections.OrderedDict: "ordered",
    collections.Counter: "counter",
    collections.defaultdict: "defaultdict",
}
_EMPTY: dict[str, Callable[[], Any]] = {
    "list": list,
    "set": set,
    "deque": collections.deque,
    "dict": dict,
    "ordered": collections.OrderedDict,
    "counter": collections.Counter,
    "defaultdict": collections.defaultdict,
}


class NotPlain(TypeError):
    """A value that cannot be written down. The text names the place and the class."""


def encode(value: Any, folder: str = "") -> bytes:
    """The value as bytes. Raises `NotPlain`.

    Where a text or a path names `folder`, `decode` puts the folder there that it is given."""
    writer = _Writer(folder)
    try:
        return msgspec.msgpack.encode(writer.write(value, ""))
    except _NOT_WRITTEN as error:
        raise _refused(writer.place, error) from error


def decode(data: bytes, folder: Callable[[], str] = str) -> Any:
    """The value that `encode` was given. Raises ValueError where the bytes are none of `encode`'s."""
    try:
        return _Reader(folder).read(msgspec.msgpack.decode(data))
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a value that was written down here: {error}") from error


def key_of(value: Any, folder: str = "") -> str:
    """A hash of the value, the same wherever `folder` is. Raises `NotPlain`."""
    writer = _Canonical(folder)
    try:
        written = writer.write(value, "")
    except _NOT_WRITTEN as error:
        raise _refused(writer.place, error) from error
    assert isinstance(written, bytes), "what a value leads back to is part of it"
    return _hash(written).hex()


_NOT_WRITTEN = (RecursionError, UnicodeError, AttributeError)
"""What is raised for a value that is nested too deeply, a text that is not Unicode, and a field that was never set."""


def _refused(place: str, error: Exception) -> NotPlain:
    where = f"{place[:80]}…" if len(place) > 80 else place or "it"
    if isinstance(error, RecursionError):
        return NotPlain(f"{where} is nested too deeply to be copied by value")
    return NotPlain(f"{where} cannot be copied by value: {type(error).__name__}: {error}")


class _Writer:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        self.place = ""
        """Where the value is that was begun last."""

    def write(self, value: Any, where: str) -> Any:
        self.place = where
        kind = type(value)
        if kind is str:
            return self._write_text(value)
        if value is None or kind is bool or kind is float or kind is bytes:
            return value
        if kind is int:
            return value if -_BIG <= value < _BIG else ["int", str(value)]
        if kind in _TEXTS:
            return [_TEXTS[kind][0], self._write_text(_text(value))]
        if kind is tuple or kind is frozenset:
            return [kind.__name__, [self.write(inner, where and f"{where}[…]") for inner in value]]
        if isinstance(value, enum.Enum):
            return ["enum", _name_of(kind, where), value.name]
        if kind is datetime.timedelta:
            return ["timedelta", value.days, value.seconds, value.microseconds]
        # Whatever can be changed is one object, however often it is reached.
        if id(value) in self._seen:
            return ["same", self._seen[id(value)]]
        self._seen[id(value)] = len(self._kept)
        self._kept.append(value)
        if kind in _LISTS:
            return [_LISTS[kind], [self.write(inner, f"{where}[…]") for inner in value], getattr(value, "maxlen", None)]
        if kind in _DICTS:
            items = [
                [self.write(key, where), self.write(inner, f"{where}[{key!r}]" if where else str(key))]
                for key, inner in value.items()
            ]
            return [_DICTS[kind], items, _factory_name(value, where)]
        if kind is bytearray:
            return ["bytearray", bytes(value)]
        if kind is random.Random:
            return ["random", self.write(value.getstate(), where)]
        state = attributes(value, where)
        return ["object", _name_of(kind, where), [[key, self.write(v, f"{where}.{key}")] for key, v in state.items()]]

    def _write_text(self, text: str) -> Any:
        if not text.isascii():
            text.encode()  # Refused here, where its place is known.
        return ["around", text.split(self._folder)] if self._folder and self._folder in text else text


_UNMADE = object()


class _Reader:
    def __init__(self, folder: Callable[[], str]) -> None:
        self._folder = folder
        self._made: list[Any] = []

    def read(self, form: Any) -> Any:
        if not isinstance(form, list):
            return form
        tag = form[0]
        if tag in _READ_TEXT:
            return _READ_TEXT[tag](self.read(form[1]))
        if tag == "around":
            return self._folder().join(form[1])
        if tag in _EMPTY:
            return self._fill(tag, form)
        if tag == "same":
            return self._same(form[1])
        if tag == "int":
            return int(form[1])
        if tag == "tuple":
            return tuple([self.read(inner) for inner in form[1]])
        if tag == "frozenset":
            return frozenset([self.read(inner) for inner in form[1]])
        if tag == "enum":
            return _find_class(form[1], enum.Enum)[form[2]]  # type: ignore[index]
        if tag == "timedelta":
            return datetime.timedelta(*form[1:])
        if tag == "bytearray":
            self._made.append(made := bytearray(form[1]))
            return made
        if tag == "random":
            self._made.append(generator := random.Random())
            generator.setstate(self.read(form[1]))
            return generator
        if tag != "object":
            raise LookupError(f"unknown form {tag!r}")
        kind = _find_class(form[1], object)
        if issubclass(kind, msgspec.Struct):
            return self._make_struct(kind, form[2])
        made_object: Any = object.__new__(kind)
        self._made.append(made_object)
        for name, inner in form[2]:
            # Also of frozen classes: this is no change of theirs but the object coming back.
            object.__setattr__(made_object, name, self.read(inner))
        return made_object

    def _make_struct(self, kind: type[msgspec.Struct], fields: list[Any]) -> msgspec.Struct:
        """A Struct, which cannot be made empty. One that holds itself is refused."""
        place = len(self._made)
        self._made.append(_UNMADE)
        self._made[place] = made = kind(**{name: self.read(inner) for name, inner in fields})
        return made

    def _same(self, place: int) -> Any:
        if self._made[place] is _UNMADE:
            raise LookupError("a Struct that holds itself")
        return self._made[place]

    def _fill(self, tag: str, form: list[Any]) -> Any:
        made = _EMPTY[tag]()
        if tag == "deque":
            made = collections.deque(maxlen=form[2])
        elif tag == "defaultdict" and form[2] is not None:
            made.default_factory = _FACTORIES[form[2]]
        self._made.append(made)
        if tag in ("list", "deque"):
            made.extend(self.read(inner) for inner in form[1])
        elif tag == "set":
            made.update([self.read(inner) for inner in form[1]])
        else:
            for key, inner in form[1]:
                made[self.read(key)] = self.read(inner)
        return made


_FACTORIES: dict[str, Any] = {"list": list, "dict": dict, "set": set, "int": int, "float": float, "str": str}


def attributes(value: Any, where: str = "") -> dict[str, Any]:
    """The state of an object that keeps it in attributes. Raises `NotPlain` for every other."""
    kind = type(value)
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in kind.__struct_fields__}
    if dataclasses.is_dataclass(kind):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
        return {**getattr(value, "__dict__", {}), **fields}
    if hasattr(kind, "__pydantic_fields__"):
        return {**vars(value), **{name: getattr(value, name, None) for name in _PYDANTIC}}
    if not _is_plain(kind):
        raise NotPlain(f"{where or 'it'} is {_article(kind)}, which cannot be copied by value")
    try:
        # Python itself knows which objects have state beyond their attributes: handles, locks, subclasses of list.
        _, arguments, state, *items = value.__reduce_ex__(2)
    except TypeError as error:
        raise NotPlain(f"{where or 'it'} cannot be copied by value: {error}") from None
    if arguments != (kind,) or any(entry is not None for entry in items):
        raise NotPlain(f"{where or 'it'} is {_article(kind)}, which holds more than its attributes")
    own, slots = state if isinstance(state, tuple) else (state, None)
    return {**(own or {}), **(slots or {})}


_PYDANTIC = ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")


def _is_plain(kind: type) -> bool:
    """Whether a class leaves it to Python how its objects are taken apart. Not those of the standard library: some of
    them hold handles, and some do things when they go (a temporary file is deleted)."""
    ways = ("__reduce_ex__", "__reduce__", "__getstate__")
    is_library = kind.__module__.partition(".")[0] in sys.stdlib_module_names - {"__main__"}
    return not is_library and all(getattr(kind, way) is getattr(object, way) for way in ways)


def _name_of(kind: type, where: str) -> str:
    name = f"{kind.__module__}:{kind.__qualname__}"
    if _lookup(name) is not kind:
        raise NotPlain(f"{where or 'it'} is {_article(kind)}, whose class cannot be found by its name")
    return name


def _lookup(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _find_class(name: str, base: type) -> type:
    found = _lookup(name)
    if not isinstance(found, type) or not issubclass(found, base):
        raise LookupError(f"there is no class {name}")
    is_record = issubclass(found, msgspec.Struct) or dataclasses.is_dataclass(found)
    is_record = is_record or hasattr(found, "__pydantic_fields__")
    if base is object and not is_record and not _is_plain(found):
        raise LookupError(f"{name} is no class of plain objects")
    return found


def _factory_name(value: Any, where: str) -> str | None:
    factory = getattr(value, "default_factory", None)
    if factory is None:
        return None
    if factory.__name__ not in _FACTORIES or _FACTORIES[factory.__name__] is not factory:
        raise NotPlain(f"{where or 'it'} is a defaultdict whose factory {factory!r} cannot be written down")
    return str(factory.__name__)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


def _article(kind: type) -> str:
    return f"a {kind.__module__}.{kind.__qualname__}"


_LARGE = 1 << 26
"""Bytes of a form from which on a hash replaces it: what is shared at every level doubles with each."""


class _Open:
    """An object that is being written, or that leads back to one that is."""

    __slots__ = ("form", "is_sorted", "is_whole", "lowest", "name", "parts", "place", "value")

    def __init__(self, value: Any, place: int) -> None:
        self.value = value
        self.place = self.lowest = place
        """Its place among the open objects, and the first place that it leads back to."""
        self.name = ""
        self.is_sorted = False
        self.is_whole = True
        """Whether it holds no open object."""
        self.parts: list[bytes | tuple[bytes | _Open, ...]] = []
        """What it holds. Pieces are put together when the open objects among them have forms."""
        self.form = b""

    def joined(self) -> bytes:
        """Its parts with the present forms of open objects."""
        parts = [part if isinstance(part, bytes) else b"".join(map(_form_of, part)) for part in self.parts]
        joined = _joined(self.name, sorted(parts) if self.is_sorted else parts)
        return joined if len(joined) < _LARGE else b"large:" + _hash(joined)


class _Canonical:
    """Writes values as bytes by which equal values are equal, each object once.

    Objects that lead back to one another, a circle (Tarjan's algorithm finds them), have hashes for their forms. These
    are made from one another, again and again, until that tells no more of them apart. So it matters neither where a
    circle was entered nor in which order its dicts and sets are.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._known: dict[int, bytes | _Open] = {}
        self._open: list[_Open] = []
        self._kept: list[Any] = []
        """Every object that was reached: an id is used again when its object is gone."""
        self.place = ""
        """Where the value is that was begun last."""

    def write(self, value: Any, where: str) -> bytes | _Open:
        """The bytes of a value. An open object where it leads back to one."""
        self.place = where
        kind = type(value)
        if kind is str and self._folder and self._folder in value:
            return b"str:" + msgspec.msgpack.encode(_Writer(self._folder).write(value, where))
        if value is None or kind in (bool, str, bytes, float) or (kind is int and -_BIG <= value < _BIG):
            # 1, 1.0 and True are equal in Python and mean different things in a state.
            return kind.__name__.encode() + b":" + msgspec.msgpack.encode(value)
        if kind is int or kind in _TEXTS or kind in (datetime.timedelta, bytearray) or isinstance(value, enum.Enum):
            return _joined(_article(kind), [msgspec.msgpack.encode(_Writer(self._folder).write(value, where))])
        known = self._known.get(id(value))
        if known is not None:
            return known
        self._kept.append(value)
        self._known[id(value)] = made = _Open(value, len(self._open))
        self._open.append(made)
        # Not in a function of its own: each level of a state takes one call, and Python allows a thousand.
        for before, inner, place in self._contents(made, where):
            form = self.write(inner, place)
            if type(before) is bytes and type(form) is bytes:
                made.parts.append(before + form)
                continue
            pieces = (before, b"=", form) if isinstance(before, _Open) else (before, form)
            made.parts.append(pieces)
            made.lowest = min([made.lowest, *(piece.lowest for piece in pieces if isinstance(piece, _Open))])
            made.is_whole = False
        if made.lowest < made.place:
            return made
        circle = self._open[made.place :]
        del self._open[made.place :]
        if made.is_whole:
            made.form = made.joined()
        else:
            _tell_apart(circle)
        for member in circle:
            self._known[id(member.value)] = member.form
        return made.form

    def _contents(self, made: _Open, where: str) -> list[tuple[bytes | _Open, Any, str]]:
        """What an object holds: what is written before each value, the value, and its place."""
        value, kind = made.value, type(made.value)
        if kind in (list, tuple, collections.deque, set, frozenset):
            made.name, made.is_sorted = kind.__name__, kind in (set, frozenset)
            place = f"{where}[…]"
            return [(b"", inner, place) for inner in value]
        if kind in _DICTS:
            made.name, made.is_sorted = _DICTS[kind], kind is not collections.OrderedDict
            keys = [self.write(key, where) for key in value]
            return [
                (key if isinstance(key, _Open) else key + b"=", inner, f"{where}[{name!r}]")
                for key, (name, inner) in zip(keys, value.items(), strict=True)
            ]
        if kind is random.Random:
            made.name = "random"
            return [(b"", value.getstate(), where)]
        made.name, made.is_sorted = _article(kind), True
        state = attributes(value, where)
        return [(name.encode() + b"=", inner, f"{where}.{name}") for name, inner in state.items()]


def _form_of(piece: bytes | _Open) -> bytes:
    return piece.form if isinstance(piece, _Open) else piece


def _tell_apart(circle: list[_Open]) -> None:
    """Give the members of a circle their forms. Each round tells apart what leads to different forms."""
    # Tuples are left out: whether two places have the same one or equal ones says nothing.
    count = sum(type(member.value) not in (tuple, frozenset) for member in circle)
    apart, before = 0, -1
    while apart > before:
        hashes = [_hash(member.joined()) for member in circle]
        for member, its_hash in zip(circle, hashes, strict=True):
            member.form = b"circle:%d:" % count + its_hash
        before, apart = apart, len(set(hashes))


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _joined(name: str, parts: list[bytes]) -> bytes:
    return name.encode() + b"(" + b"".join(b"%d:%b" % (len(part), part) for part in parts) + b")"
