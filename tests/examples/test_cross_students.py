"""The cross domain of the two student servers: every task needs both, and one episode is one state for both.

Only queries and a policy lie in `cross_domain`; servers, tool lists and tables are those of the single domains.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from rollout.environments.domains.domain import SHIPPED, load_domain
from rollout.environments.domains.host import Host
from rollout.tasks.discovery import find_combinations
from tests.examples.shipped import NAMES, Row, actions_of, resolve_arguments, shipped

PORTAL, FINANCE = "StudentAcademicPortal", "StudentFinancialServices"
BASE = SHIPPED / "cross_domain"
NAME = f"{PORTAL}_{FINANCE}"
DOMAIN = load_domain(BASE, NAME, [])
HOST = Host(DOMAIN.files)
SERVERS = {name: shipped(name) for name in (PORTAL, FINANCE)}
WRITES = {f"{name}.{tool}" for name, server in SERVERS.items() for tool in server.writes}
AUTHORIZE = {f"{name}.authorize_student" for name in SERVERS}
QUERIES: list[Row] = [
    json.loads(line) for line in (BASE / f"queries/{NAME}.jsonl").read_text(encoding="utf-8").splitlines()
]
KINDS = {"read", "insert", "update", "delete", "multi_write", "two_goals", "alternative", "refuse"}
POLICY = DOMAIN.policy or ""

each_query = pytest.mark.parametrize("query", QUERIES, ids=[query["id"] for query in QUERIES])


class Conversation:
    """One episode's sessions on both servers, as a world has them."""

    def __init__(self, number: int) -> None:
        self.number = number
        HOST.open(number, seed=7)

    def call(self, name: str, **arguments: Any) -> Row:
        """Call `Server.tool`."""
        server, _, tool = name.partition(".")
        answer: Row = HOST.sessions(self.number).call(server, tool, arguments)
        return answer

    def authorize(self, student_id: str) -> "Conversation":
        pin = SERVERS[PORTAL].people[student_id]["portal_pin"]
        for name in AUTHORIZE:
            assert self.call(name, student_id=student_id, portal_pin=pin)["success"] is True
        return self

    def play(self, query: Row) -> list[Row]:
        """Run the reference actions; their results."""
        results: list[Row] = []
        for action in actions_of(query):
            results.append(self.call(action["name"], **resolve_arguments(action, results)))
        return results

    def changed(self) -> dict[str, tuple[int, int]]:
        """How many rows were added to and removed from each table; a changed row is both."""
        changes = HOST.sessions(self.number).changes()
        return {table: (len(change.added), len(change.removed)) for table, change in changes.items()}


@pytest.fixture
def conversation() -> Iterator[Conversation]:
    opened = Conversation(1)
    yield opened
    HOST.close(1)


# The reference solutions.


@each_query
def test_reference_actions_succeed_and_touch_both_servers(query: Row, conversation: Conversation) -> None:
    for answer in conversation.play(query):
        assert "error" not in answer
        assert "needs_confirmation" not in answer
    assert {action["name"].partition(".")[0] for action in actions_of(query)} == {PORTAL, FINANCE}


@each_query
def test_each_server_is_asked_only_after_the_same_student_was_authorized_there(query: Row) -> None:
    authorized: dict[str, Row] = {}
    for action in actions_of(query):
        server = action["name"].partition(".")[0]
        if action["name"] in AUTHORIZE:
            authorized[server] = action["arguments"]
        assert server in authorized
    assert authorized[PORTAL] == authorized[FINANCE]
    known = query["task_info"]["known_info"]
    assert known.startswith("# Entity Instances\n## Student\n")
    assert all(f"- {key}: {value}" in known for key, value in authorized[PORTAL].items())


@each_query
def test_only_confirmed_writes_after_an_answer_of_the_student_change_anything(
    query: Row, conversation: Conversation
) -> None:
    writes = [action for action in actions_of(query) if action["name"] in WRITES]
    assert all(action["turn"] >= 1 and action["arguments"]["confirm"] is True for action in writes)
    turns = [action["turn"] for action in actions_of(query)]
    assert turns == sorted(turns)
    assert set(turns) <= set(range(len(query["task_info"]["replies"])))
    conversation.play(query)
    assert bool(conversation.changed()) == bool(writes) == (query["task_info"]["kind"] not in ("read", "refuse"))


