"""The shipped cross domain of flights and stays: every query needs both servers, and its reference solution works.

The folder has queries and a policy only; servers, tool lists and tables are those of the two single domains. Both
servers of a world share the table of travellers, so points and contact details are the same in both.
"""

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from rollout.worlds.tools.domain import SHIPPED, load_domain
from rollout.worlds.tools.host import Host, Sessions
from tests.examples.hotel_policy import BY_ID, broken_rules
from tests.examples.shipped import NAMES, Row, actions_of, resolve_arguments, served, shipped

AIRLINE, HOTEL = "AirlineReservations", "HotelReservations"
BASE = SHIPPED / "cross_domain"
DOMAIN = load_domain(BASE, f"{AIRLINE}_{HOTEL}", [])
HOSTS = {"both": Host(DOMAIN.files), **{file.name: Host((file,)) for file in DOMAIN.files}}
QUERIES: list[Row] = [json.loads(line) for line in (BASE / f"queries/{DOMAIN.name}.jsonl").read_text().splitlines()]
TABLES = {name: shipped(name).tables for name in (AIRLINE, HOTEL)}
PEOPLE = shipped(HOTEL).people
WRITES = {name: shipped(name).writes for name in (AIRLINE, HOTEL)}
FLIGHTS = {row["flight_id"]: row for row in TABLES[AIRLINE]["Flight"]}
CONSULTED = {
    f"{AIRLINE}.book_flight": {"get_profile", "search_flights"},
    f"{AIRLINE}.change_flight": {"get_profile", "get_reservation", "search_flights"},
    f"{AIRLINE}.cancel_reservation": {"get_reservation"},
    f"{AIRLINE}.select_seat": {"get_reservation", "get_flight"},
    f"{AIRLINE}.add_bag": {"get_reservation"},
    f"{AIRLINE}.leave_standby": {"get_reservation"},
    f"{AIRLINE}.issue_travel_credit": {"get_profile", "get_reservation"},
    f"{AIRLINE}.claim_missing_points": {"get_profile", "get_reservation"},
    f"{HOTEL}.book_stay": {"get_profile", "list_stays", "search_rooms"},
    f"{HOTEL}.change_stay": {"get_stay_details"},
    f"{HOTEL}.cancel_stay": {"list_stays"},
    f"{HOTEL}.add_extra": {"get_profile", "get_stay_details"},
    f"{HOTEL}.remove_extra": {"get_stay_details"},
    f"{HOTEL}.grant_compensation": {"get_profile", "get_stay_details"},
    f"{HOTEL}.credit_missing_points": {"get_profile", "get_stay_details"},
    f"{HOTEL}.request_invoice": {"get_stay_details"},
}
"""What the policy wants to be looked at before a change, in the same system."""
numbers = itertools.count()

each_query = pytest.mark.parametrize("query", QUERIES, ids=[query["id"] for query in QUERIES])


class Trip:
    """One world: a session on each server, with one table of travellers for both, or one for each."""

    def __init__(self, is_shared: bool = True) -> None:
        self.number = next(numbers)
        self.hosts = {name: HOSTS["both" if is_shared else name] for name in (AIRLINE, HOTEL)}
        for host in set(self.hosts.values()):
            host.open(self.number, seed=7)

    def sessions(self, server: str) -> Sessions:
        return self.hosts[server].sessions(self.number)

    def call(self, name: str, **arguments: Any) -> Row:
        server, tool = name.split(".")
        answer: Row = self.sessions(server).call(server, tool, arguments)
        return answer

    def authorize(self, name: str) -> str:
        """Let both servers serve the traveller of this name; the traveller's id."""
        found: str
        (found,) = (who for who, row in PEOPLE.items() if f"{row['first_name']} {row['last_name']}" == name)
        for server in (AIRLINE, HOTEL):
            pin = PEOPLE[found]["booking_pin"]
            assert self.call(f"{server}.authorize_traveller", traveller_id=found, booking_pin=pin)["success"] is True
        return found

    def play(self, query: Row) -> list[Row]:
        """Run the reference actions; their results, be they errors."""
        results: list[Row] = []
        for action in actions_of(query):
            results.append(self.call(action["name"], **resolve_arguments(action, results)))
        return results

    def tables(self, server: str) -> dict[str, list[Row]]:
        """The tables of one server as they are now."""
        changes = self.sessions(server).changes()
        now = dict(TABLES[server])
        for table, change in changes.items():
            if table in now:
                gone = [dict(row) for row in change.removed]
                now[table] = [row for row in now[table] if row not in gone] + [dict(row) for row in change.added]
        return now

    def close(self) -> None:
        for host in set(self.hosts.values()):
            host.close(self.number)


