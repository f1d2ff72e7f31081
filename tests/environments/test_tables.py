"""Tables that are shared until written to behave as lists of dicts, and know what was changed in them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.core.changes import table_change
from rollout.environments.domains.reading import load_json
from rollout.environments.domains.tables import BaseTable, SharedTable, load

VALUES = st.none() | st.integers(-3, 3) | st.sampled_from(["a", "b"]) | st.lists(st.integers(0, 2), max_size=2)
ROWS = st.dictionaries(st.sampled_from(["id", "name", "tags"]), VALUES, max_size=3)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("set", "update", "pop_field", "clear_row", "inside", "append", "insert", "remove", "delete", "pop"),
                *("replace", "sort", "reverse", "slice", "filter", "extend", "twin", "move_row"),
            ]
        ),
        st.integers(0, 9),
        ROWS,
    ),
    max_size=12,
)


def perform(table: list[dict[str, Any]], what: str, at: int, row: dict[str, Any]) -> list[dict[str, Any]]:
    """One thing that a server may do. Returns the table, which may be another list now."""
    row = copy.deepcopy(row)
    index = at % len(table) if table else 0
    match what:
        case "append":
            table.append(row)
        case "extend":
            table += [row, copy.deepcopy(row)]
        case "insert":
            table.insert(index, row)
        case "reverse":
            table.reverse()
        case "sort":
            table.sort(key=lambda each: json.dumps(each, sort_keys=True))
        case "filter":
            return [each for each in table if each.get("id") != row.get("id")]
        case "twin":
            return copy.deepcopy(table)
        case _ if not table:
            pass
        case "set":
            table[index]["name"] = row
        case "update":
            table[index].update(row)
        case "pop_field":
            next(iter(table)).pop("id", None)
        case "clear_row":
            table[-1].clear()
        case "inside":
            for each in table:
                if isinstance(each.get("tags"), list):
                    each["tags"].append(at)
        case "remove":
            table.remove(table[index])
        case "delete":
            del table[index]
        case "pop":
            table.pop()["name"] = "gone"
        case "replace":
            table[index] = row
        case "slice":
            table[:] = table[1:]
        case "move_row":
            table.append(table.pop(0))
    return table


def adopted(base: BaseTable, rows: list[dict[str, Any]]) -> SharedTable:
    """What the host makes of a list that a server put in a table's place."""
    return rows if isinstance(rows, SharedTable) else SharedTable(base, rows)


@given(st.lists(ROWS, max_size=5), STEPS)
def test_a_shared_table_is_a_list_of_dicts(rows: list[dict[str, Any]], steps: list[Any]) -> None:
    pristine = copy.deepcopy(rows)
    base = BaseTable("t", rows)
    shared: SharedTable = SharedTable(base)
    plain = copy.deepcopy(rows)
    other = SharedTable(base)
    for what, at, row in steps:
        shared = adopted(base, perform(shared, what, at, row))
        plain = perform(plain, what, at, row)
        assert json.dumps(shared) == json.dumps(plain), "also to code in C"
        assert [dict(each) for each in shared] == plain
        assert shared.change() == table_change(pristine, plain)
    assert rows == pristine, "the file's rows are nobody's to change"
    assert other == pristine
    again = load(base, shared.save())
    assert again == plain
    assert again.digest() == shared.digest() == SharedTable(BaseTable("other", plain)).digest()
    for each in again:
        each["id"] = "changed"
    assert shared == plain, "what was loaded is a copy"


@given(st.lists(ROWS, min_size=1, max_size=4), STEPS, STEPS)
def test_equal_tables_have_equal_digests_and_others_not(rows: list[Any], one: list[Any], two: list[Any]) -> None:
    base = BaseTable("t", rows)
    tables = []
    for steps in (one, two):
        table = SharedTable(base)
        for step in steps:
            table = adopted(base, perform(table, *step))
        tables.append(table)
    same = json.dumps(tables[0], sort_keys=True) == json.dumps(tables[1], sort_keys=True)
    assert (tables[0].digest() == tables[1].digest()) == same


def test_reading_a_row_is_no_change() -> None:
    base = BaseTable("t", [{"id": 1, "tags": ["x"]}, {"id": 2, "tags": []}])
    table = SharedTable(base)
    assert [row["id"] for row in table] == [1, 2]
    assert table[0]["tags"] == ["x"]
    assert table.digest() == base.digest
    assert table.save() == ({}, [])


def test_a_file_that_was_read_before_is_shared_and_a_changed_one_is_read_again(tmp_path: Any) -> None:
    path = tmp_path / "Thing.json"
    path.write_text('[{"id": 1}]')

    def read() -> Any:
        with path.open() as file:
            return load_json(file)

    one, two = read(), read()
    one[0]["id"] = 7
    assert (one.base is two.base, two) == (True, [{"id": 1}])
    path.write_text('[{"id": 1}, {"id": 2}]')
    assert read() == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("text", ["{}", "[]", "[1, 2]", '[{"id": 1}, 2]', '"x"'])
def test_what_is_no_table_is_read_as_it_is(tmp_path: Any, text: str) -> None:
    path = tmp_path / "thing.json"
    path.write_text(text)
    with path.open() as file:
        found = load_json(file)
    assert found == json.loads(text)
    assert type(found) in (dict, list, str)
