"""The rules of `StudentAcademicPortal`: what its server refuses, what only its policy forbids, what its tables promise.

What holds for every shipped domain stands in test_shipped_domains.py.
"""

import pickle
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from tests.examples.shipped import Row, Session, shipped

PORTAL = shipped("StudentAcademicPortal")
MODULE, SERVER, TABLES, STUDENTS = PORTAL.module, PORTAL.server, PORTAL.tables, PORTAL.people


@pytest.fixture
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    opened = Session(PORTAL, request.node.nodeid)
    yield opened
    opened.close()


@pytest.fixture
def other_session(request: pytest.FixtureRequest) -> Iterator[Session]:
    opened = Session(PORTAL, f"{request.node.nodeid} (other)")
    yield opened
    opened.close()


# Arguments.


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("enroll_course", {}, "Missing argument(s) for enroll_course: section_id"),
        ("enroll_course", {"section_id": None}, "Missing"),
        ("enroll_course", {"section": "CS101-02"}, "Unknown argument(s) for enroll_course: section. It takes"),
        ("enroll_course", {"section_id": 5}, "must be a string"),
        ("enroll_course", {"section_id": " "}, "must not be empty"),
        ("enroll_course", {"section_id": ["CS101-02"]}, "must be a string"),
        ("enroll_course", {"section_id": "CS101-02", "confirm": "yes"}, "must be true or false"),
        ("enroll_course", {"section_id": "XX999-01"}, "There is no Section with section_id 'XX999-01'"),
        ("get_course_details", {"course_id": "XX999"}, "There is no Course"),
        ("search_courses", {"department": "Alchemy"}, "must be one of: Art, Biology"),
        ("request_transcript", {"delivery_method": "fax", "recipient": "x"}, "must be one of: electronic, postal"),
        ("request_transcript", {"delivery_method": "postal", "recipient": "x", "copies": True}, "must be an integer"),
        ("request_transcript", {"delivery_method": "postal", "recipient": "x", "copies": 1.5}, "must be an integer"),
        ("list_advising_slots", {"advisor_id": "ADV99"}, "There is no Advisor"),
        ("get_profile", {"student_id": "S21451"}, "It takes: no arguments"),
    ],
)
def test_bad_arguments_come_back_as_helpful_errors(tool: str, arguments: Row, says: str, session: Session) -> None:
    session.authorize("S21451")
    before = session.state()
    assert says in session.call(tool, **arguments)["error"]
    assert session.state() == before


def test_null_for_an_optional_argument_counts_as_not_given(session: Session) -> None:
    session.authorize("S21451")
    assert session.call("get_transcript_summary", term=None) == session.call("get_transcript_summary")


def test_search_combines_its_filters(session: Session) -> None:
    session.authorize("S21451")
    assert session.call("search_courses")["count"] == len(TABLES["Course"])
    found = session.call("search_courses", keyword="THEORY", department="Music", open_only=False)["courses"]
    assert [course["course_id"] for course in found] == ["MUS120"]
    assert session.call("search_courses", keyword="theory", department="Music", open_only=True)["courses"] == []


# Other students' records, and sessions.


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("cancel_advising_appointment", {"appointment_id": "APT-019"}),
        ("leave_waitlist", {"section_id": "PSYC210-02"}),
        ("drop_course", {"section_id": "CS101-02"}),
        ("swap_section", {"from_section_id": "CS101-02", "to_section_id": "CS101-03"}),
        ("update_contact_details", {"student_id": "S29526", "phone": "555-200-2000"}),
    ],
)
def test_another_students_records_are_refused(tool: str, arguments: Row, session: Session) -> None:
    session.authorize("S21451")
    before = session.state()
    assert "error" in session.call(tool, **arguments, confirm=True)
    assert session.state() == before


def test_a_session_restored_from_pickled_fields_goes_on_where_it_was(session: Session, other_session: Session) -> None:
    session.authorize("S21451").call("enroll_course", section_id="MATH120-03", confirm=True)
    fields = pickle.loads(pickle.dumps(vars(SERVER._get_session(session.name))))
    vars(SERVER._get_session(other_session.name)).update(fields)
    assert other_session.state() == session.state()
    assert other_session.call("drop_course", section_id="MATH120-03", confirm=True)["success"] is True
    assert SERVER._tables == TABLES


# The rules that the server enforces.