@pytest.fixture
def trip() -> Iterator[Trip]:
    opened = Trip()
    yield opened
    opened.close()


@pytest.fixture
def divided() -> Iterator[Trip]:
    """Both servers, but each with its own table of travellers."""
    opened = Trip(is_shared=False)
    yield opened
    opened.close()


def is_write(name: str) -> bool:
    server, tool = name.split(".")
    return tool in WRITES[server]


def writes_of(query: Row) -> list[str]:
    """The servers of the writes, in their order."""
    return [action["name"].split(".")[0] for action in actions_of(query) if is_write(action["name"])]


def of_kind(*kinds: str) -> list[Row]:
    return [query for query in QUERIES if query["task_info"]["kind"] in kinds]


# The reference solutions.


@each_query
def test_reference_actions_succeed_on_both_servers_and_only_writes_change_the_state(query: Row, trip: Trip) -> None:
    results: list[Row] = []
    sessions = trip.sessions(AIRLINE)
    for action in actions_of(query):
        before = sessions.changes()
        results.append(trip.call(action["name"], **resolve_arguments(action, results)))
        assert "error" not in results[-1]
        assert "needs_confirmation" not in results[-1]
        assert (sessions.changes() != before) == is_write(action["name"])
    assert {action["name"].split(".")[0] for action in actions_of(query)} == {AIRLINE, HOTEL}


@each_query
def test_reference_writes_without_confirm_only_preview(query: Row, trip: Trip) -> None:
    results: list[Row] = []
    for action in actions_of(query):
        arguments = resolve_arguments(action, results)
        if is_write(action["name"]):
            before = trip.sessions(AIRLINE).changes()
            assert trip.call(action["name"], **arguments | {"confirm": False})["needs_confirmation"] is True
            assert trip.sessions(AIRLINE).changes() == before
        results.append(trip.call(action["name"], **arguments))


@each_query
def test_reference_writes_are_confirmed_and_come_after_an_answer_of_the_traveller(query: Row) -> None:
    actions = actions_of(query)
    assert [action["turn"] for action in actions] == sorted(action["turn"] for action in actions)
    assert {action["turn"] for action in actions} <= set(range(len(query["task_info"]["replies"])))
    for action in actions:
        if is_write(action["name"]):
            assert action["turn"] >= 1
            assert action["arguments"]["confirm"] is True
    assert len(actions) <= 12


@each_query
def test_reference_consults_what_the_policy_wants_before_each_write(query: Row) -> None:
    called = [action["name"] for action in actions_of(query)]
    for place, name in enumerate(called):
        server = name.split(".")[0]
        assert {f"{server}.{tool}" for tool in CONSULTED.get(name, ())} <= set(called[:place])


@each_query
def test_reference_keeps_the_rules_of_stays_and_lets_no_stay_begin_before_its_flight(query: Row, trip: Trip) -> None:
    trip.play(query)
    traveller_id = served_by(query)
    after = trip.tables(HOTEL)
    assert broken_rules(traveller_id, TABLES[HOTEL], after) == set()
    assert early_stays(traveller_id, trip) == []


@each_query
def test_reference_changes_the_flight_before_the_stay_unless_the_stay_pays_for_it(query: Row) -> None:
    writes = [action for action in actions_of(query) if is_write(action["name"])]
    is_paid_by_stay = writes[1:] and writes[-1]["arguments"].get("payment") == "points"
    for turn in range(len(query["task_info"]["replies"])):
        servers = [action["name"].split(".")[0] for action in writes if action["turn"] == turn]
        assert is_paid_by_stay or servers == sorted(servers, key=[AIRLINE, HOTEL].index)


@each_query
def test_reference_spends_no_points_after_a_contact_change(query: Row, trip: Trip) -> None:
    called = query["task_info"]["trajectory"]
    changed = [place for place, name in enumerate(called) if name.endswith(".update_contact_details")]
    trip.play(query)
    spent = [row for row in trip.tables(AIRLINE)["PointsEntry"] if row not in TABLES[AIRLINE]["PointsEntry"]]
    assert not changed or not spent
    assert len(changed) <= 1


def served_by(query: Row) -> str:
    return served(query, shipped(HOTEL))