@each_query
def test_reference_arguments_fit_the_tools_as_they_are_offered(query: Row) -> None:
    offered = {spec.name: spec.parameters for spec in DOMAIN.toolset.specs}
    for action in actions_of(query):
        name = DOMAIN.offered(action["name"])
        assert name is not None
        assert set(offered[name]["required"]) <= set(action["arguments"]) <= set(offered[name]["properties"])


@each_query
def test_every_amount_in_the_replies_comes_from_a_result_or_is_a_fee_of_the_tools(
    query: Row, conversation: Conversation
) -> None:
    results = json.dumps(conversation.play(query)) + json.dumps([SERVERS[name].tool_list for name in SERVERS])
    numbers = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", results)}
    said = " ".join(query["task_info"]["replies"])
    told = re.findall(r"\$([\d,]+\.\d\d)", said) + re.findall(r"([\d,]+\.\d\d) USD", said)
    card_fees = {round(number * 0.0275, 2) for number in numbers}  # told before the payment is made
    assert [amount for amount in told if float(amount.replace(",", "")) not in numbers | card_fees] == []


# The queries.


def test_there_are_many_tasks_of_every_kind_and_difficulty() -> None:
    assert len(QUERIES) >= 22
    assert {query["task_info"]["kind"] for query in QUERIES} == KINDS
    assert {query["task_info"]["difficulty"] for query in QUERIES} == {"easy", "medium", "hard"}
    assert sum(query["task_info"]["kind"] == "refuse" for query in QUERIES) >= 5
    assert sum(query["task_info"]["kind"] == "read" for query in QUERIES) >= 3


def test_ids_are_well_formed_and_used_by_no_other_shipped_query() -> None:
    ids = [query["id"] for query in QUERIES]
    single = {query["id"] for name in NAMES for query in shipped(name).queries}
    assert len(set(ids)) == len(ids)
    assert not single & set(ids)
    assert all(re.fullmatch(r"[0-9a-f]{8}", one) for one in ids)


@each_query
def test_every_part_of_a_query_agrees_with_the_others(query: Row) -> None:
    task = query["task_info"]
    assert task["trajectory"] == [action["name"] for action in actions_of(query)]
    assert task["trajectory_hash"] == hashlib.md5("_".join(task["trajectory"]).encode()).hexdigest()[:12]
    assert len(task["replies"]) == 1 + len(task["user_turns"])
    said = "\n".join(task["replies"])
    assert [text for text in task["communicate"] if text not in said] == []
    reason, instruction, _ = query["user_system_prompt"].split("\n\n")
    assert reason == task["reason_for_call"]
    assert instruction == re.sub(r"\[\[(.+?)\]\]", r"\1", task["instruction"])


@each_query
def test_the_user_tells_no_number_or_identifier_that_the_brief_lacks(query: Row) -> None:
    told = " ".join([query["messages"][0]["content"], *query["task_info"]["user_turns"]])
    facts = [fact.strip(".") for fact in re.findall(r"\S*[\d@]\S*", told.replace(",", " ").replace("?", " "))]
    brief = re.sub(r"[(),]", " ", query["user_system_prompt"])
    assert [fact for fact in facts if fact not in brief] == []


def test_a_task_that_only_deletes_removes_rows_on_both_servers(conversation: Conversation) -> None:
    (query,) = (query for query in QUERIES if query["task_info"]["kind"] == "delete")
    conversation.play(query)
    assert conversation.changed() == {"WaitlistEntry": (0, 1), "ScholarshipApplication": (0, 1)}


# One state.


def test_a_released_hold_opens_registration_and_transcripts_in_the_portal(conversation: Conversation) -> None:
    conversation.authorize("S25773")
    transcript = {"delivery_method": "electronic", "recipient": "a@b.example"}
    for name, arguments in (("enroll_course", {"section_id": "MUS100-01"}), ("request_transcript", transcript)):
        assert "hold (HLD-006) blocks" in conversation.call(f"{PORTAL}.{name}", **arguments)["error"]
    payment = {"term_id": "2024FA", "amount": 65, "method": "card", "confirm": True}
    assert conversation.call(f"{FINANCE}.make_payment", **payment)["success"] is True
    assert conversation.call(f"{FINANCE}.release_hold", hold_id="HLD-006", confirm=True)["success"] is True
    assert conversation.call(f"{PORTAL}.get_profile")["active_holds"] == []
    assert conversation.call(f"{PORTAL}.enroll_course", section_id="MUS100-01", confirm=True)["success"] is True
    assert conversation.call(f"{PORTAL}.request_transcript", **transcript, confirm=True)["success"] is True
    wanted = {"Payment": (1, 0), "Hold": (1, 1), "Enrollment": (1, 0), "TranscriptRequest": (1, 0)}
    assert conversation.changed() == wanted