@pytest.mark.parametrize(
    ("student_id", "tool", "arguments", "says"),
    [
        ("S20388", "enroll_course", {"section_id": "HIST105-02"}, "immunization hold (HLD-003) blocks registration"),
        ("S20388", "join_waitlist", {"section_id": "MATH120-01"}, "blocks registration"),
        ("S23675", "swap_section", {"from_section_id": "ENGL101-01", "to_section_id": "ENGL101-03"}, "immunization"),
        ("S23175", "enroll_course", {"section_id": "PHIL205-02"}, "deadline to add PHIL205-02 passed on 2025-01-10"),
        ("S23175", "enroll_course", {"section_id": "CS201-01"}, "already enrolled in CS201 (CS201-03)"),
        ("S29638", "enroll_course", {"section_id": "BIO340-01"}, "needs BIO201 with C or better"),
        ("S29371", "enroll_course", {"section_id": "CS201-02"}, "needs CS101 with C or better"),
        ("S20376", "enroll_course", {"section_id": "CHEM201-02"}, "CHEM201-02 is full (6 seats)"),
        ("S21451", "enroll_course", {"section_id": "MATH120-02"}, "conflicts with HIST130-01 (TR 11:00-12:15)"),
        (
            "S29016",
            "enroll_course",
            {"section_id": "PHIL101-01"},
            "make 20 credits; the student's limit this term is 18",
        ),
        ("S25665", "drop_course", {"section_id": "HIST130-02"}, "deadline to drop HIST130-02 passed on 2025-01-17"),
        ("S25665", "drop_course", {"section_id": "CS201-01"}, "not enrolled"),
        ("S23590", "swap_section", {"from_section_id": "CS201-03", "to_section_id": "CS301-01"}, "same course"),
        ("S23590", "swap_section", {"from_section_id": "CS201-03", "to_section_id": "CS201-03"}, "same course"),
        (
            "S23590",
            "swap_section",
            {"from_section_id": "CS201-03", "to_section_id": "CS201-02"},
            "conflicts with PSYC101",
        ),
        ("S23590", "swap_section", {"from_section_id": "PSYC101-02", "to_section_id": "PSYC101-03"}, "deadline to add"),
        ("S23590", "swap_section", {"from_section_id": "ART115-02", "to_section_id": "ART115-01"}, "deadline to drop"),
        ("S28248", "swap_section", {"from_section_id": "CHEM201-01", "to_section_id": "CHEM201-02"}, "is full"),
        ("S24314", "join_waitlist", {"section_id": "HIST105-01"}, "already on the waitlist"),
        ("S24314", "join_waitlist", {"section_id": "CS101-02"}, "open seat(s): enroll instead"),
        ("S24314", "join_waitlist", {"section_id": "MATH120-01"}, "already enrolled in MATH120"),
        ("S24314", "join_waitlist", {"section_id": "CHEM201-02"}, "needs CHEM101"),
        ("S27730", "join_waitlist", {"section_id": "MATH110-01"}, "on 3 waitlists already"),
        ("S24314", "leave_waitlist", {"section_id": "MATH110-01"}, "not on the waitlist"),
        ("S29638", "request_transcript", {"delivery_method": "electronic", "recipient": "a@b.example"}, "library hold"),
        (
            "S28493",
            "request_transcript",
            {"delivery_method": "electronic", "recipient": "9 Elm Street"},
            "email address",
        ),
        (
            "S28493",
            "request_transcript",
            {"delivery_method": "electronic", "recipient": "a@b.example", "copies": 2},
            "between 1 and 1",
        ),
        ("S28493", "request_transcript", {"delivery_method": "postal", "recipient": "9 Elm", "copies": 6}, "1 and 5"),
        ("S28493", "request_transcript", {"delivery_method": "postal", "recipient": "9 Elm", "copies": 0}, "1 and 5"),
        ("S28493", "update_contact_details", {}, "Nothing to change"),
        ("S28493", "update_contact_details", {"phone": "555-253-4877"}, "Nothing to change"),
        ("S28493", "update_contact_details", {"phone": "5552534877"}, "must look like"),
        ("S28493", "update_contact_details", {"email": "gideon at home"}, "not an email address"),
        ("S28493", "update_contact_details", {"email": "Liam.Lachlan@mailbox.example"}, "another student's account"),
        ("S28248", "book_advising_appointment", {"advisingslot_id": "ADV06-0122-1500", "topic": "internship"}, "past"),
        ("S28248", "book_advising_appointment", {"advisingslot_id": "ADV06-0127-1300", "topic": "internship"}, "taken"),
        (
            "S25411",
            "book_advising_appointment",
            {"advisingslot_id": "ADV10-0130-1300", "topic": "internship"},
            "APT-027",
        ),
        ("S25153", "cancel_advising_appointment", {"appointment_id": "APT-001"}, "no upcoming appointment"),
        ("S25773", "cancel_advising_appointment", {"appointment_id": "APT-003"}, "no upcoming appointment"),
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


def test_a_term_without_grades_is_refused_with_the_terms_there_are(session: Session) -> None:
    assert "2024FA" in session.authorize("S21451").call("get_transcript_summary", term="2020FA")["error"]


def test_a_high_gpa_raises_the_credit_limit_to_21_and_no_further(session: Session) -> None:
    session.authorize("S29526")
    assert session.call("enroll_course", section_id="CS210-02", confirm=True)["total_credits"] == 19
    assert (
        "22 credits; the student's limit this term is 21"
        in session.call("enroll_course", section_id="CS320-01")["error"]
    )


def test_a_dropped_seat_is_free_for_others_and_can_be_taken_again(session: Session) -> None:
    session.authorize("S29016")
    assert session.call("drop_course", section_id="BIO230-01", confirm=True)["total_credits"] == 14
    sections = session.call("get_course_details", course_id="BIO230")["sections"]
    before = next(row for row in SERVER._tables["Section"] if row["section_id"] == "BIO230-01")["capacity"] - 4
    assert sections[0]["seats_available"] == before + 1
    assert session.call("enroll_course", section_id="BIO230-01", confirm=True)["total_credits"] == 17


def test_sections_of_different_parts_of_term_do_not_conflict_and_enrolling_ends_the_wait(session: Session) -> None:
    session.authorize("S21451")
    assert [entry["section_id"] for entry in session.call("list_enrollments")["waitlists"]] == ["CS101-01"]
    assert session.call("enroll_course", section_id="CS101-03", confirm=True)["success"]
    assert session.call("list_enrollments")["waitlists"] == []


# What only the policy forbids: the server must let it happen, or an agent could not go wrong.


@pytest.mark.parametrize(
    ("student_id", "calls"),
    [
        ("S27558", [("drop_course", {"section_id": "CS102-01"})]),
        ("S25342", [("enroll_course", {"section_id": "PHYS102-02"})]),
        ("S29380", [("enroll_course", {"section_id": "ENGL410-01"})]),
        ("S25132", [("book_advising_appointment", {"advisingslot_id": "ADV01-0127-0900", "topic": "internship"})]),
        ("S22209", [("book_advising_appointment", {"advisingslot_id": "ADV04-0127-1030", "topic": "internship"})]),
        ("S23364", [("cancel_advising_appointment", {"appointment_id": "APT-018"})]),
        (
            "S21809",
            [
                ("update_contact_details", {"email": "new@posthaven.example"}),
                ("request_transcript", {"delivery_method": "electronic", "recipient": "hr@lumen-optics.example"}),
            ],
        ),
    ],
    ids=[
        "full-time",
        "repeat",
        "400-level",
        "foreign-advisor",
        "during-class",
        "late-cancel",
        "transcript-after-email",
    ],
)
def test_rule_of_the_policy_alone_is_not_enforced(student_id: str, calls: list[Any], session: Session) -> None:
    session.authorize(student_id)
    for tool, arguments in calls:
        assert session.call(tool, **arguments, confirm=True)["success"] is True


# The database.


def test_seats_timetables_prerequisites_and_waitlists_hold_together() -> None:
    sections = {row["section_id"]: row for row in TABLES["Section"]}
    enrolled = [row for row in TABLES["Enrollment"] if row["status"] == "enrolled"]
    seats = Counter(row["section_id"] for row in enrolled)
    assert all(seats[name] <= section["capacity"] for name, section in sections.items())
    assert all(seats[row["section_id"]] == sections[row["section_id"]]["capacity"] for row in TABLES["WaitlistEntry"])
    points = {(row["student_id"], row["course_id"]): -1.0 for row in TABLES["Grade"]}
    for row in TABLES["Grade"]:
        key = (row["student_id"], row["course_id"])
        points[key] = max(points[key], MODULE.GRADE_POINTS.get(row["letter"], -1.0))
    for student_id in STUDENTS:
        mine = [sections[row["section_id"]] for row in enrolled if row["student_id"] == student_id]
        assert not any(MODULE._clash(one, other) for one, other in combinations(mine, 2))
        assert len({section["course_id"] for section in mine}) == len(mine)
        taken = {section["course_id"] for section in mine}
        needed = [row for row in TABLES["Prerequisite"] if row["course_id"] in taken]
        assert all(points.get((student_id, row["required_course_id"]), -1.0) >= 2.0 for row in needed)


def test_no_room_instructor_or_advising_slot_is_used_twice() -> None:
    for column in ("room", "instructor"):
        for one, other in combinations(TABLES["Section"], 2):
            assert one[column] != other[column] or not MODULE._clash(one, other), (one, other)
    booked = [row["advisingslot_id"] for row in TABLES["Appointment"] if row["status"] == "booked"]
    assert len(set(booked)) == len(booked)


def test_gpa_is_the_credit_weighted_mean_of_all_graded_attempts(session: Session) -> None:
    summary = session.authorize("S25804").call("get_transcript_summary")
    graded = [(MODULE.GRADE_POINTS[row["letter"]], row["credits"]) for row in summary["grades"] if row["letter"] != "W"]
    mean = sum(points * credit for points, credit in graded) / sum(credit for _, credit in graded)
    assert summary["cumulative_gpa"] == round(mean, 2)
    distinct = {row["course_id"]: row["credits"] for row in summary["grades"] if row["letter"] not in ("W", "F")}
    assert summary["credits_earned"] == sum(distinct.values())
