"""The rules of `AirlineReservations`: what its server refuses, what only its policy forbids, what its tables promise.

What holds for every shipped domain stands in test_shipped_domains.py.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.examples.shipped import Row, Session, shipped

AIRLINE = shipped("AirlineReservations")
MODULE, TABLES = AIRLINE.module, AIRLINE.tables
IDS = {f"{row['first_name']} {row['last_name']}": who for who, row in AIRLINE.people.items()}
FLIGHTS = {row["flight_id"]: row for row in TABLES["Flight"]}
COMPENSATION = 50.0
"""What the policy gives each passenger for a long delay."""
SEGMENTS = {row["segment_id"]: row for row in TABLES["Segment"]}


@pytest.fixture
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    opened = Session(AIRLINE, request.node.nodeid)
    yield opened
    opened.close()


def find(table: str, **having: Any) -> Row:
    """The one row with these values."""
    (row,) = (row for row in TABLES[table] if all(row[key] == value for key, value in having.items()))
    return row


def segment_of(reservation_id: str) -> str:
    segment_id: str = find("Segment", reservation_id=reservation_id)["segment_id"]
    return segment_id


def aboard(reservation_id: str, first_name: str) -> Row:
    """The arguments that name a passenger of a reservation with one segment."""
    passenger = find("Passenger", reservation_id=reservation_id, first_name=first_name)
    return {"segment_id": segment_of(reservation_id), "passenger_id": passenger["passenger_id"]}


def seats_left(session: Session, flight_id: str, fareclass_id: str) -> int:
    fares = session.call("get_flight", flight_id=flight_id)["fares"]
    (left,) = (fare["seats_left"] for fare in fares if fare["fareclass_id"] == fareclass_id)
    assert isinstance(left, int)
    return left


# The rules that the server enforces.


@pytest.mark.parametrize(
    ("name", "tool", "arguments", "says"),
    [
        (
            "Greta Popescu",
            "book_flight",
            {"flight_id": "KA202-0215", "fareclass_id": "LIGHT", "payment": "card"},
            "no Flight",
        ),
        (
            "Greta Popescu",
            "book_flight",
            {"flight_id": "KA212-0127", "fareclass_id": "LIGHT", "payment": "card"},
            "is canceled",
        ),
        (
            "Greta Popescu",
            "book_flight",
            {"flight_id": "KA202-0113", "fareclass_id": "LIGHT", "payment": "card"},
            "is arrived",
        ),
        (
            "Greta Popescu",
            "book_flight",
            {"flight_id": "KA117-0123", "fareclass_id": "LIGHT", "payment": "card"},
            "KA117-0123 is closed: it departs at 2025-01-23T22:10:00+01:00",
        ),
        (
            "Greta Popescu",
            "book_flight",
            {"flight_id": "KA122-0214", "fareclass_id": "LIGHT", "payment": "card"},
            "does not have 1 seat(s) left in LIGHT",
        ),
        (
            "Greta Popescu",
            "book_flight",
            {"flight_id": "KA132-0207", "fareclass_id": "BUSINESS", "payment": "card"},
            "left in BUSINESS",
        ),
        (
            "Stefan Delgado",
            "book_flight",
            {"flight_id": "KA231-0210", "fareclass_id": "STANDARD", "payment": "points"},
            "This costs 12100 points; the traveller has 9500",
        ),
        (
            "Farid Haddad",
            "book_flight",
            {"flight_id": "KA112-0207", "fareclass_id": "STANDARD", "payment": "travel_credit"},
            "No valid travel credit of the traveller covers 119.00",
        ),
        (
            "Mirela Demir",
            "change_flight",
            {"segment_id": "SEG-017", "flight_id": "KA212-0210"},
            "does not fly from ATH to VIE",
        ),
        (
            "Mirela Demir",
            "change_flight",
            {"segment_id": "SEG-017", "flight_id": "KA122-0207"},
            "is STANDARD on KA122-0207 already",
        ),
        (
            "Mirela Demir",
            "change_flight",
            {"segment_id": "SEG-017", "flight_id": "KA122-0210", "fareclass_id": "LIGHT"},
            "cannot lower the fare from STANDARD to LIGHT",
        ),
        ("Mirela Demir", "change_flight", {"segment_id": "SEG-018", "flight_id": "KA202-0207"}, "has no Segment"),
        (
            "Rosa Cohen",
            "change_flight",
            {"segment_id": "SEG-020", "flight_id": "KA212-0210"},
            "does not have 1 seat(s) left in LIGHT",
        ),
        (
            "Tala Rahimi",
            "change_flight",
            {"segment_id": "SEG-021", "flight_id": "KA102-0207"},
            "is flown already",
        ),
        (
            "Ximena Zhang",
            "change_flight",
            {"segment_id": "SEG-053", "flight_id": "KA113-0127"},
            "KA117-0123 is closed",
        ),
        (
            "Ximena Zhang",
            "cancel_reservation",
            {"reservation_id": "Z6XMN1", "refund_to": "original_payment"},
            "is closed",
        ),
        ("Tala Rahimi", "cancel_reservation", {"reservation_id": "T5RHM3", "refund_to": "none"}, "is flown already"),
        ("Farid Haddad", "cancel_reservation", {"reservation_id": "F9DHA4", "refund_to": "none"}, "is canceled"),
        ("Farid Haddad", "cancel_reservation", {"reservation_id": "T5RHM3", "refund_to": "none"}, "has no Reservation"),
        ("Kavya Raman", "select_seat", {**aboard("K3RMN8", "Kavya"), "seat": "11C"}, "cannot be chosen"),
        ("Kavya Raman", "select_seat", {**aboard("K3RMN8", "Kavya"), "seat": "front"}, "cannot be chosen"),
        ("Kavya Raman", "select_seat", {**aboard("K3RMN8", "Kavya"), "seat": "2A"}, "not in the economy cabin"),
        ("Ines Tanaka", "select_seat", {**aboard("T3INE7", "Ines"), "seat": "3A"}, "not in the economy cabin"),
        ("Yusuf Cohen", "select_seat", {**aboard("C4YSF2", "Yusuf"), "seat": "6F"}, "not in the business cabin"),
        (
            "Farid Lambert",
            "select_seat",
            {"segment_id": "SEG-049", "passenger_id": "PAX-049", "seat": "1A"},
            "has no Passenger",
        ),
        (
            "Chidi Lambert",
            "add_bag",
            {"segment_id": "SEG-008", "passenger_id": "PAX-009", "kind": "checked_23kg"},
            "PAX-009 is no passenger of L4BCH7",
        ),
        (
            "Ximena Zhang",
            "add_bag",
            {**aboard("Z6XMN1", "Ximena"), "kind": "checked_23kg"},
            "is closed",
        ),
        (
            "Stefan Vogel",
            "join_standby",
            {"segment_id": "SEG-014", "flight_id": "KA113-0127"},
            "earlier flights on the day of KA115-0124",
        ),
        (
            "Vera Silva",
            "join_standby",
            {"segment_id": "SEG-024", "flight_id": "KA113-0207"},
            "on the standby list of KA113-0207 already",
        ),
        ("Stefan Vogel", "join_standby", {"segment_id": "SEG-014", "flight_id": "KA121-0124"}, "does not fly from VIE"),
        ("Stefan Vogel", "leave_standby", {"standbyentry_id": "SBY-01"}, "has no StandbyEntry"),
        (
            "Omar Carvalho",
            "issue_travel_credit",
            {"reservation_id": "O7CVL4", "amount": 300.01, "reason": "delay"},
            "300.00 at most",
        ),
        (
            "Omar Carvalho",
            "issue_travel_credit",
            {"reservation_id": "O7CVL4", "amount": 0, "reason": "delay"},
            "must be positive",
        ),
        (
            "Omar Carvalho",
            "issue_travel_credit",
            {"reservation_id": "O7CVL4", "amount": 0.005, "reason": "delay"},
            "two decimals",
        ),
        (
            "Omar Carvalho",
            "issue_travel_credit",
            {"reservation_id": "T5RHM3", "amount": 1, "reason": "delay"},
            "has no Reservation",
        ),
        ("Bjorn Tanaka", "claim_missing_points", {"segment_id": "SEG-002"}, "points are earned once, by flying"),
        ("Mirela Demir", "claim_missing_points", {"segment_id": "SEG-017"}, "SEG-017 is confirmed"),
        ("Dimitri Horvat", "claim_missing_points", {"segment_id": "SEG-004"}, "LIGHT fares earn no points"),
        ("Lars Delgado", "update_contact_details", {}, "Nothing to change: give email or phone"),
        ("Lars Delgado", "update_contact_details", {"phone": "555-630-3177"}, "Nothing to change"),
        ("Lars Delgado", "update_contact_details", {"phone": "0664 123"}, "must look like 555-123-4567"),
        ("Lars Delgado", "update_contact_details", {"email": "lars at home"}, "is not an email address"),
        (
            "Lars Delgado",
            "update_contact_details",
            {"email": "Lars.Eze41@example.org"},
            "belongs to another traveller's account",
        ),
    ],
)
def test_enforced_rule_refuses_and_changes_nothing(
    name: str, tool: str, arguments: Row, says: str, session: Session
) -> None:
    session.authorize(IDS[name])
    before = session.state()
    for confirm in (False, True):
        assert says in session.call(tool, **arguments, confirm=confirm)["error"]
    assert session.state() == before


def test_no_more_than_three_extra_bags_are_taken_for_a_passenger_on_a_segment(session: Session) -> None:
    session.authorize(IDS["Ximena Nilsen"])
    for name, free in (("Ximena", 2), ("Mateo", 3)):
        bag = {**aboard("X4NLS7", name), "kind": "checked_23kg", "confirm": True}
        assert all(session.call("add_bag", **bag)["success"] for _ in range(free))
        assert "3 extra bags" in session.call("add_bag", **bag)["error"]


def test_search_lists_the_flights_of_a_day_in_order_and_knows_the_airports(session: Session) -> None:
    session.authorize(IDS["Stefan Vogel"])
    found = session.call("search_flights", origin="VIE", destination="AMS", date="2025-01-24")
    assert [flight["flight_number"] for flight in found["flights"]] == ["KA111", "KA113", "KA115"]
    assert [fare["fareclass_id"] for fare in found["flights"][0]["fares"]] == ["LIGHT", "STANDARD", "FLEX", "BUSINESS"]
    assert session.call("search_flights", origin="VIE", destination="AMS", date="2025-01-25")["count"] == 0
    assert "no Airport" in session.call("search_flights", origin="JFK", destination="AMS", date="2025-01-24")["error"]


# What the writes do.


def test_a_booking_takes_a_seat_and_its_points_and_canceling_it_returns_both(session: Session) -> None:
    session.authorize(IDS["Ines Mori"])
    before = session.call("get_profile")["traveller"]["points_balance"]
    left = seats_left(session, "KA102-0207", "FLEX")
    booking = {"flight_id": "KA102-0207", "fareclass_id": "FLEX", "payment": "points"}
    booked = session.call("book_flight", **booking, confirm=True)
    assert booked["points_balance"] == before - 22400
    assert seats_left(session, "KA102-0207", "FLEX") == left - 1
    code = booked["reservation_id"]
    canceled = session.call("cancel_reservation", reservation_id=code, refund_to="original_payment", confirm=True)
    assert (canceled["refund"], canceled["refund_method"]) == (224.0, "points")
    profile = session.call("get_profile")
    assert profile["traveller"]["points_balance"] == before
    assert [entry["points"] for entry in profile["points_entries"][-2:]] == [-22400, 22400]
    assert seats_left(session, "KA102-0207", "FLEX") == left


def test_a_change_is_charged_for_every_passenger_and_moves_seats_between_the_flights(session: Session) -> None:
    session.authorize(IDS["Ximena Nilsen"])
    old, new = (seats_left(session, flight_id, "STANDARD") for flight_id in ("KA206-0210", "KA206-0214"))
    change = {"segment_id": segment_of("X4NLS7"), "flight_id": "KA206-0214", "confirm": True}
    assert session.call("change_flight", **change)["total"] == 80.0
    assert seats_left(session, "KA206-0210", "STANDARD") == old + 2
    assert seats_left(session, "KA206-0214", "STANDARD") == new - 2
    shown = session.call("get_reservation", reservation_id="X4NLS7")
    assert shown["seats"] == []
    assert len(shown["extra_bags"]) == 1
    assert [row["amount"] for row in shown["payments"] if row["item"] == "change_fee"] == [80.0]


def test_a_higher_fare_on_the_same_flight_costs_the_difference_and_raises_the_refund(session: Session) -> None:
    session.authorize(IDS["Priya Desai"])
    upgrade = {"segment_id": segment_of("P6DSI7"), "flight_id": "KA202-0210", "fareclass_id": "FLEX"}
    assert session.call("change_flight", **upgrade)["action_preview"]["total"] == 65.0
    assert session.call("change_flight", **upgrade, confirm=True)["change_fee"] == 0.0
    answer = session.call("cancel_reservation", reservation_id="P6DSI7", refund_to="original_payment", confirm=True)
    assert answer["refund"] == 194.0


def test_after_a_disruption_the_same_fare_is_free_but_a_higher_one_is_not(session: Session) -> None:
    session.authorize(IDS["Rosa Cohen"])
    change = {"segment_id": segment_of("R8CHN4"), "flight_id": "KA212-0131"}
    assert session.call("change_flight", **change)["action_preview"]["total"] == 0.0
    dearer = session.call("change_flight", **change, fareclass_id="STANDARD")["action_preview"]
    assert (dearer["change_fee"], dearer["fare_difference"]) == (0.0, 28.0)
    refund = session.call("cancel_reservation", reservation_id="R8CHN4", refund_to="original_payment")
    assert refund["action_preview"]["refund"] == 107.0


@pytest.mark.parametrize(
    ("name", "reservation_id", "refund_to", "refund"),
    [
        ("Elif Eze", "E2ZLP6", "travel_credit", 105.0),
        ("Elif Eze", "E2ZLP6", "none", 0.0),
        ("Chidi Lambert", "L4BCH7", "original_payment", 204.0),
        ("Chidi Lambert", "L6QRV2", "original_payment", 9.0),
        ("Chidi Silva", "S8CHD3", "travel_credit", 0.0),
        ("Amara Nilsen", "N2AMR9", "original_payment", 75.0),
        ("Zofia Kowalska", "Z1KWL5", "travel_credit", 238.0),
    ],
)
def test_a_refund_is_the_fare_less_the_fee_for_every_passenger_and_never_negative(
    name: str, reservation_id: str, refund_to: str, refund: float, session: Session
) -> None:
    session.authorize(IDS[name])
    answer = session.call("cancel_reservation", reservation_id=reservation_id, refund_to=refund_to, confirm=True)
    assert answer["refund"] == refund
    shown = session.call("get_reservation", reservation_id=reservation_id)
    assert [row["amount"] for row in shown["refunds"]] == ([refund] if refund else [])
    assert {segment["status"] for segment in shown["segments"]} == {"canceled"}
    credits = [row["balance"] for row in session.call("get_profile")["travel_credits"]]
    assert credits == ([refund] if refund and refund_to == "travel_credit" else [])


def test_of_several_travel_credits_the_first_to_expire_that_covers_the_price_is_used(session: Session) -> None:
    session.authorize(IDS["Tala Demir"])
    (old,) = session.call("get_profile")["travel_credits"]
    for amount in (100.0, 150.0):
        credit = {"reservation_id": "D6TLA2", "amount": amount, "reason": "goodwill"}
        assert session.call("issue_travel_credit", **credit, confirm=True)["success"] is True
    booking = {"flight_id": "KA121-0210", "fareclass_id": "STANDARD", "payment": "travel_credit", "confirm": True}
    left = [session.call("book_flight", **booking)["credit_left"] for _ in range(3)]
    assert left == [old["balance"] - 119.0, old["balance"] - 238.0, 31.0]


def test_moving_to_another_seat_is_free_and_frees_the_old_one(session: Session) -> None:
    session.authorize(IDS["Kavya Raman"])
    who = aboard("K3RMN8", "Kavya")
    assert session.call("select_seat", **who, seat="10C", confirm=True)["fee"] == 8.0
    assert "10C" not in session.call("get_flight", flight_id="KA221-0127")["free_seats"]
    assert session.call("select_seat", **who, seat="19D", confirm=True)["fee"] == 0.0
    free = session.call("get_flight", flight_id="KA221-0127")["free_seats"]
    assert ("10C" in free, "19D" in free) == (True, False)
    assert len(session.call("get_reservation", reservation_id="K3RMN8")["seats"]) == 1


def test_points_are_claimed_once_and_the_tier_counts(session: Session) -> None:
    session.authorize(IDS["Tala Rahimi"])
    claim = {"segment_id": segment_of("T5RHM3"), "confirm": True}
    assert session.call("claim_missing_points", **claim)["points"] == round(244 * 8 * 1.25)
    assert "earned once" in session.call("claim_missing_points", **claim)["error"]


# What only the policy forbids: the server must let it happen, or an agent could not go wrong.


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        (
            "Hiro Kealoha",
            [("book_flight", {"flight_id": "KA132-0207", "fareclass_id": "LIGHT", "payment": "points"})],
        ),
        ("Lars Eze", [("claim_missing_points", {"segment_id": segment_of("E9LRS3")})]),
        ("Kavya Horvat", [("cancel_reservation", {"reservation_id": "H2KVY6", "refund_to": "original_payment"})]),
        ("Quentin Petrov", [("cancel_reservation", {"reservation_id": "P2QNT7", "refund_to": "original_payment"})]),
        ("Vera Carvalho", [("change_flight", {"segment_id": segment_of("C7VRA3"), "flight_id": "KA241-0214"})]),
        ("Mirela Haddad", [("change_flight", {"segment_id": segment_of("H5MRL9"), "flight_id": "KA113-0127"})]),
        ("Farid Lambert", [("cancel_reservation", {"reservation_id": "L1FRD7", "refund_to": "original_payment"})]),
        (
            "Umberto Lindqvist",
            [("book_flight", {"flight_id": "KA201-0207", "fareclass_id": "STANDARD", "payment": "card"})],
        ),
        ("Priya Mori", [("select_seat", {**aboard("M7PRY1", "Hana"), "seat": "12A"})]),
        ("Bjorn Novak", [("add_bag", {**aboard("N5BJR6", "Bjorn"), "kind": "sports_equipment"})]),
        ("Rosa Raman", [("join_standby", {"segment_id": segment_of("R4RSA6"), "flight_id": "KA113-0124"})]),
        (
            "Yusuf Novak",
            [("issue_travel_credit", {"reservation_id": "N8YSF5", "amount": 50, "reason": "goodwill"})],
        ),
        ("Aiko Rahimi", [("issue_travel_credit", {"reservation_id": "R7AKO5", "amount": 100, "reason": "delay"})]),
        ("Omar Carvalho", [("issue_travel_credit", {"reservation_id": "O7CVL4", "amount": 300, "reason": "delay"})]),
        ("Wei Desai", [("claim_missing_points", {"segment_id": segment_of("D3WEI8")})]),
        ("Aiko Moreau", [("claim_missing_points", {"segment_id": segment_of("M1AKO8")})]),
        (
            "Tala Demir",
            [("book_flight", {"flight_id": "KA121-0210", "fareclass_id": "LIGHT", "payment": "travel_credit"})],
        ),
        (
            "Nadia Popescu",
            [
                ("update_contact_details", {"email": "nadia.p@posthaven.example"}),
                ("book_flight", {"flight_id": "KA202-0207", "fareclass_id": "FLEX", "payment": "points"}),
            ],
        ),
    ],
    ids=[
        "suspended-books",
        "suspended-claims",
        "light-refund",
        "standard-to-card",
        "light-change",
        "checked-in",
        "partly-flown",
        "two-places",
        "exit-row",
        "skis-on-atr",
        "standby",
        "weather",
        "twice-compensated",
        "too-much",
        "late-claim",
        "award-flight",
        "credit-for-light",
        "points-after-email",
    ],
)
def test_rule_of_the_policy_alone_is_not_enforced(name: str, calls: list[Any], session: Session) -> None:
    session.authorize(IDS[name])
    for tool, arguments in calls:
        assert session.call(tool, **arguments, confirm=True)["success"] is True


# The queries.


@pytest.mark.parametrize("query", AIRLINE.queries, ids=[query["id"] for query in AIRLINE.queries])
def test_every_amount_flight_and_seat_in_the_replies_comes_from_a_result(query: Row, session: Session) -> None:
    results = session.play(query)
    known = json.dumps(results)
    numbers = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", known)}
    numbers |= {*MODULE.BAG_FEES.values(), COMPENSATION}
    for shown in results:
        if "fare_paid" in shown:  # a refund that is only talked about
            numbers |= {shown["fare_paid"] - rules["cancel_fee"] for rules in shown["fare_rules"]}
    said = " ".join(query["task_info"]["replies"])
    told = re.findall(r"\$([\d,]+\.\d\d)", said) + re.findall(r"([\d,]*\d{3}) points", said)
    assert [amount for amount in told if float(amount.replace(",", "")) not in numbers] == []
    assert [flight for flight in re.findall(r"KA\d{3}", said) if flight not in known] == []
    assert [seat for seat in re.findall(r"\b\d{1,2}[A-F]\b", said) if seat not in known] == []


def test_references_keep_the_rules_of_the_policy() -> None:
    for query in AIRLINE.queries:
        me = AIRLINE.people[IDS[re.findall(r"- name: (.+)", query["task_info"]["known_info"])[0]]]
        contact_changed = False
        for action in query["task_info"]["actions"]:
            name, arguments = action["name"], action["arguments"]
            if name in AIRLINE.writes:
                assert not me["is_suspended"]
                spends = arguments.get("payment") == "points" or name == "cancel_reservation"
                assert not (contact_changed and spends)
                assert (arguments.get("fareclass_id"), arguments.get("payment")) != ("LIGHT", "travel_credit")
            if name == "change_flight":
                segment = SEGMENTS[arguments["segment_id"]]
                assert segment["fareclass_id"] != "LIGHT" or FLIGHTS[segment["flight_id"]]["status"] == "canceled"
                assert not segment["checked_in"]
            if arguments.get("refund_to") == "original_payment":
                booked = find("Reservation", reservation_id=arguments["reservation_id"])["booked_at"]
                fare = find("Segment", reservation_id=arguments["reservation_id"])["fareclass_id"]
                assert fare == "FLEX" or MODULE._hours_to(booked) > -24
            contact_changed |= name == "update_contact_details"


# The database.


def test_a_person_is_a_traveller_whom_other_domains_share() -> None:
    assert list(AIRLINE.people.values()) == TABLES["Traveller"]
    assert {row["home_airport"] for row in TABLES["Traveller"]} == {row["airport_id"] for row in TABLES["Airport"]}
    assert sum(row["is_suspended"] for row in TABLES["Traveller"]) >= 1


def test_flights_fly_between_known_airports_and_their_ids_say_when() -> None:
    offsets = {row["airport_id"]: row["utc_offset"] for row in TABLES["Airport"]}
    for flight in FLIGHTS.values():
        assert flight["origin"] != flight["destination"]
        departs, arrives = (datetime.fromisoformat(flight[key]) for key in ("departs_at", "arrives_at"))
        assert 1 <= (arrives - departs).total_seconds() / 3600 < 5
        assert flight["flight_id"] == f"{flight['flight_number']}-{departs:%m%d}"
        if departs > datetime.fromisoformat("2024-10-27T12:00:00+00:00"):
            assert flight["departs_at"].endswith(offsets[flight["origin"]])
            assert flight["arrives_at"].endswith(offsets[flight["destination"]])
        assert (flight["status"] == "arrived") == (flight["departs_at"] < MODULE.TODAY)
        is_disrupted = flight["delay_minutes"] > 0 or flight["status"] == "canceled"
        assert is_disrupted == (flight["disruption_cause"] is not None)


def test_each_flight_has_one_price_for_each_fare_and_higher_fares_cost_more() -> None:
    ranks = [row["fareclass_id"] for row in TABLES["FareClass"]]
    for flight_id, flight in FLIGHTS.items():
        fares = [row for row in TABLES["Fare"] if row["flight_id"] == flight_id]
        assert [row["fareclass_id"] for row in fares] == ranks[: 3 if flight["aircraft"] == "ATR 72" else 4]
        prices = [row["price"] for row in fares]
        assert prices == sorted(set(prices))


def test_every_reservation_has_passengers_segments_and_a_payment_that_add_up() -> None:
    for reservation in TABLES["Reservation"]:
        code = reservation["reservation_id"]
        people = [row for row in TABLES["Passenger"] if row["reservation_id"] == code]
        segments = [row for row in SEGMENTS.values() if row["reservation_id"] == code]
        fare = find("Payment", reservation_id=code, item="fare")
        assert fare["amount"] == sum(row["price"] for row in segments) * len(people) > 0
        states = {row["status"] for row in segments}
        assert reservation["status"] == (states.pop() if len(states) == 1 else "confirmed")
        me = AIRLINE.people[reservation["traveller_id"]]
        assert [people[0][key] for key in ("first_name", "last_name")] == [me["first_name"], me["last_name"]]
        assert people[0]["born_on"] == me["date_of_birth"]
        departures = [datetime.fromisoformat(FLIGHTS[row["flight_id"]]["departs_at"]) for row in segments]
        assert datetime.fromisoformat(reservation["booked_at"]) < min(departures)


def test_segments_are_flown_exactly_when_their_flight_has_arrived_and_nobody_is_in_two_places() -> None:
    held: dict[str, list[Row]] = {}
    for segment in SEGMENTS.values():
        flight = FLIGHTS[segment["flight_id"]]
        if segment["status"] != "canceled":
            assert (segment["status"] == "flown") == (flight["status"] == "arrived")
            assert segment["checked_in"] or segment["status"] == "confirmed"
            others = held.setdefault(segment["traveller_id"], [])
            for other in others:
                assert flight["arrives_at"] <= other["departs_at"] or other["arrives_at"] <= flight["departs_at"]
            others.append(flight)


def test_seats_are_taken_once_from_those_that_can_be_chosen_and_in_the_cabin_of_the_fare() -> None:
    cabins = {row["fareclass_id"]: row["cabin"] for row in TABLES["FareClass"]}
    taken = Counter()
    for row in TABLES["SeatAssignment"]:
        segment = SEGMENTS[row["segment_id"]]
        taken[segment["flight_id"], row["seat"]] += 1
        assert row["seat"] in FLIGHTS[segment["flight_id"]]["seats_to_choose"].split(", ")
        assert (int(row["seat"][:-1]) in MODULE.BUSINESS_ROWS) == (cabins[segment["fareclass_id"]] == "business")
        assert find("Passenger", passenger_id=row["passenger_id"])["reservation_id"] == segment["reservation_id"]
    assert set(taken.values()) == {1}


def test_credited_points_have_their_entry_and_spent_ones_too() -> None:
    rates = {row["fareclass_id"]: row["points_per_dollar"] for row in TABLES["FareClass"]}
    wanted = Counter()
    for segment in SEGMENTS.values():
        if segment["points_credited"]:
            tier = AIRLINE.people[segment["traveller_id"]]["loyalty_tier"]
            points = segment["price"] * rates[segment["fareclass_id"]] * MODULE.TIER_BONUS[tier]
            wanted[segment["reservation_id"], "earned", round(points)] += 1
    for payment in TABLES["Payment"]:
        if payment["method"] == "points":
            wanted[payment["reservation_id"], "spent", -round(payment["amount"] * 100)] += 1
    assert wanted == Counter((row["reservation_id"], row["kind"], row["points"]) for row in TABLES["PointsEntry"])


def test_travel_credits_from_refunds_are_what_the_fare_left_over() -> None:
    for refund in TABLES["Refund"]:
        credit = find("TravelCredit", reservation_id=refund["reservation_id"])
        paid = find("Payment", reservation_id=refund["reservation_id"], item="fare")["amount"]
        assert credit["balance"] == refund["amount"] == paid - 50.0
        assert credit["issued_on"] == refund["requested_at"][:10]
