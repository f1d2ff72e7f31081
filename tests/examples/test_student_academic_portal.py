"""The shipped domain `StudentAcademicPortal` keeps its word: server, tool list, policy, database and queries agree."""

import copy
import hashlib
import importlib.util
import json
import pickle
import re
import timeit
from collections import Counter
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

import pytest

DOMAIN = "StudentAcademicPortal"
ROOT = Path(__file__).parents[2] / "rollout/examples/datasets/single_domain"
QUERIES = [json.loads(line) for line in (ROOT / f"queries/{DOMAIN}.jsonl").read_text(encoding="utf-8").splitlines()]
TOOL_LIST = json.loads((ROOT / f"tool_lists/{DOMAIN}.json").read_text(encoding="utf-8"))
SCHEMAS = {entry["function"]["name"]: entry["function"]["parameters"] for entry in TOOL_LIST}
WRITES = {name for name, schema in SCHEMAS.items() if "confirm" in schema["properties"]}

Row = dict[str, Any]


def load_server_module() -> ModuleType:
    """Load by file path and without registering the module, the hardest way in which a world may load it."""
    spec = importlib.util.spec_from_file_location(DOMAIN, ROOT / f"mcp_servers/{DOMAIN}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULE = load_server_module()
SERVER = MODULE.StudentAcademicPortalServer(DOMAIN)
TABLES: dict[str, list[Row]] = copy.deepcopy(SERVER._tables)
STUDENTS = {row["student_id"]: row for row in TABLES["Student"]}


class Session:
    """One session on the shared server, closed by the fixture that opened it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def call(self, tool: str, **arguments: Any) -> Row:
        answer: Row = SERVER.invoke(self.name, tool, **arguments)
        assert json.loads(json.dumps(answer)) == answer
        return answer

    def authorize(self, student_id: str) -> "Session":
        answer = self.call("authorize_student", student_id=student_id, portal_pin=STUDENTS[student_id]["portal_pin"])
        assert answer["success"] is True
        return self

    def state(self) -> str:
        return json.dumps(SERVER._get_session(self.name).databases, sort_keys=True)


@pytest.fixture
def session(request: pytest.FixtureRequest):
    yield Session(request.node.nodeid)
    SERVER.close_session(request.node.nodeid)


@pytest.fixture
def other_session(request: pytest.FixtureRequest):
    yield Session(f"{request.node.nodeid} (other)")
    SERVER.close_session(f"{request.node.nodeid} (other)")


def resolve(value: Any, results: list[Row]) -> Any:
    """The value itself, or what `{"$from": "INDEX/path"}` finds in an earlier result."""
    if not isinstance(value, dict):
        return value
    index, *path = value["$from"].split("/")
    found: Any = results[int(index)]
    for key in path:
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


def actions_of(query: Row) -> list[Row]:
    actions: list[Row] = query["task_info"]["actions"]
    return actions


each_query = pytest.mark.parametrize("query", QUERIES, ids=[query["id"] for query in QUERIES])
each_tool = pytest.mark.parametrize("tool", sorted(SCHEMAS))


# The reference solutions.


@each_query
def test_reference_actions_run_without_error_and_only_writes_change_the_state(query: Row, session: Session) -> None:
    results: list[Row] = []
    for action in actions_of(query):
        arguments = {key: resolve(value, results) for key, value in action["arguments"].items()}
        before = session.state()
        results.append(session.call(action["name"], **arguments))
        assert "error" not in results[-1]
        assert "needs_confirmation" not in results[-1]
        assert (session.state() != before) == (action["name"] in WRITES)


@each_query
def test_reference_writes_without_confirm_only_preview(query: Row, session: Session) -> None:
    results: list[Row] = []
    for action in actions_of(query):
        arguments = {key: resolve(value, results) for key, value in action["arguments"].items()}
        if action["name"] in WRITES:
            before = session.state()
            for unconfirmed in ({}, {"confirm": False}):
                without = {key: value for key, value in arguments.items() if key != "confirm"}
                answer = session.call(action["name"], **without, **unconfirmed)
                assert answer["needs_confirmation"] is True
                assert answer["action_preview"]["action"] == action["name"]
                assert session.state() == before
        results.append(session.call(action["name"], **arguments))


@each_query
def test_reference_keeps_the_order_of_turns_and_confirms_every_write(query: Row) -> None:
    actions = actions_of(query)
    turns = [action["turn"] for action in actions]
    assert turns == sorted(turns)
    assert set(turns) <= set(range(len(query["task_info"]["replies"])))
    assert 2 <= len(actions) <= 9
    assert actions[0]["name"] == "authorize_student"
    assert all(action["arguments"].get("confirm") is True for action in actions if action["name"] in WRITES)


@each_query
def test_reference_arguments_fit_the_tool_list(query: Row) -> None:
    for action in actions_of(query):
        schema = SCHEMAS[action["name"]]
        assert set(schema["required"]) <= set(action["arguments"]) <= set(schema["properties"])
        for key, value in action["arguments"].items():
            wanted = schema["properties"][key]
            assert isinstance(value, dict) or value in wanted.get("enum", [value])
            if isinstance(value, str) and "pattern" in wanted:
                assert re.search(wanted["pattern"], value)


# The queries.


def test_query_ids_are_unique_and_well_formed() -> None:
    assert len(QUERIES) >= 30
    assert len({query["id"] for query in QUERIES}) == len(QUERIES)
    assert all(re.fullmatch(r"[0-9a-f]{8}", query["id"]) for query in QUERIES)
    assert all(re.fullmatch(r"[0-9a-f]{12}", query["task_info"]["combo_id"]) for query in QUERIES)
    assert {query["task_info"]["difficulty"] for query in QUERIES} == {"easy", "medium", "hard"}


@each_query
def test_trajectory_and_its_hash_follow_from_the_actions(query: Row) -> None:
    task = query["task_info"]
    assert task["trajectory"] == [action["name"] for action in actions_of(query)]
    assert task["trajectory_hash"] == hashlib.md5("_".join(task["trajectory"]).encode()).hexdigest()[:12]


@each_query
def test_every_user_message_has_one_reply(query: Row) -> None:
    task = query["task_info"]
    assert [message["role"] for message in query["messages"]] == ["user"]
    assert len(task["replies"]) == 1 + len(task["user_turns"])
    assert 1 <= len(task["replies"]) <= 5
    assert all(text.strip() for text in [query["messages"][0]["content"], *task["user_turns"], *task["replies"]])


@each_query
def test_what_must_be_communicated_is_said_in_the_replies(query: Row) -> None:
    said = "\n".join(query["task_info"]["replies"])
    assert [text for text in query["task_info"]["communicate"] if text not in said] == []


@each_query
def test_the_brief_has_three_paragraphs_and_no_markers_or_tool_names(query: Row) -> None:
    brief = query["user_system_prompt"]
    assert len(brief.split("\n\n")) == 3
    assert brief.split("\n\n")[0] == query["task_info"]["reason_for_call"]
    assert "[[" not in brief
    assert [tool for tool in SCHEMAS if tool in brief] == []


@each_query
def test_marked_values_occur_in_the_brief(query: Row) -> None:
    marked = re.findall(r"\[\[(.+?)\]\]", query["task_info"]["instruction"])
    assert [value for value in marked if value not in query["user_system_prompt"]] == []


@each_query
def test_the_user_tells_no_number_or_identifier_that_the_brief_lacks(query: Row) -> None:
    told = " ".join([query["messages"][0]["content"], *query["task_info"]["user_turns"]])
    facts = [fact.strip(".") for fact in re.findall(r"\S*[\d@]\S*", told.replace(",", " ").replace("?", " "))]
    brief = query["user_system_prompt"].replace(",", " ")
    assert [fact for fact in facts if fact not in brief] == []


@each_query
def test_known_info_lists_the_student_as_the_database_has_them(query: Row) -> None:
    known = query["task_info"]["known_info"]
    assert known.startswith("# Entity Instances\n## Student\n")
    pin = re.search(r"- portal_pin: (\d+)", known)
    assert pin is not None
    assert pin[1] in query["user_system_prompt"]
    assert actions_of(query)[0]["arguments"]["portal_pin"] == pin[1]


@pytest.mark.parametrize("kind", ["read", "refuse"])
def test_tasks_that_are_to_be_answered_or_refused_have_no_write(kind: str) -> None:
    tasks = [query for query in QUERIES if query["task_info"]["kind"] == kind]
    assert len(tasks) >= 5
    assert [query["id"] for query in tasks if WRITES & set(query["task_info"]["trajectory"])] == []


def test_every_other_kind_of_task_has_a_write() -> None:
    kinds = {"update", "insert", "delete", "multi_write", "alternative", "two_goals"}
    tasks = [query for query in QUERIES if query["task_info"]["kind"] not in ("read", "refuse")]
    assert {query["task_info"]["kind"] for query in tasks} == kinds
    assert all(WRITES & set(query["task_info"]["trajectory"]) for query in tasks)


def test_delete_only_tasks_remove_rows_and_change_no_other(session: Session) -> None:
    query = next(query for query in QUERIES if query["task_info"]["kind"] == "delete")
    for action in actions_of(query):
        session.call(action["name"], **action["arguments"])
    after = SERVER._get_session(session.name).databases
    assert len(after["WaitlistEntry"]) == len(TABLES["WaitlistEntry"]) - 1
    assert all(row in TABLES["WaitlistEntry"] for row in after["WaitlistEntry"])
    assert all(after[table] == rows for table, rows in TABLES.items() if table != "WaitlistEntry")


# The tool list, the policy and the server.


def test_tool_list_and_server_have_the_same_tools() -> None:
    assert sorted(SCHEMAS) == sorted(MODULE.TOOLS)
    assert len(TOOL_LIST) == len(SCHEMAS) <= 16
    assert sum(name.startswith("authorize") for name in SCHEMAS) == 1


@each_tool
def test_schema_agrees_with_the_signature_of_the_tool(tool: str) -> None:
    schema, parameters = SCHEMAS[tool], MODULE.TOOLS[tool].parameters
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == list(parameters)
    assert schema["required"] == MODULE.TOOLS[tool].required
    for name, declared in schema["properties"].items():
        assert declared["description"]
        kind = parameters[name].annotation
        kind = get_args(kind)[0] if get_origin(kind) not in (None, Literal) else kind
        if get_origin(kind) is Literal:
            assert declared["enum"] == list(get_args(kind))
        else:
            assert declared["type"] == {str: "string", int: "integer", bool: "boolean"}[kind]
        if name not in schema["required"] and parameters[name].default is not None:
            assert declared["default"] == parameters[name].default


def test_policy_describes_every_tool_between_its_markers() -> None:
    policy = (ROOT / f"policies/{DOMAIN}.md").read_text(encoding="utf-8")
    assert policy.startswith("<!-- POLICY_START -->")
    assert policy.rstrip().endswith("<!-- POLICY_END -->")
    assert policy.count("<!-- GLOBAL_RULES_END -->") == 1
    blocks = dict(re.findall(r"<!-- TOOL: (\w+) -->(.*?)<!-- TOOL_END: \1 -->", policy, re.DOTALL))
    assert list(blocks) == list(SCHEMAS)
    headings = ("Purpose", "Preconditions", "Input validation", "Permission outcomes", "Effects")
    assert all(f"**{heading}:**" in block for block in blocks.values() for heading in headings)


def test_unknown_tools_are_refused_and_attributes_are_no_tools(session: Session) -> None:
    for name in ("sap.get_profile", "close_session", "_get_session", "__init__", ""):
        assert session.call(name)["error"].startswith("Unknown tool")


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


# Authorization and isolation.


@each_tool
def test_nothing_works_before_authorization(tool: str, session: Session) -> None:
    before = session.state()
    if tool != "authorize_student":
        assert "authorize_student first" in session.call(tool, section_id="CS101-02", confirm=True)["error"]
    session.call("authorize_student", student_id="S21451", portal_pin="000000")
    if tool != "authorize_student":
        assert "authorize_student first" in session.call(tool)["error"]
    assert session.state() == before


def test_authorization_needs_matching_details_and_locks_after_three_failures(session: Session) -> None:
    assert "student_id or email" in session.call("authorize_student", portal_pin="181912")["error"]
    for details in ({"student_id": "S29526"}, {"email": "nobody@mailbox.example"}, {"student_id": "S21451 "}):
        assert "do not match" in session.call("authorize_student", portal_pin="181912", **details)["error"]
    assert "locked" in session.call("authorize_student", student_id="S21451", portal_pin="181912")["error"]


def test_student_id_and_email_must_belong_together(session: Session) -> None:
    answer = session.call(
        "authorize_student", student_id="S21451", email=STUDENTS["S29526"]["email"], portal_pin="181912"
    )
    assert "do not match" in answer["error"]


def test_a_session_serves_one_student_only(session: Session) -> None:
    session.authorize("S21451")
    answer = session.call("authorize_student", student_id="S29526", portal_pin=STUDENTS["S29526"]["portal_pin"])
    assert "one student only" in answer["error"]
    assert session.call("get_profile")["student"]["student_id"] == "S21451"


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


@each_query
def test_reads_show_no_pin_and_no_other_student(query: Row, session: Session) -> None:
    results: list[Row] = []
    for action in actions_of(query):
        arguments = {key: resolve(value, results) for key, value in action["arguments"].items()}
        results.append(session.call(action["name"], **arguments))
        text = json.dumps(results[-1])
        assert "portal_pin" not in text
        assert set(re.findall(r"\bS2\d{4}\b", text)) <= {results[0]["student_id"]}


def test_two_sessions_do_not_see_each_others_changes(session: Session, other_session: Session) -> None:
    session.authorize("S21451")
    other_session.authorize("S21451")
    untouched = other_session.state()
    assert session.call("enroll_course", section_id="MATH120-03", confirm=True)["success"]
    assert session.call("update_contact_details", phone="555-200-2000", confirm=True)["success"]
    assert session.state() != untouched
    assert other_session.state() == untouched
    assert SERVER._tables == TABLES


def test_a_closed_session_is_forgotten(session: Session) -> None:
    session.authorize("S21451").call("drop_course", section_id="HIST130-01", confirm=True)
    SERVER.close_session(session.name)
    assert json.loads(session.state()) == TABLES
    assert "authorize_student first" in session.call("get_profile")["error"]
    SERVER.close_session("never opened")


def test_session_tables_show_every_table_and_never_lend_rows_for_writing(session: Session) -> None:
    tables = SERVER._get_session(session.name).databases
    assert len(tables) == len(TABLES)
    assert list(tables) == list(TABLES)
    assert json.loads(json.dumps(tables)) == TABLES
    ways = [
        tables["Course"],
        tables.get("Section"),
        dict(tables)["Student"],
        {**tables}["Advisor"],
        dict(tables.items())["Hold"],
        list(tables.values())[list(tables).index("Grade")],
        tables.copy()["Enrollment"],
        copy.deepcopy(tables)["Appointment"],
        pickle.loads(pickle.dumps(tables))["Prerequisite"],
    ]
    for rows in ways:
        rows[0].clear()
        rows.clear()
    assert SERVER._tables == TABLES
    assert tables.get("Nothing") is None


def test_a_copy_of_session_tables_keeps_changes_and_goes_its_own_way(session: Session) -> None:
    tables = SERVER._get_session(session.name).databases
    tables["Course"][0]["title"] = "changed before"
    twin = copy.deepcopy(tables)
    tables["Course"][0]["title"] = "changed after"
    twin["Hold"].clear()
    assert twin["Course"][0]["title"] == "changed before"
    assert tables["Hold"] == TABLES["Hold"]


def test_a_session_restored_from_pickled_fields_goes_on_where_it_was(session: Session, other_session: Session) -> None:
    session.authorize("S21451").call("enroll_course", section_id="MATH120-03", confirm=True)
    fields = pickle.loads(pickle.dumps(vars(SERVER._get_session(session.name))))
    vars(SERVER._get_session(other_session.name)).update(fields)
    assert other_session.state() == session.state()
    assert other_session.call("drop_course", section_id="MATH120-03", confirm=True)["success"] is True
    assert SERVER._tables == TABLES


def test_reading_copies_no_table(session: Session) -> None:
    session.authorize("S21451")
    for tool in ("get_profile", "search_courses", "list_enrollments", "get_transcript_summary", "list_advising_slots"):
        session.call(tool)
    tables = SERVER._get_session(session.name).databases
    assert all(tables.peek(name) is SERVER._tables[name] for name in TABLES)


def test_opening_a_session_costs_well_under_a_tenth_of_a_millisecond() -> None:
    names = iter(range(10**6))

    def open_and_close() -> None:
        name = f"timed {next(names)}"
        SERVER._get_session(name)
        SERVER.close_session(name)

    assert min(timeit.repeat(open_and_close, number=500, repeat=5)) / 500 < 50e-6


def test_new_ids_come_from_the_uuid_module_that_the_engine_may_replace(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Seeded:
        @staticmethod
        def uuid4() -> str:
            return "seeded-id"

    monkeypatch.setattr(MODULE, "uuid", Seeded)
    answer = session.authorize("S21451").call("enroll_course", section_id="MATH120-03", confirm=True)
    assert answer["enrollment_id"] == "seeded-id"


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


def test_rows_are_flat_and_primary_keys_unique() -> None:
    for table, rows in TABLES.items():
        key = f"{table.lower()}_id"
        assert len({row[key] for row in rows}) == len(rows) > 0
        assert {tuple(row) for row in rows} == {tuple(rows[0])}
        assert not any(isinstance(value, dict | list) for row in rows for value in row.values())


def test_foreign_keys_resolve() -> None:
    keys = {f"{table.lower()}_id": {row[f"{table.lower()}_id"] for row in rows} for table, rows in TABLES.items()}
    keys["required_course_id"] = keys["course_id"]
    for table, rows in TABLES.items():
        for column in rows[0]:
            if column.endswith("_id"):
                assert {row[column] for row in rows} <= keys[column], (table, column)


def test_database_is_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "database").rglob("*.json")) < 400_000


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


def test_logins_are_unambiguous() -> None:
    assert len({row["email"] for row in STUDENTS.values()}) == len(STUDENTS)
    assert all(row["email"] == row["email"].lower() for row in STUDENTS.values())
    assert all(re.fullmatch(r"\d{6}", row["portal_pin"]) for row in STUDENTS.values())


def test_gpa_is_the_credit_weighted_mean_of_all_graded_attempts(session: Session) -> None:
    summary = session.authorize("S25804").call("get_transcript_summary")
    graded = [(MODULE.GRADE_POINTS[row["letter"]], row["credits"]) for row in summary["grades"] if row["letter"] != "W"]
    mean = sum(points * credit for points, credit in graded) / sum(credit for _, credit in graded)
    assert summary["cumulative_gpa"] == round(mean, 2)
    distinct = {row["course_id"]: row["credits"] for row in summary["grades"] if row["letter"] not in ("W", "F")}
    assert summary["credits_earned"] == sum(distinct.values())
