"""Scoring by state: what was missed, what was done wrong, what was done besides, and what may be named otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout.core.errors import ConfigError
from tests.scoring.desk import Calls, Desk, write_library

RENEW: Calls = [("renew_loan", {"loan_id": "L1", "confirm": True})]
RETURN: Calls = [("return_loan", {"loan_id": "L2"})]
BORROW: Calls = [("borrow", {"title": "Dune"})]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(write_library(tmp_path))


@pytest.mark.parametrize("actions", [RENEW, RETURN, BORROW], ids=["update", "delete", "insert"])
async def test_reference_passes_and_an_idle_agent_fails_with_the_rows_that_differ(desk: Desk, actions: Calls) -> None:
    """V1 (the table holds a row with status pending, which once hid the column) and V2 (deletes were invisible)."""
    task = desk.task(actions)
    done = await desk.verdict(task, actions)
    assert (done.solved, done.scores[0].partial) == (True, 1.0)
    idle = await desk.verdict(task, [])
    assert (idle.solved, idle.scores[0].partial) == (False, 0.0)
    assert list(idle.scores[0].evidence["tables"]) == ["Loan"]


async def test_evidence_names_the_fields_of_a_row_that_differ(desk: Desk) -> None:
    score = await desk.score("state", desk.task(RENEW), [])
    (found,) = score.evidence["tables"]["Loan"]["differing"]
    assert found["key"] == {"loan_id": "L1"}
    assert found["fields"] == {
        "due": {"wanted": "2025-03-01", "got": "2025-02-01"},
        "status": {"wanted": "renewed", "got": "pending"},
    }


async def test_destructive_extra_write_fails_although_the_task_is_done(desk: Desk) -> None:
    """V3."""
    score = await desk.score("state", desk.task(RENEW), [*RENEW, ("return_loan", {"loan_id": "L3"})])
    assert score.value == 0.0
    (lost,) = score.evidence["tables"]["Loan"]["missing"]
    assert lost["loan_id"] == "L3"
    assert score.partial == 0.5, "one of two row changes' worth of damage"


async def test_partial_credit_counts_what_was_done_less_what_was_damaged(desk: Desk) -> None:
    task = desk.task([*RENEW, *RETURN, *BORROW])  # four row changes: two of the update, one each of the others
    assert (await desk.score("state", task, RENEW)).partial == 0.5
    assert (await desk.score("state", task, [*RENEW, *RETURN])).partial == 0.75
    assert (await desk.score("state", task, [*RENEW, *RETURN, ("set_phone", {"phone": "1"})])).partial == 0.25
    assert (await desk.score("state", task, [("set_phone", {"phone": "1"})])).partial == 0.0


async def test_reads_and_previews_in_any_number_change_nothing(desk: Desk) -> None:
    preview: Calls = [("list_loans", {}), ("renew_loan", {"loan_id": "L1"})]
    assert (await desk.score("state", desk.task(RENEW), [*preview, *RENEW, *preview])).value == 1.0


async def test_task_in_which_nothing_is_to_be_changed_is_spoilt_by_any_write(desk: Desk) -> None:
    task = desk.task([("list_loans", {})])
    assert (await desk.score("state", task, [])).value == 1.0
    spoilt = await desk.score("state", task, BORROW)
    assert (spoilt.value, spoilt.partial) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ([("renew_loan", {"loan_id": "NOPE", "confirm": True})], "reference action 0 (renew_loan) failed"),
        ([("no_such_tool", {})], "reference action 0 (no_such_tool) cannot be called"),
        ([("list_loans", {}), ("return_loan", {"loan_id": {"$from": "0/loans/9/loan_id"}})], "leads nowhere"),
    ],
)
async def test_reference_that_does_not_run_scores_nobody(desk: Desk, actions: Calls, reason: str) -> None:
    """V7: neither the idle agent nor the busy one passes or fails, and the verdict says why."""
    for calls in ([], RENEW):
        verdict = await desk.verdict(desk.task(actions), calls)
        assert verdict.solved is None
        assert verdict.is_checkable
        assert reason in (verdict.unscored or "")


# ---- ids made at run time ---------------------------------------------------------------------------------------

TWO: Calls = [("borrow", {"title": "Dune"}), ("borrow", {"title": "Emma"})]


def loan_of(number: int) -> Any:
    return lambda results: results[number]["loan_id"]


async def test_rows_made_in_another_order_are_the_same_rows(desk: Desk) -> None:
    assert (await desk.score("state", desk.task(TWO), TWO[::-1])).value == 1.0


async def test_ids_drawn_in_between_do_not_matter_and_links_between_new_rows_do(desk: Desk) -> None:
    actions: Calls = [*TWO, ("reserve", {"title": "Dune", "loan_id": {"$from": "0/loan_id"}})]
    task = desk.task(actions)
    other_way: Calls = [*TWO[::-1], ("reserve", {"title": "Dune", "loan_id": loan_of(1)})]
    assert (await desk.score("state", task, other_way)).value == 1.0
    # Borrowed and returned first: every later id, code and note is another one.
    detour: Calls = [
        ("borrow", {"title": "Fables"}),
        ("return_loan", {"loan_id": loan_of(0)}),
        *TWO,
        ("reserve", {"title": "Dune", "loan_id": loan_of(2)}),
    ]
    assert (await desk.score("state", task, detour)).value == 1.0
    wrong_link: Calls = [*TWO[::-1], ("reserve", {"title": "Dune", "loan_id": loan_of(0)})]
    score = await desk.score("state", task, wrong_link)
    assert score.value == 0.0
    assert "Reservation" in score.evidence["tables"]
    existing: Calls = [*TWO[::-1], ("reserve", {"title": "Dune", "loan_id": "L2"})]
    assert (await desk.score("state", task, existing)).value == 0.0


async def test_numbers_counted_up_may_be_swapped_but_what_they_are_for_may_not(desk: Desk) -> None:
    actions: Calls = [("reserve", {"title": "Dune"}), ("reserve", {"title": "Emma"})]
    task = desk.task(actions)
    assert (await desk.score("state", task, actions[::-1])).value == 1.0
    assert (await desk.score("state", task, [actions[0], ("reserve", {"title": "Erewhon"})])).value == 0.0


async def test_wrong_value_that_nobody_had_before_is_never_taken_for_a_name(desk: Desk) -> None:
    task = desk.task([("set_phone", {"phone": "555-0200"}), *TWO])
    wrong: Calls = [*TWO[::-1], ("set_phone", {"phone": "555-0201"})]
    score = await desk.score("state", task, wrong)
    assert score.value == 0.0
    assert list(score.evidence["tables"]) == ["Member"], "the loans are right, whatever they are called"
    assert score.evidence["tables"]["Member"]["differing"][0]["fields"] == {
        "phone": {"wanted": "555-0200", "got": "555-0201"}
    }


async def test_wrong_row_does_not_drag_rows_into_the_evidence_that_only_point_at_it(desk: Desk) -> None:
    actions: Calls = [*BORROW, ("reserve", {"title": "Dune", "loan_id": {"$from": "0/loan_id"}})]
    calls: Calls = [("borrow", {"title": "Dust"}), ("reserve", {"title": "Dune", "loan_id": loan_of(0)})]
    score = await desk.score("state", desk.task(actions), calls)
    assert list(score.evidence["tables"]) == ["Loan"]
    assert score.partial == 0.0, "one of two rows done, and one wrong one added"


# ---- what may differ --------------------------------------------------------------------------------------------


async def test_only_declared_fields_may_differ(tmp_path: Path) -> None:
    base = write_library(tmp_path)
    actions: Calls = [("borrow", {"title": "Dune"})]
    wrong: Calls = [("borrow", {"title": "dune"})]
    task = Desk(base).task(actions)
    assert (await Desk(base).score("state", task, wrong)).value == 0.0
    (base / "scoring").mkdir()
    (base / "scoring" / "LibraryDesk.yml").write_text("ignore: {Loan: [title]}\n")
    assert (await Desk(base).score("state", task, wrong)).value == 1.0
    (base / "scoring" / "LibraryDesk.yml").write_text("ignore: {'*': [title], Member: [phone]}\n")
    desk = Desk(base)
    assert (await desk.score("state", task, [*wrong, ("set_phone", {"phone": "0"})])).value == 1.0
    assert (await desk.score("state", task, [])).value == 0.0, "what is ignored in a row does not make the row"


async def test_task_may_declare_fields_of_its_own(desk: Desk) -> None:
    task = desk.task(RENEW, scoring={"ignore": {"Member": ["phone"]}})
    assert (await desk.score("state", task, [*RENEW, ("set_phone", {"phone": "0"})])).value == 1.0


async def test_blueprints_of_the_generator_say_what_is_not_compared(tmp_path: Path) -> None:
    base = write_library(tmp_path)
    attributes = {"title": {"type": "string", "ignore_in_eval": True}, "due": {"type": "string"}}
    blueprints = [
        {"MCP_server_name": "LibraryDesk", "relationships": [{"name": "Loan", "attributes": attributes}]},
        {"MCP_server_name": "Elsewhere", "relationships": [{"name": "Member", "attributes": {"phone": attributes}}]},
    ]
    (base / "blueprints.json").write_text(json.dumps(blueprints))
    desk = Desk(base)
    task = desk.task([("borrow", {"title": "Dune"})])
    assert (await desk.score("state", task, [("borrow", {"title": "Anything"})])).value == 1.0
    assert (await desk.score("state", task, [*BORROW, ("set_phone", {"phone": "0"})])).value == 0.0


@pytest.mark.parametrize("text", ["ignor: {Loan: [title]}", "ignore: [title]", "{"])
def test_rules_that_cannot_be_read_are_an_error_with_the_files_name(tmp_path: Path, text: str) -> None:
    base = write_library(tmp_path)
    (base / "scoring").mkdir()
    (base / "scoring" / "LibraryDesk.yml").write_text(text)
    with pytest.raises(ConfigError, match=r"LibraryDesk\.yml"):
        Desk(base)


async def test_rules_of_a_task_that_cannot_be_read_leave_it_unscored(desk: Desk) -> None:
    verdict = await desk.verdict(desk.task(RENEW, scoring={"ignored": {}}), RENEW)
    assert verdict.solved is None
    assert "task_info.scoring" in (verdict.unscored or "")


# ---- several servers --------------------------------------------------------------------------------------------


@pytest.fixture
def both(tmp_path: Path) -> Desk:
    return Desk(write_library(tmp_path), "LibraryDesk_RoomBooker")


async def test_prefixed_names_reach_their_servers_and_the_reference_replays(both: Desk) -> None:
    """V4: the reference names a tool by its server, the agent by its prefix."""
    actions: Calls = [("LibraryDesk.borrow", {"title": "Dune"}), ("RoomBooker.book_room", {"room": "A", "day": "Mon"})]
    task = both.task(actions)
    assert task.actions is not None
    assert [action.name for action in task.actions] == ["ld_borrow", "rb_book_room"]
    assert (await both.verdict(task, actions[::-1])).solved is True
    assert (await both.verdict(task, actions[:1])).solved is False


async def test_change_through_the_second_server_is_seen(both: Desk) -> None:
    """V5: both servers hold the members; what the second one writes there counts, wanted or not."""
    change: Calls = [("RoomBooker.set_email", {"email": "new@mail.example"})]
    task = both.task(change)
    assert (await both.verdict(task, change)).solved is True
    assert (await both.verdict(task, [])).solved is False
    damage = await both.score("state", both.task([("LibraryDesk.borrow", {"title": "Dune"})]), [
        ("LibraryDesk.borrow", {"title": "Dune"}), *change,
    ])  # fmt: skip
    assert damage.value == 0.0
    (fields,) = (found["fields"] for table in damage.evidence["tables"].values() for found in table["differing"])
    assert fields == {"email": {"wanted": "ada@mail.example", "got": "new@mail.example"}}
