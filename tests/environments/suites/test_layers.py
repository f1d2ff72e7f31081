"""Tables that share their rows until somebody changes one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from rollout.environments.suites.tau2.layers import Layer, bring_back, database_changes, layered, save_database


class Lamp(BaseModel):
    lamp_id: str
    hours: list[int] = []


class Shop(BaseModel):
    lamps: dict[str, Lamp]
    names: list[str] = []


def shop() -> Shop:
    lamps = {name: Lamp(lamp_id=name, hours=[number]) for number, name in enumerate("abc")}
    return Shop(lamps=lamps, names=["Ada"])


keys = st.sampled_from("abcde")
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["change", "set", "delete", "pop", "pop_default", "get", "setdefault", "update", "popitem", "all", "clear"]
        ),
        keys,
    ),
    max_size=12,
)


def apply(table: dict[str, Lamp], step: tuple[str, str]) -> Any:
    """Do one thing to a table, whatever it is, as code of a tool would; rows that are handed out are changed."""
    action, key = step
    found: Any = None
    if action == "change":
        found = table[key]
    elif action == "set":
        table[key] = Lamp(lamp_id=key, hours=[9])
    elif action == "delete":
        del table[key]
    elif action == "pop":
        found = table.pop(key)
    elif action == "pop_default":
        found = table.pop(key, None)
    elif action == "get":
        found = table.get(key)
    elif action == "setdefault":
        found = table.setdefault(key, Lamp(lamp_id=key))
    elif action == "update":
        table.update({key: Lamp(lamp_id=key, hours=[7])})
    elif action == "popitem":
        found = table.popitem()[1]
    elif action == "clear":
        table.clear()
    else:
        for _, row in table.items():
            row.hours.append(2)
        for row in table.values():
            row.hours.append(3)
    if found is not None:
        found.hours.append(1)
    return copy.deepcopy(found)


@given(steps)
def test_layer_is_a_dict_and_leaves_the_frozen_rows_alone(steps: list[tuple[str, str]]) -> None:
    frozen, plain = shop(), shop()
    database = layered(frozen)
    for step in steps:
        try:
            expected = apply(plain.lamps, step)
        except KeyError:
            with pytest.raises(KeyError):
                apply(database.lamps, step)
            continue
        assert apply(database.lamps, step) == expected
    assert database.model_dump() == plain.model_dump()
    assert copy.deepcopy(database.lamps) == plain.lamps
    assert frozen == shop()
    changes = database_changes(frozen, database)
    assert changes == database_changes(frozen, copy.deepcopy(plain)), (
        "only what was touched is compared, with one result"
    )
    brought_back = bring_back(frozen, copy.deepcopy(save_database(database)))
    assert brought_back.model_dump() == plain.model_dump()
    assert database_changes(frozen, brought_back) == changes


def test_rows_are_copied_when_they_are_handed_out_and_not_before() -> None:
    frozen = shop()
    table: Layer = layered(frozen).lamps
    assert table.touched() == set()
    assert "a" in table
    assert len(table) == 3
    assert table.touched() == set()
    assert table["a"] is not frozen.lamps["a"]
    assert table["a"] is table["a"]
    assert table.touched() == {"a"}
    table.is_reading = True
    assert table["b"] is frozen.lamps["b"]
    assert [row is frozen.lamps[key] for key, row in table.items()] == [False, True, True]
    assert table.touched() == {"a"}
