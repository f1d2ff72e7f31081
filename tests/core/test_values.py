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
import socket
import threading
import uuid
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
    def __init__(self, **state: Any) -> None:
        self.__dict__.update(state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ordinary) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


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


@pytest.mark.parametrize(
    "value",
    [socket.socket(), threading.Lock(), Rows([1]), lambda: 1, (n for n in ())],
    ids=["socket", "lock", "list subclass", "function", "generator"],
)
def test_what_holds_more_than_attributes_is_refused_with_its_place(value: Any) -> None:
    with pytest.raises(NotPlain, match=r"^handle\.state\['inner'\] "):
        encode({"handle": Ordinary(state={"inner": value})})


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