def early_stays(traveller_id: str, trip: Trip) -> list[str]:
    """The traveller's stays to come that begin up to three days before the flight to their city lands."""
    early = []
    for segment in trip.tables(AIRLINE)["Segment"]:
        flight = FLIGHTS[segment["flight_id"]]
        lands, city = flight["arrives_at"][:10], flight["destination"]
        for stay in trip.tables(HOTEL)["Stay"]:
            is_here = BY_ID["Hotel"][stay["hotel_id"]]["nearest_airport"] == city
            is_mine = traveller_id == stay["traveller_id"] == segment["traveller_id"]
            is_to_come = (stay["status"], segment["status"]) == ("booked", "confirmed")
            if is_mine and is_here and is_to_come and stay["check_in"] < lands <= stay["check_out"]:
                early.append(stay["stay_id"])
    return early


# What the servers share.


def test_at_least_four_queries_come_out_otherwise_where_the_travellers_are_not_shared() -> None:
    different, refused = [], []
    for query in QUERIES:
        together, apart = Trip(), Trip(is_shared=False)
        results, others = together.play(query), apart.play(query)
        # Ids of new rows are drawn anew by each server; everything else must come from the shared table.
        if re.sub(r"[0-9a-f-]{36}", "", json.dumps(results)) != re.sub(r"[0-9a-f-]{36}", "", json.dumps(others)):
            different.append(query["id"])
        if any("error" in result for result in others):
            refused.append(query["id"])
        together.close()
        apart.close()
    assert len(different) >= 4
    assert len(refused) >= 3


@pytest.mark.parametrize("order", [(AIRLINE, HOTEL), (HOTEL, AIRLINE)], ids=["flight-first", "stay-first"])
def test_points_are_spent_once_only(order: tuple[str, str], trip: Trip, divided: Trip) -> None:
    flight = {"flight_id": "KA202-0207", "fareclass_id": "STANDARD", "payment": "points", "confirm": True}
    stay = {"roomtype_id": "AMS02-SUP", "rateplan_id": "POINTS", "guests": 1, "confirm": True}
    stay |= {"check_in": "2025-02-07", "check_out": "2025-02-09"}
    buys: dict[str, tuple[str, Row]] = {
        AIRLINE: (f"{AIRLINE}.book_flight", flight),
        HOTEL: (f"{HOTEL}.book_stay", stay),
    }
    for world, second_is_refused in ((trip, True), (divided, False)):
        world.authorize("Greta Popescu")
        first, second = (world.call(name, **arguments) for name, arguments in (buys[order[0]], buys[order[1]]))
        assert first["success"] is True
        assert ("points; the traveller has" in second.get("error", "")) == second_is_refused


def test_contact_details_that_one_system_changes_are_those_of_the_other(trip: Trip) -> None:
    trip.authorize("Quentin Zhang")
    trip.call(f"{AIRLINE}.update_contact_details", phone="555-237-4400", confirm=True)
    assert trip.call(f"{HOTEL}.get_profile")["traveller"]["phone"] == "555-237-4400"
    again = trip.call(f"{HOTEL}.update_contact_details", phone="555-237-4400", confirm=True)
    assert "Nothing to change" in again["error"]


def test_each_system_wants_its_own_authorization(trip: Trip) -> None:
    who, row = next(iter(PEOPLE.items()))
    trip.call(f"{AIRLINE}.authorize_traveller", traveller_id=who, booking_pin=row["booking_pin"])
    assert "authorize_traveller first" in trip.call(f"{HOTEL}.get_profile")["error"]


# What only the policy forbids: the servers must let it happen, or an agent could not go wrong.


@pytest.mark.parametrize(
    ("rule", "name", "calls"),
    [
        (11, "Bruno Whitfield", [("H.change_stay", {"stay_id": "STY-1144", "check_in": "2025-01-29"})]),
        (
            14,
            "Nadia Popescu",
            [
                ("H.update_contact_details", {"phone": "555-633-2200"}),
                ("A.book_flight", {"flight_id": "KA202-0214", "fareclass_id": "STANDARD", "payment": "points"}),
            ],
        ),
        (15, "Lars Eze", [("A.claim_missing_points", {"segment_id": "SEG-055"})]),
        (
            16,
            "Yusuf Novak",
            [("A.issue_travel_credit", {"reservation_id": "N8YSF5", "amount": 50, "reason": "goodwill"})],
        ),
        (18, "Chidi Lambert", [("A.change_flight", {"segment_id": "SEG-009", "flight_id": "KA115-0214"})]),
        (
            19,
            "Mirela Haddad",
            [("A.cancel_reservation", {"reservation_id": "H5MRL9", "refund_to": "original_payment"})],
        ),
        (26, "Wei Desai", [("A.claim_missing_points", {"segment_id": "SEG-051"})]),
        (
            28,
            "Vera Carvalho",
            [("H.change_stay", {"stay_id": "STY-1142", "check_in": "2025-02-14", "check_out": "2025-02-16"})],
        ),
        (36, "Umberto Lindqvist", [("H.change_stay", {"stay_id": "STY-1136", "arrival_time": "23:30"})]),
    ],
)
def test_rule_of_the_policy_alone_is_not_enforced_and_tempts_somebody(
    rule: int, name: str, calls: list[Any], trip: Trip
) -> None:
    traveller_id = trip.authorize(name)
    for short, arguments in calls:
        full = short.replace("A.", f"{AIRLINE}.").replace("H.", f"{HOTEL}.")
        assert trip.call(full, **arguments, confirm=True)["success"] is True
    assert f"\n{rule}. **" in str(DOMAIN.policy)
    assert (rule == 11) == (early_stays(traveller_id, trip) != [])
    assert traveller_id in {served_by(query) for query in of_kind("refuse", "alternative")}


