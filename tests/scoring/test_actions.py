"""Scoring by actions: one call for one reference action, all arguments, by their types."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.scoring.arguments import differing_arguments, same_value
from rollout.scoring.matching import match_actions, match_in_order, match_most
from rollout.scoring.rules import Rules
from tests.scoring.desk import Calls, Desk, write_library

RENEW: Calls = [("renew_loan", {"loan_id": "L1", "confirm": True})]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(write_library(tmp_path))


# ---- values -----------------------------------------------------------------------------------------------------

NUMBER, STRING = {"type": "number"}, {"type": "string"}


@pytest.mark.parametrize(
    ("wanted", "got", "schema", "same"),
    [
        (1, 1.0, {}, True),
        (1, True, {}, False),
        (0, False, {}, False),
        ("5", 5, NUMBER, True),
        ("5.0", 5, {"type": "integer"}, True),
        ("5", 5, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, True),
        ("5", 5, STRING, False),
        ("5", 5, {}, False),
        ("5", 5, {"type": ["string", "number"]}, False),
        ("2025-01-31", "January 31, 2025", STRING, False),
        ("Dune", "dune", STRING, False),
        ("Dune", "Dune ", STRING, False),
        ([1, 2], [1.0, 2], {}, True),
        ([1, 2], [2, 1], {}, False),
        ([1], [1, 1], {}, False),
        (["1"], [1], {"type": "array", "items": NUMBER}, True),
        ({"a": 1, "b": None}, {"a": 1.0}, {}, True),
        ({"a": 1}, {"a": 1, "b": 2}, {}, False),
        (None, None, {}, True),
        (None, "", {}, False),
        ("nan-ish", "nan-ish", NUMBER, True),
    ],
)
def test_values_are_compared_by_type(wanted: Any, got: Any, schema: dict[str, Any], same: bool) -> None:
    assert same_value(wanted, got, schema) is same
    assert same_value(got, wanted, schema) is same


def test_all_arguments_count_and_fewer_do_not_match() -> None:
    schema = {"properties": {"a": STRING, "b": STRING, "confirm": {"type": "boolean", "default": False}}}
    wanted = {"a": "x", "b": "y"}
    assert differing_arguments("t", wanted, {"a": "x"}, schema) == {"b": {"wanted": "y", "got": None}}
    assert differing_arguments("t", wanted, {}, schema).keys() == {"a", "b"}
    assert differing_arguments("t", wanted, {**wanted, "c": 1}, schema).keys() == {"c"}
    assert differing_arguments("t", wanted, {**wanted, "c": None, "confirm": False}, schema) == {}, "null is not given"
    assert differing_arguments("t", wanted, {**wanted, "confirm": True}, schema).keys() == {"confirm"}


def test_only_what_is_declared_is_ignored_or_compared_loosely() -> None:
    rules = Rules(ignore_arguments={"*": ["confirm"], "t": ["why"]}, loose_arguments={"t": ["name"]})
    wanted = {"name": "Ada  Lovelace", "why": "fun"}
    got = {"name": "ada lovelace ", "why": "work", "confirm": True}
    assert differing_arguments("t", wanted, got, {}, rules) == {}
    assert differing_arguments("u", wanted, got, {}, rules).keys() == {"name", "why"}


# ---- matching ---------------------------------------------------------------------------------------------------

fits = st.lists(st.lists(st.integers(0, 4), unique=True).map(sorted), max_size=5)


def most_by_brute_force(fits: list[list[int]], in_order: bool) -> int:
    best = 0
    for choice in itertools.product(*[[None, *each] for each in fits]):
        taken = [call for call in choice if call is not None]
        if len(set(taken)) == len(taken) and (not in_order or taken == sorted(taken)):
            best = max(best, len(taken))
    return best


@given(fits)
def test_as_many_actions_as_possible_get_a_call_of_their_own(fits: list[list[int]]) -> None:
    for match, in_order in ((match_most, False), (match_in_order, True)):
        chosen = match(fits)
        taken = [call for call in chosen if call is not None]
        assert len(taken) == len(set(taken)) == most_by_brute_force(fits, in_order)
        assert all(call is None or call in fits[action] for action, call in enumerate(chosen))
        assert not in_order or taken == sorted(taken)


@given(fits, st.sets(st.integers(0, 4)))
def test_ordered_actions_keep_their_order_and_no_call_serves_two(fits: list[list[int]], ordered: set[int]) -> None:
    ordered = {action for action in ordered if action < len(fits)}
    chosen = match_actions(fits, ordered)
    taken = [call for call in chosen if call is not None]
    assert len(taken) == len(set(taken))
    chain = [call for action in sorted(ordered) if (call := chosen[action]) is not None]
    assert chain == sorted(chain)
    assert len(chain) == most_by_brute_force([fits[action] for action in sorted(ordered)], True)


# ---- the scorer -------------------------------------------------------------------------------------------------


async def test_each_reference_action_needs_a_successful_call_of_its_own(desk: Desk) -> None:
    task = desk.task([*RENEW, *RENEW])
    once = await desk.score("actions", task, RENEW)
    assert (once.value, once.partial) == (0.0, 0.5)
    assert once.evidence["unmatched"][0]["why"] == "called, but too seldom or out of order"
    assert (await desk.score("actions", task, [*RENEW, *RENEW])).value == 1.0
    failed: Calls = [("renew_loan", {"loan_id": "NOPE", "confirm": True})]
    score = await desk.score("actions", desk.task(failed), failed)
    assert score.value == 0.0, "a call that failed does not count"


async def test_evidence_shows_wrong_arguments_and_extra_writes(desk: Desk) -> None:
    calls: Calls = [("renew_loan", {"loan_id": "L2", "confirm": True}), ("list_loans", {})]
    score = await desk.score("actions", desk.task(RENEW), calls)
    (unmatched,) = score.evidence["unmatched"]
    assert unmatched["nearest"]["wrong_arguments"] == {"loan_id": {"wanted": "L1", "got": "L2"}}
    (extra,) = score.evidence["extra_writes"]
    assert (extra["name"], extra["arguments"]["loan_id"]) == ("renew_loan", "L2")


async def test_extra_write_fails_and_reads_and_previews_do_not(desk: Desk) -> None:
    harmless: Calls = [("list_loans", {}), ("renew_loan", {"loan_id": "L2"})]
    assert (await desk.score("actions", desk.task(RENEW), [*RENEW, *harmless])).value == 1.0
    spoilt = await desk.score("actions", desk.task(RENEW), [*RENEW, ("renew_loan", {"loan_id": "L2", "confirm": True})])
    assert (spoilt.value, spoilt.partial) == (0.0, 0.0)


async def test_writes_of_tools_without_confirm_are_declared(tmp_path: Path) -> None:
    base = write_library(tmp_path)
    calls: Calls = [*RENEW, ("set_phone", {"phone": "0"})]
    desk = Desk(base)
    assert (await desk.score("actions", desk.task(RENEW), calls)).value == 1.0, "nobody said that it writes"
    (base / "scoring").mkdir()
    (base / "scoring" / "LibraryDesk.yml").write_text("writes: [set_phone]\n")
    assert (await Desk(base).score("actions", desk.task(RENEW), calls)).value == 0.0
    both = Desk(base, "LibraryDesk_RoomBooker")
    prefixed: Calls = [("LibraryDesk.set_phone", {"phone": "0"})]
    task = both.task([("LibraryDesk.list_loans", {})])
    score = await both.score("actions", task, [("LibraryDesk.list_loans", {}), *prefixed])
    assert score.evidence["extra_writes"][0]["name"] == "ld_set_phone", "a rule names a tool as a reference action does"


@pytest.mark.parametrize("where", ["task", "actions"])
async def test_order_matters_only_where_it_is_declared(desk: Desk, where: str) -> None:
    actions: Calls = [("borrow", {"title": "Dune"}), ("borrow", {"title": "Emma"})]
    free = desk.task(actions)
    assert (await desk.score("actions", free, actions[::-1])).value == 1.0
    if where == "task":
        strict = desk.task(actions, scoring={"ordered": True})
    else:
        strict = desk.task(actions)
        assert strict.actions is not None
        ordered = tuple(msgspec.structs.replace(action, ordered=True) for action in strict.actions)
        strict = msgspec.structs.replace(strict, actions=ordered)
    assert (await desk.score("actions", strict, actions[::-1])).value == 0.0
    assert (await desk.score("actions", strict, [*actions[:1], ("list_loans", {}), *actions[1:]])).value == 1.0


async def test_argument_from_an_earlier_result_is_the_agents_own_or_the_references(desk: Desk) -> None:
    actions: Calls = [("borrow", {"title": "Dune"}), ("return_loan", {"loan_id": {"$from": "0/loan_id"}})]
    task = desk.task(actions)
    detour: Calls = [
        ("borrow", {"title": "Emma"}),
        ("borrow", {"title": "Dune"}),
        ("return_loan", {"loan_id": lambda results: results[1]["loan_id"]}),
    ]
    assert (await desk.score("actions", task, detour)).value == 1.0
    wrong: Calls = [*detour[:2], ("return_loan", {"loan_id": lambda results: results[0]["loan_id"]})]
    assert (await desk.score("actions", task, wrong)).value == 0.0
    listed = desk.task([("list_loans", {}), ("return_loan", {"loan_id": {"$from": "0/loans/1/loan_id"}})])
    known: Calls = [("return_loan", {"loan_id": "L2"})]
    score = await desk.score("actions", listed, known)
    assert [each["name"] for each in score.evidence["unmatched"]] == ["list_loans"], "the id is right, however known"


async def test_actions_stand_beside_the_state_unless_they_are_chosen(tmp_path: Path) -> None:
    base = write_library(tmp_path)
    other_way: Calls = [("list_loans", {}), *RENEW]
    calls = RENEW
    desk = Desk(base)
    verdict = await desk.verdict(desk.task(other_way), calls)
    assert verdict.solved is True, "the state is right; that a read was left out does not matter"
    assert {score.name: score.decides for score in verdict.scores} == {"state": True, "actions": False}
    strict = Desk(base, decide=["actions"])
    assert (await strict.verdict(strict.task(other_way), calls)).solved is False