def test_a_new_address_is_seen_by_financial_services_and_counted_once(conversation: Conversation) -> None:
    conversation.authorize("S28990")
    moved = {"mailing_address": "61 Tanner Lane, Larkfield, OH 44120"}
    assert conversation.call(f"{PORTAL}.update_contact_details", **moved, confirm=True)["success"] is True
    assert conversation.call(f"{FINANCE}.get_account_summary")["student"]["mailing_address"] == moved["mailing_address"]
    assert conversation.changed() == {"Student": (1, 1)}


def test_authorization_in_one_system_opens_only_that_one(conversation: Conversation) -> None:
    claimed = {"student_id": "S25773", "portal_pin": "621180"}
    assert conversation.call(f"{PORTAL}.authorize_student", **claimed)["success"] is True
    assert "authorize_student first" in conversation.call(f"{FINANCE}.get_account_summary")["error"]


# The policy.


def test_the_combination_is_found_with_its_policy_and_nothing_missing() -> None:
    (found,) = (one for one in find_combinations(BASE, require_policy=True) if set(one.servers) == set(SERVERS))
    assert (found.name, found.missing) == (NAME, ())
    assert found.policy is not None
    assert found.policy.stem == f"{FINANCE}_{PORTAL}"
    assert found.policy.read_text(encoding="utf-8") == POLICY


def test_the_policy_describes_every_tool_under_its_offered_name() -> None:
    blocks = dict(re.findall(r"^### ([a-z_]+)\n(.*?)(?=^### |\Z)", POLICY, re.DOTALL | re.MULTILINE))
    assert list(blocks) == [spec.name for spec in DOMAIN.toolset.specs]
    headings = ("Purpose", "Preconditions", "Input validation", "Permission outcomes", "Effects")
    assert all(f"**{heading}:**" in block for block in blocks.values() for heading in headings)
    bare = {tool for server in SERVERS.values() for tool in server.schemas}
    assert [word for word in re.findall(r"[a-z]+(?:_[a-z]+)+", POLICY) if word in bare] == []


def test_the_policy_joins_the_rules_of_both_and_adds_its_own() -> None:
    titles = {name: set(re.findall(r"\d+\. \*\*(.+?)\*\*", server.policy)) for name, server in SERVERS.items()}
    joined = re.findall(r"^(\d+)\. (?:\*\*(.+?)\*\*)?", POLICY, re.MULTILINE)
    assert [int(number) for number, _ in joined] == list(range(1, len(joined) + 1))
    own = {title for _, title in joined if title}
    assert own > titles[PORTAL] | titles[FINANCE]
    assert len(own - titles[PORTAL] - titles[FINANCE]) == 7


def test_rules_that_the_policy_refers_to_say_what_is_meant() -> None:
    text = dict(re.findall(r"^(\d+)\. \*\*(.+?)\*\*", POLICY, re.MULTILINE))
    meant = {
        "sap_drop_course": {"Full-time minimum.", "Aid and credits."},
        "sap_enroll_course": {"No repeats of passed courses.", "400-level courses", "More than 18 credits"},
        "sap_request_transcript": {"Transcript after a contact change.", "Transcripts and debts."},
        "sfs_make_payment": {"Oldest term first."},
        "sfs_release_hold": {"Cleared money."},
        "sfs_enroll_payment_plan": {"Offers before plans."},
        "sfs_respond_to_award": {"Subsidized before unsubsidized.", "Scholarships are not given up here."},
        "sfs_apply_for_scholarship": {"Eligibility.", "Good standing for scholarships."},
        "sfs_request_refund": {"No refund during a dispute.", "Refund or registration.", "Refund or contact change."},
    }
    for tool, titles in meant.items():
        block = POLICY.partition(f"\n### {tool}\n")[2].partition("\n### ")[0]
        (rules,) = re.findall(r"rules? ([\d, and]+) kept", block)
        assert {text[number] for number in re.findall(r"\d+", rules)} == titles


