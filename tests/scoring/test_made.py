"""Ids made at run time: whatever order an agent works in, its state is right exactly where it means the same."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollout.core.changes import Changes, Row, TableChange
from rollout.core.messages import Message, ToolCall
from rollout.core.task import Action, Task
from rollout.scoring.calls import Called
from rollout.scoring.differences import compare_by_pattern
from rollout.scoring.made import DrawnValue, find_drawn, find_made
from rollout.scoring.rules import NO_RULES
from tests.scoring.desk import Calls, Desk, write_library

Loan = tuple[str, tuple[str, ...]]
"""A title, and the titles of the reservations that point at its loan."""
loans = st.lists(st.tuples(st.sampled_from("ABC"), st.lists(st.sampled_from("XY"), max_size=2).map(tuple)), max_size=3)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(write_library(tmp_path_factory.mktemp("library")))


def meaning(plan: list[Loan]) -> Hashable:
    return frozenset(Counter((title, tuple(sorted(holds))) for title, holds in plan).items())


def reference(plan: list[Loan]) -> Calls:
    calls: Calls = []
    for title, holds in plan:
        loan = len(calls)
        calls.append(("borrow", {"title": title}))
        calls += [("reserve", {"title": hold, "loan_id": {"$from": f"{loan}/loan_id"}}) for hold in holds]
    return calls


def worked_off(plan: list[Loan], chance: random.Random) -> Calls:
    """The plan as some agent may carry it out: in any order that is possible, with things done and undone again."""
    open_ = [("borrow", number) for number in range(len(plan))]
    made: dict[int, int] = {}
    calls: Calls = []

    def loan_of(place: int) -> Any:
        return lambda results: results[place]["loan_id"]

    while open_:
        if chance.random() < 0.2:
            calls += [
                ("borrow", {"title": "Z"}),
                ("list_loans", {}),
                ("return_loan", {"loan_id": loan_of(len(calls))}),
            ]
        kind, number = open_.pop(chance.randrange(len(open_)))
        if kind == "borrow":
            made[number] = len(calls)
            calls.append(("borrow", {"title": plan[number][0]}))
            open_ += [(hold, number) for hold in plan[number][1]]
        else:
            calls.append(("reserve", {"title": kind, "loan_id": loan_of(made[number])}))
    return calls


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=loans, other=loans, seed=st.integers(0, 2**32))
def test_state_is_right_exactly_where_it_means_the_same(
    desk: Desk, plan: list[Loan], other: list[Loan], seed: int
) -> None:
    chance = random.Random(seed)
    task = desk.task(reference(plan))
    shuffled = chance.sample(plan, len(plan))
    assert asyncio.run(desk.score("state", task, worked_off(shuffled, chance))).value == 1.0
    for wrong in (other, plan[1:], [*plan, ("A", ())], [(title, holds[::-1][:1]) for title, holds in plan]):
        score = asyncio.run(desk.score("state", task, worked_off(wrong, chance)))
        assert score.value == float(meaning(wrong) == meaning(plan))
        assert (score.partial == 1.0) == (score.value == 1.0)


# ---- what is made and what is not -------------------------------------------------------------------------------


def same(
    wanted: list[Row], got: list[Row], *, again: list[Row] | None = None, given: tuple[Any, ...] = (), told: str = ""
) -> bool:
    """Whether two sets of added rows count as the same. `given`: what reference and agent put into their calls."""
    ours, theirs = ({"Order": TableChange(tuple(rows))} for rows in (wanted, got))
    drawn = DrawnValue() if again is None else find_drawn(ours, {"Order": TableChange(tuple(again))})
    task = Task(id="t", actions=(Action("order", {"what": given[0]}),) if given else ())
    answers = [Message(role="tool", content=text) for text in (told, "{}")]
    calls = [
        Called(0, ToolCall("c0", "look"), answers[0], False),
        *(Called(2, ToolCall("c1", "order", f'{{"what": "{what}"}}'), answers[1], False) for what in given[1:]),
    ]
    made = find_made(task, calls, ours, theirs, drawn, NO_RULES)
    return not compare_by_pattern(ours, theirs, *made)


def test_key_of_a_new_row_may_be_another_unless_somebody_gave_it() -> None:
    assert same([{"order_id": "o-1", "item": "tea"}], [{"order_id": "o-7", "item": "tea"}])
    assert not same([{"order_id": "o-1", "item": "tea"}], [{"order_id": "o-7", "item": "rum"}])
    assert not same([{"order_id": "ada"}], [{"order_id": "bob"}], given=("ada", "bob"))
    assert not same([{"order_id": "shop-ada"}], [{"order_id": "shop-bob"}], given=("ada", "bob")), "nor parts of it"
    assert same([{"order_id": "shop-ada"}], [{"order_id": "shop-ada"}], given=("ada", "ada"))
    assert not same([{"order_id": "o-1"}], [{"order_id": "o-7"}], given=("x", "o-7"))
    assert same([{"order_id": "o-1"}], [{"order_id": "o-7"}], given=("x", "o-7"), told="o-7 is free"), (
        "the world told it"
    )


def test_number_is_a_name_only_where_an_id_stands() -> None:
    assert same([{"order_id": 5, "pieces": 2}], [{"order_id": 6, "pieces": 2}])
    assert not same([{"order_id": 5, "pieces": 5}], [{"order_id": 6, "pieces": 6}])
    assert same([{"order_id": 5, "parent_id": 5}], [{"order_id": 6, "parent_id": 6}])
    assert not same([{"order_id": 5, "parent_id": 5}], [{"order_id": 6, "parent_id": 5}])


def test_what_depends_on_the_seed_may_be_another_also_within_a_text() -> None:
    wanted = [{"code": "QX7", "note": "code QX7 for tea", "pin": 4711}]
    again = [{"code": "LM2", "note": "code LM2 for tea", "pin": 815}]
    assert same(wanted, [{"code": "AB9", "note": "code AB9 for tea", "pin": 99}], again=again)
    assert not same(wanted, [{"code": "AB9", "note": "code CD1 for tea", "pin": 99}], again=again), "another code"
    assert not same(wanted, [{"code": "AB9", "note": "code AB9 for rum", "pin": 99}], again=again), "another thing"
    assert not same(wanted, [{"code": "AB9", "note": "code AB9 for tea", "pin": 99}]), "and only where it is shown"


def test_rows_in_another_order_under_another_seed_draw_nothing_but_what_is_new_in_them() -> None:
    wanted = [{"order_id": "q1", "item": "tea", "price": 3}, {"order_id": "q2", "item": "rum", "price": 9}]
    again = [{"order_id": "a7", "item": "rum", "price": 9}, {"order_id": "b8", "item": "tea", "price": 3}]
    drawn = find_drawn({"Order": TableChange(tuple(wanted))}, {"Order": TableChange(tuple(again))})
    assert (drawn.words, drawn.numbers) == (frozenset({"q1", "q2"}), frozenset())


def test_value_that_was_there_before_is_no_new_name() -> None:
    old: Row = {"order_id": "o-1", "item": "tea"}
    wanted: Changes = {"Order": TableChange(({"order_id": "o-1", "item": "rum"},), (old,))}
    got: Changes = {"Order": TableChange(({"order_id": "o-2", "item": "rum"},), ({**old, "order_id": "o-2"},))}
    made = find_made(Task(id="t", actions=()), [], wanted, got, DrawnValue(), NO_RULES)
    assert compare_by_pattern(wanted, got, *made), "the wrong order was changed"


def test_existing_thing_in_place_of_a_new_one_is_seen() -> None:
    wanted = [{"order_id": "o-1"}, {"order_id": "o-2", "parent_id": "o-1"}]
    assert same(wanted, [{"order_id": "o-8"}, {"order_id": "o-9", "parent_id": "o-8"}])
    assert not same(wanted, [{"order_id": "o-8"}, {"order_id": "o-9", "parent_id": "o-3"}])
    assert not same(wanted, [{"order_id": "o-8"}, {"order_id": "o-9", "parent_id": "o-9"}])
