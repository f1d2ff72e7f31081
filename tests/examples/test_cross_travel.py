"""The rules of the cross domain of flights and stays: what acting in both systems asks, and what both share.

Both servers of a world share the table of travellers, so points and contact details are the same in both. What holds
for every cross domain stands in test_cross_domains.py.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.examples.crossed import World, crossed, server_of
from tests.examples.hotel_policy import BY_ID, broken_rules
from tests.examples.shipped import Row, actions_of, shipped

AIRLINE, HOTEL = "AirlineReservations", "HotelReservations"
CROSS = crossed(f"{AIRLINE}_{HOTEL}")
TABLES = {name: server.tables for name, server in CROSS.servers.items()}
IDS = {f"{row['first_name']} {row['last_name']}": who for who, row in CROSS.people.items()}
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

each_query = pytest.mark.parametrize("query", CROSS.queries, ids=[query["id"] for query in CROSS.queries])


@pytest.fixture
def world() -> Iterator[World]:
    opened = World(CROSS)
    yield opened
    opened.close()


@pytest.fixture
def divided() -> Iterator[World]:
    opened = World(CROSS, is_divided=True)
    yield opened
    opened.close()


# The reference solutions.


@each_query
def test_reference_consults_what_the_policy_wants_before_each_write(query: Row) -> None:
    called = [action["name"] for action in actions_of(query)]
    for place, name in enumerate(called):
        server = name.split(".")[0]
        assert {f"{server}.{tool}" for tool in CONSULTED.get(name, ())} <= set(called[:place])


@each_query
def test_reference_keeps_the_rules_of_stays_and_lets_no_stay_begin_before_its_flight(query: Row, world: World) -> None:
    world.play(query)
    traveller_id = CROSS.served(query)
    after = world.tables(HOTEL)
    assert broken_rules(traveller_id, TABLES[HOTEL], after) == set()
    assert early_stays(traveller_id, world) == []


@each_query
def test_reference_changes_the_flight_before_the_stay_unless_the_stay_pays_for_it(query: Row) -> None:
    writes = CROSS.writes_of(query)
    is_paid_by_stay = writes[1:] and writes[-1]["arguments"].get("payment") == "points"
    for turn in range(len(query["task_info"]["replies"])):
        servers = [server_of(action) for action in writes if action["turn"] == turn]
        assert is_paid_by_stay or servers == sorted(servers, key=[AIRLINE, HOTEL].index)


@each_query
def test_reference_spends_no_points_after_a_contact_change(query: Row, world: World) -> None:
    called = query["task_info"]["trajectory"]
    changed = [place for place, name in enumerate(called) if name.endswith(".update_contact_details")]
    world.play(query)
    spent = [row for row in world.tables(AIRLINE)["PointsEntry"] if row not in TABLES[AIRLINE]["PointsEntry"]]
    assert not changed or not spent
    assert len(changed) <= 1


def early_stays(traveller_id: str, world: World) -> list[str]:
    """The traveller's stays to come of which a night lies before the day on which the flight to their city lands."""
    early = []
    for segment in world.tables(AIRLINE)["Segment"]:
        flight = FLIGHTS[segment["flight_id"]]
        lands, city = flight["arrives_at"][:10], flight["destination"]
        for stay in world.tables(HOTEL)["Stay"]:
            is_here = BY_ID["Hotel"][stay["hotel_id"]]["nearest_airport"] == city
            is_mine = traveller_id == stay["traveller_id"] == segment["traveller_id"]
            is_to_come = (stay["status"], segment["status"]) == ("booked", "confirmed")
            if is_mine and is_here and is_to_come and stay["check_in"] < lands <= stay["check_out"]:
                early.append(stay["stay_id"])
    return early


# What the servers share.


def test_at_least_four_queries_come_out_otherwise_where_the_travellers_are_not_shared() -> None:
    different, refused = [], []
    for query in CROSS.queries:
        together, apart = World(CROSS), World(CROSS, is_divided=True)
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
def test_points_are_spent_once_only(order: tuple[str, str], world: World, divided: World) -> None:
    flight = {"flight_id": "KA202-0207", "fareclass_id": "STANDARD", "payment": "points", "confirm": True}
    stay = {"roomtype_id": "AMS02-SUP", "rateplan_id": "POINTS", "guests": 1, "confirm": True}
    stay |= {"check_in": "2025-02-07", "check_out": "2025-02-09"}
    buys: dict[str, tuple[str, Row]] = {
        AIRLINE: (f"{AIRLINE}.book_flight", flight),
        HOTEL: (f"{HOTEL}.book_stay", stay),
    }
    for each, second_is_refused in ((world, True), (divided, False)):
        each.authorize(IDS["Greta Popescu"])
        first, second = (each.call(name, **arguments) for name, arguments in (buys[order[0]], buys[order[1]]))
        assert first["success"] is True
        assert ("points; the traveller has" in second.get("error", "")) == second_is_refused