# What only the joined policy forbids: the servers must let it happen, or an agent could not go wrong.


@pytest.mark.parametrize(
    ("student_id", "calls"),
    [
        (
            "S25773",
            [
                (f"{FINANCE}.make_payment", {"term_id": "2024FA", "amount": 65, "method": "bank_account"}),
                (f"{FINANCE}.release_hold", {"hold_id": "HLD-006"}),
                (f"{PORTAL}.enroll_course", {"section_id": "MUS100-01"}),
            ],
        ),
        ("S25665", [(f"{PORTAL}.drop_course", {"section_id": "ENGL101-01"})]),
        ("S29380", [(f"{PORTAL}.drop_course", {"section_id": "MUS100-01"})]),
        (
            "S26692",
            [
                (
                    f"{PORTAL}.request_transcript",
                    {"delivery_method": "electronic", "recipient": "hr@calder-works.example"},
                )
            ],
        ),
        ("S29863", [(f"{PORTAL}.enroll_course", {"section_id": "PSYC101-01"})]),
        ("S26273", [(f"{PORTAL}.enroll_course", {"section_id": "MATH110-02"})]),
        ("S29380", [(f"{FINANCE}.apply_for_scholarship", {"scholarship_id": "SCH-08"})]),
        (
            "S29526",
            [
                (f"{PORTAL}.enroll_course", {"section_id": "MUS100-01"}),
                (f"{FINANCE}.request_refund", {"term_id": "2025SP", "amount": 385, "method": "direct_deposit"}),
            ],
        ),
        (
            "S28990",
            [
                (f"{PORTAL}.update_contact_details", {"mailing_address": "61 Tanner Lane, Larkfield, OH 44120"}),
                (f"{FINANCE}.request_refund", {"term_id": "2025SP", "amount": 210.5, "method": "check"}),
            ],
        ),
    ],
    ids=[
        "hold-released-too-soon",
        "grant-below-full-time",
        "choir-below-full-time",
        "transcript-with-debts",
        "overload-unpaid",
        "overload-for-45-dollars",
        "scholarship-below-gpa",
        "refund-and-registration",
        "refund-and-address",
    ],
)
def test_rule_of_the_policy_alone_is_not_enforced(
    student_id: str, calls: list[Any], conversation: Conversation
) -> None:
    conversation.authorize(student_id)
    for name, arguments in calls:
        assert conversation.call(name, **arguments, confirm=True)["success"] is True


@each_query
def test_references_keep_the_rules_that_need_both(query: Row, conversation: Conversation) -> None:
    done: set[str] = set()
    results: list[Row] = []
    for action in actions_of(query):
        name, arguments = action["name"].partition(".")[2], resolve_arguments(action, results)
        if action["name"] in WRITES:
            student_id = actions_of(query)[0]["arguments"]["student_id"]
            conversation.authorize(student_id)
            account = conversation.call(f"{FINANCE}.get_account_summary")
            credits = conversation.call(f"{PORTAL}.list_enrollments")["total_credits"]
            gpa = conversation.call(f"{PORTAL}.get_transcript_summary")["cumulative_gpa"]
            awards = conversation.call(f"{FINANCE}.list_financial_aid")["awards"]
            keeps = any(row["status"] == "accepted" and row["kind"] != "work_study" for row in awards)
            preview = conversation.call(action["name"], **(arguments | {"confirm": False}))
            after = preview["action_preview"].get("total_credits_after", credits)
            assert not (name == "drop_course" and keeps and after < 12)
            assert not (name == "request_transcript" and account["past_due"] > 0)
            assert after <= 18 or account["payment_plans"] or account["terms"][-1]["amount_due"] == 0
            assert not (name == "apply_for_scholarship" and gpa < 3)
            done.add(name)
        results.append(conversation.call(action["name"], **arguments))
    assert not ("request_refund" in done and done & {"enroll_course", "drop_course", "swap_section"})
    assert not ("request_refund" in done and "update_contact_details" in done)
