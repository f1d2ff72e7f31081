"""The rules of `StudentFinancialServices`: what its server refuses, what only its policy forbids, what its sums say.

What holds for every shipped domain stands in test_shipped_domains.py.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.examples.shipped import Row, Session, shipped

FINANCE = shipped("StudentFinancialServices")
PORTAL = shipped("StudentAcademicPortal")
TABLES = FINANCE.tables
KINDS = {row["aidprogram_id"]: row["kind"] for row in TABLES["AidProgram"]}


@pytest.fixture
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    opened = Session(FINANCE, request.node.nodeid)
    yield opened
    opened.close()


def find(table: str, **having: Any) -> Row:
    """The first row with these values."""
    return next(row for row in TABLES[table] if all(row[key] == value for key, value in having.items()))


def charge_of(student_id: str, feetype_id: str, term_id: str = "2025SP") -> str:
    charge_id: str = find("Charge", student_id=student_id, feetype_id=feetype_id, term_id=term_id)["charge_id"]
    return charge_id


def award_of(student_id: str, aidprogram_id: str, term_id: str = "2025SP") -> str:
    award = find("AidAward", student_id=student_id, aidprogram_id=aidprogram_id, term_id=term_id)
    aidaward_id: str = award["aidaward_id"]
    return aidaward_id


# The rules that the server enforces.


@pytest.mark.parametrize(
    ("student_id", "tool", "arguments", "says"),
    [
        ("S22503", "make_payment", {"term_id": "2025SU", "amount": 10, "method": "card"}, "There is no Term"),
        ("S22503", "make_payment", {"term_id": "2025SP", "amount": 0, "method": "card"}, "must be positive"),
        ("S22503", "make_payment", {"term_id": "2025SP", "amount": -5, "method": "card"}, "must be positive"),
        ("S22503", "make_payment", {"term_id": "2025SP", "amount": 1.005, "method": "card"}, "two decimals"),
        (
            "S22503",
            "make_payment",
            {"term_id": "2025SP", "amount": 1275.41, "method": "card"},
            "1275.41 is more than the balance of 2025SP, which is 1275.40",
        ),
        ("S22503", "make_payment", {"term_id": "2024FA", "amount": 1, "method": "card"}, "which is 0.00"),
        ("S29526", "make_payment", {"term_id": "2025SP", "amount": 1, "method": "card"}, "which is 0.00"),
        ("S20376", "make_payment", {"term_id": "2025SP", "amount": 2000.01, "method": "card"}, "2000.00 at most"),
        ("S25456", "make_payment", {"term_id": "2025SP", "amount": 10, "method": "bank_account"}, "by card only"),
        ("S25665", "waive_fee", {"charge_id": charge_of("S25665", "COMPREHENSIVE")}, "cannot be waived"),
        ("S25665", "waive_fee", {"charge_id": charge_of("S25665", "HEALTHINS", "2024FA")}, "passed on 2024-09-13"),
        ("S25665", "waive_fee", {"charge_id": charge_of("S27558", "HEALTHINS")}, "The student has no Charge"),
        (
            "S28248",
            "dispute_charge",
            {"charge_id": charge_of("S28248", "PARKING", "2024FA"), "reason": "duplicate"},
            "disputes are taken for 60 days",
        ),
        (
            "S22069",
            "dispute_charge",
            {"charge_id": charge_of("S22069", "PARKING"), "reason": "duplicate"},
            "can be disputed once",
        ),
        ("S25804", "release_hold", {"hold_id": "HLD-001"}, "412.50 is past due"),
        ("S25804", "release_hold", {"hold_id": "HLD-006"}, "no active bursar hold 'HLD-006'"),
        ("S29371", "release_hold", {"hold_id": "HLD-009"}, "no active bursar hold"),
        ("S25804", "enroll_payment_plan", {"planoption_id": "PLAN-4"}, "hold (HLD-001) blocks payment plans"),
        ("S23364", "enroll_payment_plan", {"planoption_id": "PLAN-5"}, "closed on 2025-01-15"),
        ("S27327", "enroll_payment_plan", {"planoption_id": "PLAN-3"}, "already has payment plan PLN-0"),
        ("S28493", "enroll_payment_plan", {"planoption_id": "PLAN-4"}, "at least 1000.00 due; it is 640.00"),
        ("S20984", "cancel_payment_plan", {"paymentplan_id": "PLN-05"}, "canceled already"),
        ("S29863", "respond_to_award", {"aidaward_id": "AWD-999", "response": "accept"}, "no AidAward"),
        (
            "S29863",
            "respond_to_award",
            {"aidaward_id": award_of("S29863", "GRANT-LARK"), "response": "decline"},
            "disbursed on 2025-01-21",
        ),
        (
            "S29863",
            "respond_to_award",
            {"aidaward_id": award_of("S29863", "LOAN-SUB"), "response": "accept"},
            "accepted already",
        ),
        (
            "S22209",
            "respond_to_award",
            {"aidaward_id": award_of("S22209", "LOAN-UNSUB"), "response": "accept"},
            "declined already",
        ),
        (
            "S23175",
            "respond_to_award",
            {"aidaward_id": award_of("S23175", "LOAN-SUB"), "response": "accept"},
            "entrance counseling",
        ),
        (
            "S29016",
            "respond_to_award",
            {"aidaward_id": award_of("S29016", "LOAN-UNSUB"), "response": "reduce", "amount": 2000.5},
            "more than the award, which is 2000.00",
        ),
        (
            "S29016",
            "respond_to_award",
            {"aidaward_id": award_of("S29016", "LOAN-UNSUB"), "response": "reduce"},
            "Give an amount with the response 'reduce'",
        ),
        (
            "S29016",
            "respond_to_award",
            {"aidaward_id": award_of("S29016", "LOAN-UNSUB"), "response": "decline", "amount": 5},
            "and only then",
        ),
        (
            "S27730",
            "respond_to_award",
            {"aidaward_id": award_of("S27730", "GRANT-LARK"), "response": "reduce", "amount": 5},
            "Only loans can be reduced",
        ),
        ("S29221", "apply_for_scholarship", {"scholarship_id": "SCH-09"}, "passed on 2025-01-20"),
        ("S29221", "apply_for_scholarship", {"scholarship_id": "SCH-05"}, "applied for SCH-05 already"),
        ("S25342", "apply_for_scholarship", {"scholarship_id": "SCH-11"}, "3 pending applications; 3 is the most"),
        ("S25342", "withdraw_scholarship_application", {"scholarshipapplication_id": "APP-06"}, "is under_review"),
        (
            "S29526",
            "request_refund",
            {"term_id": "2025SP", "amount": 385.01, "method": "check"},
            "the credit that can be refunded, which is 385.00",
        ),
        ("S25804", "request_refund", {"term_id": "2025SP", "amount": 1, "method": "check"}, "blocks refunds"),
        ("S28990", "request_refund", {"term_id": "2025SP", "amount": 1, "method": "direct_deposit"}, "no bank account"),
        ("S25132", "order_document", {"document": "1098-T", "period": "2024", "delivery": "portal"}, "2025-01-31 on"),
        ("S25132", "order_document", {"document": "1098-T", "period": "2021", "delivery": "portal"}, "2022, 2023"),
        (
            "S25132",
            "order_document",
            {"document": "account_statement", "period": "2023", "delivery": "portal"},
            "There is no Term",
        ),
        ("S20984", "order_document", {"document": "1098-T", "period": "2023", "delivery": "postal"}, "under way"),
    ],
)
def test_enforced_rule_refuses_and_changes_nothing(
    student_id: str, tool: str, arguments: Row, says: str, session: Session
) -> None:
    session.authorize(student_id)
    before = session.state()
    for confirm in (False, True):
        assert says in session.call(tool, **arguments, confirm=confirm)["error"]
    assert session.state() == before


def test_a_waived_charge_counts_no_more_and_cannot_be_waived_or_disputed_again(session: Session) -> None:
    charge_id = charge_of("S25665", "HEALTHINS")
    assert session.authorize("S25665").call("waive_fee", charge_id=charge_id, confirm=True)["balance_after"] == 640.0
    assert "waived already" in session.call("waive_fee", charge_id=charge_id)["error"]
    assert "waived already" in session.call("dispute_charge", charge_id=charge_id, reason="duplicate")["error"]


def test_a_credit_is_refunded_once_and_only_beyond_what_other_terms_owe(session: Session) -> None:
    session.authorize("S29526")
    refund = {"term_id": "2025SP", "method": "check", "confirm": True}
    assert session.call("request_refund", amount=100, **refund)["amount"] == 100.0
    assert "under way" in session.call("request_refund", amount=100, **refund)["error"]
    assert session.call("get_account_summary")["terms"][1]["balance"] == -285.0
    find_in = session.tables["Refund"]
    find_in[:] = [row for row in find_in if row["student_id"] != "S29526"]
    charge = find("Charge", student_id="S29526", feetype_id="TUITION", term_id="2024FA")
    session.tables["Charge"].append({**charge, "charge_id": "CHG-X", "amount": 300.0})
    assert "which is 85.00" in session.call("request_refund", amount=100, **refund)["error"]


def test_a_plan_spreads_what_is_due_and_its_fee_and_pays_out_to_the_cent(session: Session) -> None:
    session.authorize("S20376")
    plan = session.call("enroll_payment_plan", planoption_id="PLAN-3", confirm=True)
    assert plan["total"] == 2625.0
    assert session.call("get_account_summary")["terms"][1]["amount_due"] == plan["total"]
    for option in session.call("get_account_summary")["plan_options"]:
        paid = option["installment_amount"] * (option["installments"] - 1) + option["last_installment"]
        assert round(paid, 2) == option["total"]


def test_declining_a_loan_needs_no_counseling(session: Session) -> None:
    aidaward_id = award_of("S23175", "LOAN-SUB")
    session.authorize("S23175")
    assert session.call("respond_to_award", aidaward_id=aidaward_id, response="decline", confirm=True)["success"]


def test_an_accepted_loan_can_be_reduced_and_declined_until_it_is_disbursed(session: Session) -> None:
    answer = {"aidaward_id": award_of("S29016", "LOAN-UNSUB"), "confirm": True}
    session.authorize("S29016")
    assert session.call("respond_to_award", response="reduce", amount=800, **answer)["accepted_amount"] == 800.0
    assert "which is 800.00" in session.call("respond_to_award", response="reduce", amount=900, **answer)["error"]
    assert session.call("respond_to_award", response="decline", **answer)["accepted_amount"] == 0.0


def test_accepted_aid_lowers_what_is_due_but_not_the_balance(session: Session) -> None:
    session.authorize("S26528")
    before = session.call("get_account_summary")["terms"][1]
    session.call("respond_to_award", aidaward_id=award_of("S26528", "LOAN-SUB"), response="accept", confirm=True)
    after = session.call("get_account_summary")["terms"][1]
    assert after["balance"] == before["balance"]
    assert after["amount_due"] == before["amount_due"] - 1750.0


def test_work_study_never_enters_the_account(session: Session) -> None:
    session.authorize("S22267")
    before = session.call("get_account_summary")["terms"]
    session.call("respond_to_award", aidaward_id=award_of("S22267", "WORK-STUDY"), response="accept", confirm=True)
    assert session.call("get_account_summary")["terms"] == before


def test_holds_of_other_offices_are_neither_shown_nor_released(session: Session) -> None:
    assert find("Hold", hold_id="HLD-004", student_id="S29638", status="active")["kind"] == "library"
    session.authorize("S29638")
    assert session.call("get_account_summary")["active_holds"] == []
    assert "no active bursar hold" in session.call("release_hold", hold_id="HLD-004", confirm=True)["error"]


def test_equal_amounts_make_equal_rows_however_the_number_is_written(session: Session) -> None:
    session.authorize("S20376")
    answer = session.call("make_payment", term_id="2025SP", amount=100, method="card", confirm=True)
    assert json.dumps(answer["amount"]) == "100.0"
    assert answer["convenience_fee"] == 2.75


# What only the policy forbids: the server must let it happen, or an agent could not go wrong.


@pytest.mark.parametrize(
    ("student_id", "calls"),
    [
        ("S26692", [("make_payment", {"term_id": "2025SP", "amount": 1500, "method": "bank_account"})]),
        ("S27558", [("waive_fee", {"charge_id": charge_of("S27558", "HEALTHINS")})]),
        ("S21451", [("respond_to_award", {"aidaward_id": award_of("S21451", "LOAN-UNSUB"), "response": "accept"})]),
        ("S27730", [("enroll_payment_plan", {"planoption_id": "PLAN-4"})]),
        ("S24314", [("dispute_charge", {"charge_id": charge_of("S24314", "TUITION"), "reason": "wrong_amount"})]),
        ("S22069", [("request_refund", {"term_id": "2025SP", "amount": 150, "method": "direct_deposit"})]),
        (
            "S29638",
            [("cancel_payment_plan", {"paymentplan_id": find("PaymentPlan", student_id="S29638")["paymentplan_id"]})],
        ),
        (
            "S25804",
            [
                ("make_payment", {"term_id": "2024FA", "amount": 412.5, "method": "bank_account"}),
                ("release_hold", {"hold_id": "HLD-001"}),
            ],
        ),
        ("S25153", [("respond_to_award", {"aidaward_id": award_of("S25153", "SCH-MERIT"), "response": "decline"})]),
        ("S29380", [("apply_for_scholarship", {"scholarship_id": "SCH-10"})]),
    ],
    ids=[
        "oldest-term-first",
        "visa-insurance",
        "subsidized-first",
        "offers-before-plans",
        "foreign-charge",
        "refund-during-dispute",
        "late-plan-change",
        "uncleared-money",
        "scholarship-given-up",
        "not-eligible",
    ],
)
def test_rule_of_the_policy_alone_is_not_enforced(student_id: str, calls: list[Any], session: Session) -> None:
    session.authorize(student_id)
    for tool, arguments in calls:
        assert session.call(tool, **arguments, confirm=True)["success"] is True


# The queries.


@pytest.mark.parametrize("query", FINANCE.queries, ids=[query["id"] for query in FINANCE.queries])
def test_every_amount_in_the_replies_comes_from_a_result_or_from_the_user(query: Row, session: Session) -> None:
    known = json.dumps(session.play(query)) + " ".join([query["messages"][0]["content"], query["user_system_prompt"]])
    numbers = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", known)} | {FINANCE.module.CARD_LIMIT}
    told = re.findall(r"\$([\d,]+\.\d\d)", " ".join(query["task_info"]["replies"]))
    assert [amount for amount in told if float(amount.replace(",", "")) not in numbers] == []


# The database.


def test_students_and_holds_are_those_of_the_academic_portal() -> None:
    assert TABLES["Student"] == PORTAL.tables["Student"]
    assert TABLES["Hold"] == PORTAL.tables["Hold"]


def test_what_a_bursar_hold_says_is_what_the_account_owes(session: Session) -> None:
    for hold in [row for row in TABLES["Hold"] if row["kind"] == "bursar"]:
        stated = float(re.findall(r"\$(\d+\.\d\d)", hold["reason"])[0])
        one = Session(FINANCE, f"{session.name} {hold['hold_id']}").authorize(hold["student_id"])
        past_due = one.call("get_account_summary")["past_due"]
        assert past_due == (stated if hold["status"] == "active" else 0.0)
        payments = [row["amount"] for row in one.call("list_transactions", term_id="2024FA")["payments"]]
        assert hold["status"] == "active" or stated in payments
        one.close()


def test_balances_are_charges_less_payments_less_disbursed_aid_plus_refunds(session: Session) -> None:
    for student_id in FINANCE.people:
        one = Session(FINANCE, f"{session.name} {student_id}").authorize(student_id)
        summary = one.call("get_account_summary")
        for term in summary["terms"]:
            listed = one.call("list_transactions", term_id=term["term_id"])
            awards = one.call("list_financial_aid", term_id=term["term_id"])["awards"]
            charges = sum(row["amount"] for row in listed["charges"] if row["status"] == "posted")
            paid = sum(row["amount"] for row in listed["payments"] if row["status"] == "posted")
            aid = sum(row["accepted_amount"] for row in awards if row["disbursed_on"])
            back = sum(row["amount"] for row in listed["refunds"])
            assert term["balance"] == round(charges - paid - aid + back, 2)
            assert term["amount_due"] == max(round(term["balance"] - term["anticipated_aid"], 2), 0.0)
        assert summary["account_balance"] == round(sum(term["balance"] for term in summary["terms"]), 2)
        one.close()


def test_every_active_plan_covers_exactly_what_is_due(session: Session) -> None:
    for plan in TABLES["PaymentPlan"]:
        one = Session(FINANCE, f"{session.name} {plan['paymentplan_id']}").authorize(plan["student_id"])
        if plan["status"] == "active":
            assert one.call("get_account_summary")["terms"][1]["amount_due"] == plan["total"]
            assert (
                find("Charge", student_id=plan["student_id"], feetype_id="PLANFEE")["posted_on"] == plan["enrolled_on"]
            )
        one.close()


def test_every_student_is_billed_tuition_and_the_comprehensive_fee_once_a_term() -> None:
    billed = Counter((row["student_id"], row["term_id"], row["feetype_id"]) for row in TABLES["Charge"])
    for student_id in FINANCE.people:
        for term in TABLES["Term"]:
            assert billed[student_id, term["term_id"], "TUITION"] == 1
            assert billed[student_id, term["term_id"], "COMPREHENSIVE"] == 1


def test_what_the_portal_says_about_visas_scholarships_and_transcripts_shows_in_the_account() -> None:
    for student_id, student in FINANCE.people.items():
        kinds = {KINDS[row["aidprogram_id"]] for row in TABLES["AidAward"] if row["student_id"] == student_id}
        assert ("scholarship" in kinds) == (student["full_time_reason"] == "scholarship")
        if student["full_time_reason"] == "student visa":
            assert charge_of(student_id, "HEALTHINS")
    for request in PORTAL.tables["TranscriptRequest"]:
        fee = find("Charge", student_id=request["student_id"], feetype_id="TRANSCRIPT")
        assert (fee["amount"], fee["posted_on"]) == (request["fee"], request["requested_at"][:10])


def test_awards_have_an_amount_exactly_when_they_were_answered() -> None:
    for award in TABLES["AidAward"]:
        assert (award["accepted_amount"] is None) == (award["status"] == "offered")
        assert (award["accepted_amount"] or 0.0) <= award["offered_amount"]
        assert not award["disbursed_on"] or award["status"] == "accepted"


def test_amounts_are_dollars_and_cents() -> None:
    for rows in TABLES.values():
        for row in rows:
            assert all(value == round(value, 2) for value in row.values() if isinstance(value, float))


def test_card_payments_carry_their_fee() -> None:
    for row in TABLES["Payment"]:
        assert row["convenience_fee"] == (round(row["amount"] * 0.0275, 2) if row["method"] == "card" else 0.0)
        assert row["amount"] > 0
        assert row["method"] == "bank_account" or row["amount"] <= FINANCE.module.CARD_LIMIT