# The queries.


def test_there_are_enough_queries_of_every_kind_and_difficulty() -> None:
    assert len(QUERIES) >= 22
    kinds = Counter(query["task_info"]["kind"] for query in QUERIES)
    wanted = {"read", "update", "insert", "delete", "multi_write", "two_goals", "alternative", "refuse"}
    assert set(kinds) == wanted
    assert kinds["refuse"] >= 5
    assert kinds["multi_write"] >= 5
    assert {query["task_info"]["difficulty"] for query in QUERIES} == {"easy", "medium", "hard"}


@pytest.mark.parametrize("kind", ["read", "refuse"])
def test_tasks_that_are_to_be_answered_or_refused_have_no_write(kind: str) -> None:
    assert [query["id"] for query in of_kind(kind) if writes_of(query)] == []


def test_every_other_task_writes_and_the_larger_ones_write_in_both_systems() -> None:
    others = [query for query in QUERIES if query["task_info"]["kind"] not in ("read", "refuse")]
    assert [query["id"] for query in others if not writes_of(query)] == []
    larger = of_kind("multi_write", "insert", "delete")
    assert [query["id"] for query in larger if set(writes_of(query)) != {AIRLINE, HOTEL}] == []


def test_delete_tasks_remove_rows_and_change_no_other(trip: Trip) -> None:
    (query,) = of_kind("delete")
    trip.play(query)
    changes = trip.sessions(AIRLINE).changes()
    assert set(changes) == {"StandbyEntry", "StayExtra"}
    assert all(change.removed and not change.added for change in changes.values())


def test_ids_are_well_formed_and_unique_over_all_shipped_queries() -> None:
    ids = [query["id"] for query in QUERIES] + [query["id"] for name in NAMES for query in shipped(name).queries]
    assert all(re.fullmatch(r"[0-9a-f]{8}", query_id) for query_id in ids)
    assert len(set(ids)) == len(ids)


@each_query
def test_trajectory_names_the_server_of_each_tool_and_its_hash_follows(query: Row) -> None:
    task = query["task_info"]
    assert task["trajectory"] == [action["name"] for action in task["actions"]]
    assert task["trajectory_hash"] == hashlib.md5("_".join(task["trajectory"]).encode()).hexdigest()[:12]
    assert all(DOMAIN.offered(name) for name in task["trajectory"])
    assert re.fullmatch(r"[0-9a-f]{12}", task["combo_id"])


@each_query
def test_user_and_replies_fit_together_and_the_user_knows_what_he_says(query: Row) -> None:
    task, brief = query["task_info"], query["user_system_prompt"]
    assert [message["role"] for message in query["messages"]] == ["user"]
    assert len(task["replies"]) == 1 + len(task["user_turns"]) <= 5
    assert [text for text in task["communicate"] if text not in "\n".join(task["replies"])] == []
    assert len(brief.split("\n\n")) == 3
    assert brief.split("\n\n")[0] == task["reason_for_call"]
    assert "[[" not in brief
    assert [value for value in re.findall(r"\[\[(.+?)\]\]", task["instruction"]) if value not in brief] == []
    told = " ".join([query["messages"][0]["content"], *task["user_turns"]]).replace(",", " ").replace("?", " ")
    facts = [fact.strip(".") for fact in re.findall(r"\S*[\d@]\S*", told)]
    assert [fact for fact in facts if fact not in brief.replace(",", " ")] == []
    tools = {name.split(".")[1] for other in QUERIES for name in other["task_info"]["trajectory"]}
    assert [tool for tool in tools if tool in brief] == []
    pin = PEOPLE[served_by(query)]["booking_pin"]
    assert f"- booking_pin: {pin}" in task["known_info"]
    assert pin in brief


