"""Values as bytes, by value: what comes back, what is refused, and when two values have the same key."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import pathlib
import random
import signal
import socket
import threading
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.core.values import NotPlain, decode, encode, key_of


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Order:
    item: str
    lines: list[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: int


class Record(msgspec.Struct, frozen=True):
    a: int
    b: str = "b"


class Model(pydantic.BaseModel):
    n: int
    names: list[str] = []


class Ordinary:
    exits: dict[str, Ordinary]
    rooms: list[Ordinary]
    here: Ordinary
    friends: list[Ordinary]
    next: Ordinary
    me: Ordinary
    name: str
    things: list[str]

    def __init__(self, **state: Any) -> None:
        self.__dict__.update(state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ordinary) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class Member:
    """Equal to itself alone, so sets of them have another order in each process."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.friends: set[Member] = set()


class Rows(list[int]):
    pass


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.datetimes()
    | st.dates()
    | st.timedeltas()
    | st.uuids()
    | st.just(Colour.RED)
    | st.builds(Point, st.integers())
)
hashables = st.text() | st.integers() | st.tuples(st.integers(), st.text())
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(hashables, inner)
        | st.sets(hashables)
        | st.frozensets(hashables)
        | st.builds(Order, st.text(), st.lists(st.integers()))
        | st.builds(Record, inner)
        | st.builds(lambda state: Ordinary(state=state), inner)
    ),
    max_leaves=20,
)


@given(values)
def test_values_come_back_equal_and_with_the_same_key(value: Any) -> None:
    again = decode(encode(value))
    assert again == value
    assert type(again) is type(value)
    assert key_of(again) == key_of(value)