def test_contact_details_that_one_system_changes_are_those_of_the_other(world: World) -> None:
    world.authorize(IDS["Quentin Zhang"])
    world.call(f"{AIRLINE}.update_contact_details", phone="555-237-4400", confirm=True)
    assert world.call(f"{HOTEL}.get_profile")["traveller"]["phone"] == "555-237-4400"
    again = world.call(f"{HOTEL}.update_contact_details", phone="555-237-4400", confirm=True)
    assert "Nothing to change" in again["error"]


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
    rule: int, name: str, calls: list[Any], world: World
) -> None:
    world.authorize(traveller_id := IDS[name])
    for short, arguments in calls:
        full = short.replace("A.", f"{AIRLINE}.").replace("H.", f"{HOTEL}.")
        assert world.call(full, **arguments, confirm=True)["success"] is True
    assert f"\n{rule}. **" in CROSS.policy
    assert (rule == 11) == (early_stays(traveller_id, world) != [])
    assert traveller_id in {CROSS.served(query) for query in CROSS.of_kind("refuse", "alternative")}


# The queries.


def test_tasks_with_several_changes_change_something_in_both_systems() -> None:
    for query in CROSS.of_kind("multi_write", "insert", "delete"):
        assert {server_of(action) for action in CROSS.writes_of(query)} == {AIRLINE, HOTEL}


@each_query
def test_every_amount_flight_and_hotel_in_the_replies_comes_from_a_result_or_from_the_user(
    query: Row, world: World
) -> None:
    known = json.dumps(world.play(query)) + query["messages"][0]["content"] + query["user_system_prompt"]
    values = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", known)}
    said = " ".join(query["task_info"]["replies"])
    told = re.findall(r"\$([\d,]+\.\d\d)", said) + re.findall(r"([\d,]+) points", said)
    assert [amount for amount in told if float(amount.replace(",", "")) not in values] == []
    assert [name for name in re.findall(r"KA\d{3}|Sandpiper \w+ \w+", said) if name not in known] == []


# The policy.


RULE_NUMBERS = re.compile(r"\b[Rr]ules? (\d+(?:(?:, | and | to )\d+)*)")
SAID_ONCE_FOR_BOTH = {
    "After a contact change.": "One set of contact details.",
    "Points after a contact change.": "One set of contact details.",
}


def titles(policy: str) -> dict[int, str]:
    return {int(number): title for number, title in re.findall(r"^(\d+)\. \*\*(.+?)\*\*", policy, re.MULTILINE)}


def meant(policy: str, text: str) -> set[str]:
    """The titles of the rules that a text of this policy names by their numbers."""
    found: set[str] = set()
    for numbers in RULE_NUMBERS.findall(text):
        for part in re.split(", | and ", numbers):
            first, _, last = part.partition(" to ")
            found |= {titles(policy)[number] for number in range(int(first), int(last or first) + 1)}
    return {SAID_ONCE_FOR_BOTH.get(title, title) for title in found}


@pytest.mark.parametrize(("name", "prefix"), [(AIRLINE, "ar_"), (HOTEL, "hr_")])
def test_the_joined_policy_says_of_each_tool_what_the_single_policy_says(name: str, prefix: str) -> None:
    single, block = shipped(name).policy, r"^### {}\n(.*?)(?=\n### |\n*\Z)"
    for tool in shipped(name).schemas:
        (own,) = re.findall(block.format(tool), single, re.DOTALL | re.MULTILINE)
        (joined,) = re.findall(block.format(prefix + tool), CROSS.policy, re.DOTALL | re.MULTILINE)
        assert meant(CROSS.policy, joined) == meant(single, own)
        for other in shipped(name).schemas:
            own = re.sub(rf"\b{other}\b", prefix + other, own)
        assert RULE_NUMBERS.sub("rule", joined).strip() == RULE_NUMBERS.sub("rule", own).strip()


@pytest.mark.parametrize("name", [AIRLINE, HOTEL])
def test_the_joined_policy_has_every_rule_that_only_the_single_policies_keep(name: str) -> None:
    single, joined = shipped(name).policy, RULE_NUMBERS.sub("rule", CROSS.policy)
    for number, title in titles(single).items():
        (rule,) = re.findall(rf"^{number}\. (.*)$", single, re.MULTILINE)
        assert RULE_NUMBERS.sub("rule", rule) in joined or SAID_ONCE_FOR_BOTH.get(title, title) in {
            "Suspended accounts.",
            "One set of contact details.",
        }


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