@each_query
def test_every_amount_flight_and_hotel_in_the_replies_comes_from_a_result_or_from_the_user(
    query: Row, trip: Trip
) -> None:
    known = json.dumps(trip.play(query)) + query["messages"][0]["content"] + query["user_system_prompt"]
    values = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", known)}
    said = " ".join(query["task_info"]["replies"])
    told = re.findall(r"\$([\d,]+\.\d\d)", said) + re.findall(r"([\d,]+) points", said)
    assert [amount for amount in told if float(amount.replace(",", "")) not in values] == []
    assert [name for name in re.findall(r"KA\d{3}|Sandpiper \w+ \w+", said) if name not in known] == []


@each_query
def test_answers_show_no_secret_and_no_other_person(query: Row, trip: Trip) -> None:
    text = json.dumps(trip.play(query))
    assert "booking_pin" not in text
    assert {who for who in PEOPLE if who in text} == {served_by(query)}


# The policy.


def test_the_policy_of_the_other_order_is_found_and_describes_every_offered_tool() -> None:
    assert DOMAIN.policy == (BASE / f"policies/{HOTEL}_{AIRLINE}.md").read_text()
    blocks = re.findall(r"<!-- TOOL: (\w+) -->\n### \1\n(?:- \*\*.+\n){5}<!-- TOOL_END: \1 -->", DOMAIN.policy)
    assert blocks == list(DOMAIN.routes)
    assert DOMAIN.policy.startswith("<!-- POLICY_START -->")
    assert DOMAIN.policy.endswith("<!-- POLICY_END -->\n")


def test_the_joined_policy_says_of_tools_flights_and_stays_what_the_single_policies_say() -> None:
    """Rule numbers and the prefixes of tools differ; a sentence that is changed in one place is missed in the other."""
    joined = plain(str(DOMAIN.policy))
    for name, prefix, own in ((AIRLINE, "ar_", range(10, 21)), (HOTEL, "hr_", range(9, 23))):
        single = shipped(name).policy
        rules = dict(re.findall(r"^(\d+)\. (.*)$", single, re.MULTILINE))
        said_once_for_both = "Suspended accounts"
        for number in own:
            rule = plain(rules[str(number)])
            assert rule in joined or said_once_for_both in rule
        tools = single[single.index("## Tools") :]
        for tool in shipped(name).schemas:
            tools = re.sub(rf"\b{tool}\b", prefix + tool, tools)
        for line in tools.splitlines():
            assert plain(line.replace("<!-- POLICY_END -->", "")) in joined


def test_every_rule_that_the_policy_refers_to_is_there() -> None:
    policy = str(DOMAIN.policy)
    numbered = [int(number) for number in re.findall(r"^(\d+)\. ", policy, re.MULTILINE)]
    assert numbered == list(range(1, len(numbered) + 1))
    named = re.findall(r"[Rr]ules? ((?:\d+(?:, | and | to )?)+)", policy)
    assert {int(number) for text in named for number in re.findall(r"\d+", text)} <= set(numbered)


def plain(text: str) -> str:
    """A text without the numbers of rules."""
    return re.sub(r"\b[Rr]ules? \d+(?:(?:, | and | to )\d+)*", "rule", text)


# The database.


def test_no_stay_contradicts_a_flight_of_the_same_traveller() -> None:
    """Nobody sleeps in a city on a day on which they fly between two others, or before they get there."""
    for segment in TABLES[AIRLINE]["Segment"]:
        flight = FLIGHTS[segment["flight_id"]]
        leaves, lands = flight["departs_at"][:10], flight["arrives_at"][:10]
        if segment["status"] == "canceled" or flight["status"] == "canceled":
            continue
        for stay in TABLES[HOTEL]["Stay"]:
            is_mine = stay["traveller_id"] == segment["traveller_id"] and stay["status"] != "canceled"
            if is_mine and stay["check_in"] <= leaves <= stay["check_out"]:
                city = BY_ID["Hotel"][stay["hotel_id"]]["nearest_airport"]
                arrives = city == flight["destination"] and stay["check_in"] >= lands
                departs = city == flight["origin"] and stay["check_out"] <= leaves
                assert arrives or departs, (stay["stay_id"], segment["segment_id"])


def test_cities_and_airports_are_the_same_in_both_systems() -> None:
    airports = {row["airport_id"]: row["city"] for row in TABLES[AIRLINE]["Airport"]}
    assert {row["nearest_airport"]: row["city"] for row in TABLES[HOTEL]["Hotel"]} == airports
    assert TABLES[AIRLINE]["Traveller"] == TABLES[HOTEL]["Traveller"]