@pytest.mark.parametrize(
    "value",
    [
        collections.Counter("aab"),
        collections.defaultdict(list, {"a": [1]}),
        collections.deque([1, 2], maxlen=3),
        collections.OrderedDict(b=1, a=2),
        pathlib.Path("/a/b"),
        decimal.Decimal("1.50"),
        datetime.time(1, 2, tzinfo=datetime.UTC),
        uuid.UUID(int=7),
        bytearray(b"x"),
        2**80,
        Model(n=1, names=["a"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_plain_classes_come_back_too(value: Any) -> None:
    again = decode(encode(value))
    assert again == value
    assert type(again) is type(value)


def test_a_random_generator_draws_on_where_it_was() -> None:
    drawn = random.Random(3)
    drawn.random()
    again = decode(encode(drawn))
    assert [again.random() for _ in range(3)] == [drawn.random() for _ in range(3)]


def test_what_is_shared_stays_shared_and_cycles_end() -> None:
    rows = [1]
    both = Ordinary(one=rows, two=rows)
    both.me = both
    again = decode(encode(both))
    assert again.one is again.two
    assert again.me is again
    assert key_of(again) == key_of(both)


def test_order_of_dicts_and_sets_is_no_part_of_the_key_and_types_are() -> None:
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    assert len({key_of(value) for value in (1, 1.0, True, "1", b"1", [1], (1,), {1})}) == 8


def key_of_in_time(value: Any) -> str:
    """The key, where it can be had in linear time; the alarm ends a walk of all paths."""
    previous = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the key took more than 20 s"))
    signal.alarm(20)
    try:
        return key_of(value)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def grid(size: int, order: int = 1, **more: Any) -> Ordinary:
    """Rooms that are linked both ways, made and linked in this or the other order."""
    places = [(x, y) for x in range(size) for y in range(size)][::order]
    rooms = {(x, y): Ordinary(name=f"room {x} {y}", things=["lamp"]) for x, y in places}
    steps = {"east": (1, 0), "west": (-1, 0), "north": (0, 1), "south": (0, -1)}
    for (x, y), room in rooms.items():
        near = [(name, (x + dx, y + dy)) for name, (dx, dy) in steps.items()][::order]
        room.exits = {name: rooms[place] for name, place in near if place in rooms}
    return Ordinary(rooms=[rooms[place] for place in sorted(places)], here=rooms[size - 1, 0], **more)


def test_rooms_that_are_linked_both_ways_have_a_key() -> None:
    key = key_of_in_time(grid(6))
    assert key_of_in_time(decode(encode(grid(6)))) == key
    assert key_of_in_time(grid(6, order=-1)) == key, "the order of dicts is no part of it"
    elsewhere, other = grid(6), grid(6)
    elsewhere.here = elsewhere.rooms[1]
    other.rooms[20].things.append("rope")
    assert len({key, key_of_in_time(elsewhere), key_of_in_time(other)}) == 3


def test_everybody_knows_everybody() -> None:
    def users(count: int) -> list[Ordinary]:
        found = [Ordinary(name=f"user {n}") for n in range(count)]
        for user in found:
            user.friends = [other for other in found if other is not user]
        return found

    assert key_of_in_time(users(12)) == key_of_in_time(decode(encode(users(12)))) != key_of_in_time(users(11))


def test_rings_of_equal_objects_differ_by_their_length() -> None:
    def ring(count: int) -> Ordinary:
        found = [Ordinary() for _ in range(count)]
        for one, following in zip(found, [*found[1:], found[0]], strict=True):
            one.next = following
        return found[0]

    assert len({key_of(ring(count)) for count in range(1, 5)}) == 4
    assert key_of([ring(2), ring(2)]) == key_of([pair := ring(2), pair]), "as of any values that are equal"


def test_the_order_of_a_set_of_linked_objects_is_no_part_of_the_key() -> None:
    def club(order: int) -> list[Member]:
        found = [Member(n) for n in range(8)][::order]
        for member in found:
            member.friends = {other for other in found if abs(other.number - member.number) == 1}
        return sorted(found, key=lambda member: member.number)

    assert key_of(club(1)) == key_of(club(-1))


@pytest.mark.parametrize("pair", [lambda x: [x, x], lambda x: (x, x), lambda x: Ordinary(one=x, other=x)])
def test_what_is_shared_at_every_level_is_read_once(pair: Callable[[Any], Any]) -> None:
    def shared(levels: int, innermost: int = 1) -> Any:
        value: Any = [innermost]
        for _ in range(levels):
            value = pair(value)
        return value

    assert len({key_of_in_time(value) for value in (shared(40), shared(40, innermost=2))}) == 2
    assert key_of(shared(3)) == key_of(pair(pair(pair([1])))) == key_of(copy_of_all(shared(3)))


def copy_of_all(value: Any) -> Any:
    """A copy in which nothing is shared."""
    if isinstance(value, Ordinary):
        return Ordinary(**{name: copy_of_all(inner) for name, inner in vars(value).items()})
    return type(value)(copy_of_all(inner) for inner in value) if isinstance(value, list | tuple) else value


def test_keys_are_those_of_earlier_versions() -> None:
    shared = [1, {"a": (2.5, None)}]
    state = {
        "rows": [shared, shared],
        "order": Order("mug", [1, 2]),
        "record": Record(1),
        "model": Model(n=1, names=["a"]),
        "point": Point(3),
        "colour": Colour.RED,
        "at": datetime.datetime(2025, 1, 2, 3),
        "sets": [{1, 2}, frozenset({"x"})],
        "kinds": [collections.OrderedDict(b=1, a=2), collections.Counter("aab"), collections.deque([1]), 2**80],
        "random": random.Random(3),
        "path": pathlib.Path("/here/a"),
        "state": Ordinary(inner=Ordinary(text="at /here")),
    }
    assert key_of(state) == "449dc070fa30bbb9a5156d68085dc955"
    assert key_of(state, "/here") == "eb2cf782164df39655d623cd1bc635d7"


@pytest.mark.parametrize(
    "value",
    [socket.socket(), threading.Lock(), Rows([1]), lambda: 1, (n for n in ())],
    ids=["socket", "lock", "list subclass", "function", "generator"],
)
def test_what_holds_more_than_attributes_is_refused_with_its_place(value: Any) -> None:
    with pytest.raises(NotPlain, match=r"^handle\.state\['inner'\] "):
        encode({"handle": Ordinary(state={"inner": value})})


def chain(length: int) -> Ordinary | None:
    """A list in which each object leads to the next."""
    first = None
    for _ in range(length):
        first = Ordinary(next=first)
    return first


@dataclasses.dataclass
class HalfMade:
    name: str
    started: int = dataclasses.field(init=False)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (chain(2000), "next.* is nested too deeply"),
        ("lone \ud800 surrogate", "cannot be copied by value: UnicodeEncodeError"),
        (pathlib.Path("not-utf-8-\udcff"), "cannot be copied by value: UnicodeEncodeError"),
        (HalfMade("x"), "cannot be copied by value: AttributeError: .*started"),
    ],
    ids=["deep", "surrogate", "path", "unset field"],
)
def test_what_cannot_be_written_down_is_refused_with_its_place(value: Any, said: str) -> None:
    for write in (encode, key_of):
        with pytest.raises(NotPlain, match=f"handle.*{said}"):
            write({"handle": value})
    with pytest.raises(NotPlain, match="UnicodeEncodeError"):
        encode({"\ud800": 1})
    with pytest.raises(NotPlain, match="UnicodeEncodeError"):
        key_of({"\ud800": 1})


def test_what_names_a_folder_names_the_one_that_it_is_read_for() -> None:
    value = {"text": "see /here/a.txt and /here", pathlib.Path("/here/b"): [pathlib.Path("/here"), "elsewhere"]}
    moved = {"text": "see /there/a.txt and /there", pathlib.Path("/there/b"): [pathlib.Path("/there"), "elsewhere"]}
    assert decode(encode(value, "/here"), lambda: "/there") == moved
    assert key_of(value, "/here") == key_of(moved, "/there") != key_of(value)


@pytest.mark.parametrize(
    "form",
    [
        ["object", "subprocess:Popen", []],
        ["object", "os:system", []],
        ["object", "tempfile:_TemporaryFileCloser", [["name", "x"]]],
        ["object", "no_such_module:Thing", []],
        ["enum", "subprocess:Popen", "x"],
        ["same", 4],
        ["zip"],
        [],
    ],
    ids=str,
)
def test_bytes_from_elsewhere_make_no_foreign_objects(form: list[Any]) -> None:
    with pytest.raises(ValueError, match="not a value"):
        decode(msgspec.msgpack.encode(form))


@given(st.binary())
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        decode(data)
