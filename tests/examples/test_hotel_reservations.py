"""The rules of `HotelReservations`: what its server refuses, what only its policy forbids, what its tables promise.

What holds for every shipped domain stands in test_shipped_domains.py.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.examples.hotel_policy import BY_ID, TIERS, TODAY, TOMORROW, age, broken_rules, nights
from tests.examples.shipped import Row, Session, served, shipped

HOTEL = shipped("HotelReservations")
MODULE, TABLES = HOTEL.module, HOTEL.tables


@pytest.fixture
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    opened = Session(HOTEL, request.node.nodeid)
    yield opened
    opened.close()


def who(name: str) -> str:
    """The id of the traveller of this name."""
    found: str
    (found,) = (key for key, row in HOTEL.people.items() if f"{row['first_name']} {row['last_name']}" == name)
    return found


# The rules that the server enforces.

DATES = {"check_in": "2025-04-01", "check_out": "2025-04-03"}
BOOKING: Row = {"roomtype_id": "VIE01-DBL", "rateplan_id": "FLEX", "guests": 1, **DATES}


@pytest.mark.parametrize(
    ("name", "tool", "arguments", "says"),
    [
        ("Elif Eze", "book_stay", BOOKING | {"roomtype_id": "VIE09-DBL"}, "There is no RoomType"),
        ("Elif Eze", "book_stay", BOOKING | {"rateplan_id": "GRATIS"}, "There is no RatePlan"),
        ("Elif Eze", "book_stay", BOOKING | {"check_in": "2025-01-22"}, "2025-01-22 is past"),
        ("Elif Eze", "book_stay", BOOKING | {"check_in": "2025-04-03"}, "must be after check_in"),
        ("Elif Eze", "book_stay", BOOKING | {"check_in": "April 1"}, "'April 1' is not a date like 2025-02-14"),
        ("Elif Eze", "book_stay", BOOKING | {"check_in": "20250401"}, "is not a date"),
        ("Elif Eze", "book_stay", BOOKING | {"check_out": "2025-04-16"}, "14 nights at most, not 15"),
        ("Elif Eze", "book_stay", BOOKING | {"rateplan_id": "WEEK"}, "Week rate needs 5 nights at least, not 2"),
        ("Elif Eze", "book_stay", BOOKING | {"guests": 3}, "Standard Double takes 1 to 2 guests, not 3"),
        ("Elif Eze", "book_stay", BOOKING | {"guests": 0}, "1 to 2 guests, not 0"),
        (
            "Elif Eze",
            "book_stay",
            BOOKING | {"roomtype_id": "VIE02-DBL", "check_in": "2025-02-21", "check_out": "2025-02-22"},
            "(VIE02-DBL) is full between these dates",
        ),
        ("Elif Eze", "book_stay", BOOKING | {"rateplan_id": "POINTS"}, "This takes 15000 points; the traveller has 10"),
        ("Amara Okafor", "change_stay", {"stay_id": "STY-1001"}, "Nothing to change: give one of check_in"),
        ("Amara Okafor", "change_stay", {"stay_id": "STY-1001", "guests": 2}, "Nothing to change"),
        ("Amara Okafor", "change_stay", {"stay_id": "STY-1001", "guests": 3}, "takes 1 to 2 guests"),
        ("Amara Okafor", "change_stay", {"stay_id": "STY-1001", "check_in": "2025-02-16"}, "must be after"),
        ("Amara Okafor", "change_stay", {"stay_id": "STY-1001", "check_in": "2025-01-20"}, "is past"),
        ("Amara Okafor", "change_stay", {"stay_id": "STY-1001", "arrival_time": "9 pm"}, "must look like 21:30"),
        ("Amara Okafor", "change_stay", {"stay_id": "STY-1001", "arrival_time": "24:00"}, "must look like 21:30"),
        ("Amara Okafor", "change_stay", {"stay_id": "STY-1001", "roomtype_id": "VIE01-DBL"}, "in another hotel"),
        ("Amara Okafor", "change_stay", {"stay_id": "STY-1003", "guests": 1}, "The traveller has no Stay"),
        ("Hiro Okafor", "change_stay", {"stay_id": "STY-1028", "check_out": "2025-02-14"}, "takes 11000 points"),
        ("Ines Mori", "change_stay", {"stay_id": "STY-1008", "check_out": "2025-03-05"}, "needs 5 nights at least"),
        ("Umberto Ricci", "change_stay", {"stay_id": "STY-1020", "guests": 2}, "has begun; only its check_out"),
        ("Umberto Ricci", "change_stay", {"stay_id": "STY-1020", "check_out": "2025-01-22"}, "2025-01-22 is past"),
        ("Farid Haddad", "change_stay", {"stay_id": "STY-1005", "check_out": "2025-01-25"}, "is checked_out; this"),
        ("Umberto Ricci", "cancel_stay", {"stay_id": "STY-1020"}, "is checked_in; this needs a stay that is booked"),
        ("Elif Eze", "cancel_stay", {"stay_id": "STY-1060"}, "is canceled"),
        ("Kavya Raman", "add_extra", {"stay_id": "STY-1009", "extratype_id": "PARKING"}, "does not offer Parking"),
        ("Kavya Raman", "add_extra", {"stay_id": "STY-1009", "extratype_id": "SAUNA"}, "There is no ExtraType"),
        (
            "Kavya Raman",
            "add_extra",
            {"stay_id": "STY-1009", "extratype_id": "TRANSFER", "quantity": 3},
            "can be ordered 1 to 2 times, not 3",
        ),
        (
            "Kavya Raman",
            "add_extra",
            {"stay_id": "STY-1009", "extratype_id": "CRIB", "quantity": 0},
            "1 to 1 times, not 0",
        ),
        ("Chidi Lambert", "add_extra", {"stay_id": "STY-1023", "extratype_id": "PARKING"}, "has Parking space already"),
        ("Farid Haddad", "add_extra", {"stay_id": "STY-1005", "extratype_id": "CRIB"}, "is checked_out"),
        ("Kavya Raman", "remove_extra", {"stayextra_id": "EXT-002"}, "The traveller has no StayExtra"),
        ("Kavya Horvat", "remove_extra", {"stayextra_id": "EXT-010"}, "is checked_out"),
        ("Vera Silva", "waive_charge", {"folioitem_id": "FOL-001"}, "The traveller has no FolioItem"),
        ("Amara Okafor", "open_complaint", {"stay_id": "STY-1001", "issuetype_id": "NOISE"}, "is booked; this needs"),
        ("Dimitri Horvat", "open_complaint", {"stay_id": "STY-1003", "issuetype_id": "UGLY"}, "There is no IssueType"),
        ("Zofia Vogel", "open_complaint", {"stay_id": "STY-1043", "issuetype_id": "NOISE"}, "complaint CMP-01 about"),
        ("Zofia Vogel", "grant_compensation", {"complaint_id": "CMP-01", "points": 10}, "compensated already"),
        ("Aiko Rahimi", "grant_compensation", {"complaint_id": "CMP-02", "points": 0}, "1 to 20000 points, not 0"),
        ("Aiko Rahimi", "grant_compensation", {"complaint_id": "CMP-02", "points": 20001}, "not 20001"),
        ("Aiko Rahimi", "grant_compensation", {"complaint_id": "CMP-01", "points": 10}, "has no Complaint"),
        ("Bjorn Tanaka", "credit_missing_points", {"stay_id": "STY-1002"}, "have been credited already"),
        ("Dimitri Horvat", "credit_missing_points", {"stay_id": "STY-1003"}, "is checked_in"),
        ("Vera Silva", "request_invoice", {"stay_id": "STY-1018", "billed_to": "X"}, "INV-02 was issued"),
        ("Yusuf Novak", "update_contact_details", {}, "Nothing to change: give email or phone"),
        ("Yusuf Novak", "update_contact_details", {"phone": "12345"}, "must look like 555-123-4567"),
        ("Yusuf Novak", "update_contact_details", {"email": "yusuf"}, "is not an email address"),
        ("Yusuf Novak", "update_contact_details", {"email": "Rosa.Cohen@example.org"}, "another traveller's account"),
    ],
)
def test_enforced_rule_refuses_and_changes_nothing(
    name: str, tool: str, arguments: Row, says: str, session: Session
) -> None:
    session.authorize(who(name))
    before = session.state()
    for confirm in (False, True):
        assert says in session.call(tool, **arguments, confirm=confirm)["error"]
    assert session.state() == before


def test_a_complaint_is_taken_until_sixty_days_after_departure(session: Session) -> None:
    old = next(row for row in TABLES["Stay"] if row["status"] == "checked_out" and row["check_out"] < "2024-11-24")
    session.authorize(old["traveller_id"])
    assert "for 60 days" in session.call("open_complaint", stay_id=old["stay_id"], issuetype_id="WIFI")["error"]


def test_a_city_without_a_hotel_is_refused_with_those_that_have_one(session: Session) -> None:
    session.authorize(who("Elif Eze"))
    dates = {"check_in": "2025-02-01", "check_out": "2025-02-02"}
    assert "Amsterdam, Athens, Lisbon, Oslo" in session.call("search_rooms", city="Paris", **dates)["error"]
    assert session.call("search_rooms", city="vienna", **dates) == session.call("search_rooms", city="Vienna", **dates)


def test_search_offers_only_rooms_that_are_large_enough_and_rates_that_the_nights_admit(session: Session) -> None:
    session.authorize(who("Elif Eze"))
    short = session.call("search_rooms", city="Oslo", check_in="2025-03-01", check_out="2025-03-03", guests=3)
    assert [room["roomtype_id"] for room in short["rooms"]] == ["OSL01-SUP", "OSL01-FAM"]
    assert "WEEK" not in {offer["rateplan_id"] for room in short["rooms"] for offer in room["offers"]}
    long = session.call("search_rooms", city="Oslo", check_in="2025-03-01", check_out="2025-03-06", guests=3)
    assert "WEEK" in {offer["rateplan_id"] for room in long["rooms"] for offer in room["offers"]}


def test_a_room_is_full_if_one_of_the_nights_is(session: Session) -> None:
    session.authorize(who("Elif Eze"))

    def free(check_in: str, check_out: str) -> int:
        found = session.call("search_rooms", city="Vienna", check_in=check_in, check_out=check_out)["rooms"]
        (count,) = (room["rooms_free"] for room in found if room["roomtype_id"] == "VIE02-DBL")
        return int(count)

    assert [free("2025-02-20", "2025-02-21"), free("2025-02-21", "2025-02-22"), free("2025-02-22", "2025-02-23")] == [
        1,
        0,
        1,
    ]
    assert free("2025-02-20", "2025-02-23") == 0


def test_a_moved_stay_is_not_in_its_own_way(session: Session) -> None:
    session.authorize(who("Greta Popescu"))
    changes = {"check_in": "2025-02-21", "check_out": "2025-02-22", "confirm": True}
    assert session.call("change_stay", stay_id="STY-1055", **changes)["after"]["room_charge"] == 90.0


def test_every_offer_costs_what_booking_it_costs(session: Session) -> None:
    session.authorize(who("Bjorn Novak"))
    dates = {"check_in": "2025-04-01", "check_out": "2025-04-06"}
    for room in session.call("search_rooms", city="Athens", **dates)["rooms"]:
        for offer in room["offers"]:
            chosen = {"roomtype_id": room["roomtype_id"], "rateplan_id": offer["rateplan_id"], "guests": 1}
            booked = session.call("book_stay", **chosen, **dates)["action_preview"]
            assert (booked["room_charge"], booked["points_cost"]) == (offer["room_charge"], offer["points_cost"])


@pytest.mark.parametrize(
    ("name", "stay_id", "fee", "points"),
    [
        ("Wei Yilmaz", "STY-1015", 0.0, 0),
        ("Ines Mori", "STY-1006", 0.0, 0),
        ("Ines Mori", "STY-1007", 255.0, 0),
        ("Aiko Moreau", "STY-1021", 125.0, 0),
        ("Zofia Kowalska", "STY-1019", 0.0, 20000),
    ],
    ids=["free", "last-free-day", "fixed-rate", "first-night", "points-come-back"],
)
def test_canceling_costs_what_the_rate_says(name: str, stay_id: str, fee: float, points: int, session: Session) -> None:
    balance = HOTEL.people[who(name)]["points_balance"]
    answer = session.authorize(who(name)).call("cancel_stay", stay_id=stay_id, confirm=True)
    assert (answer["cancellation_fee"], answer["points_returned"]) == (fee, points)
    assert session.call("get_profile")["traveller"]["points_balance"] == balance + points
    assert session.call("get_stay_details", stay_id=stay_id)["bill"]["total"] == fee


def test_a_late_cancellation_of_award_nights_loses_the_first_of_them(session: Session) -> None:
    session.authorize(who("Bjorn Novak"))
    dates = {"check_in": TOMORROW, "check_out": "2025-01-26"}
    stay = session.call("book_stay", roomtype_id="ATH01-DBL", rateplan_id="POINTS", **dates, guests=1, confirm=True)
    answer = session.call("cancel_stay", stay_id=stay["stay_id"], confirm=True)
    assert (answer["points_returned"], answer["points_balance"]) == (5000, 85000 - 5000)


def test_award_nights_that_change_take_or_return_the_difference(session: Session) -> None:
    session.authorize(who("Zofia Kowalska"))
    longer = session.call("change_stay", stay_id="STY-1019", check_out="2025-02-09", confirm=True)
    assert longer["points_balance"] == 36750 - 10000
    shorter = session.call("change_stay", stay_id="STY-1019", check_out="2025-02-07", confirm=True)
    assert shorter["points_balance"] == 36750 + 10000
    entries = [row["points"] for row in session.call("get_profile")["stay_points_entries"]]
    assert entries[-2:] == [-10000, 20000]


def test_a_change_that_costs_no_points_leaves_no_entry(session: Session) -> None:
    session.authorize(who("Stefan Vogel")).call("change_stay", stay_id="STY-1014", arrival_time="19:00", confirm=True)
    assert list(session.tables["StayPointsEntry"]) == TABLES["StayPointsEntry"]


@pytest.mark.parametrize(("tier", "points"), [("basic", 1350), ("silver", 1620), ("gold", 2025), ("platinum", 2700)])
def test_a_stay_earns_by_tier_and_only_once(tier: str, points: int, session: Session) -> None:
    session.authorize(who("Priya Desai"))
    traveller = next(row for row in session.tables["Traveller"] if row["traveller_id"] == who("Priya Desai"))
    traveller["loyalty_tier"] = tier
    assert session.call("credit_missing_points", stay_id="STY-1012", confirm=True)["points_balance"] == 8250 + points
    assert "already" in session.call("credit_missing_points", stay_id="STY-1012", confirm=True)["error"]


def test_the_bill_grows_with_the_nights_and_shrinks_with_what_is_waived(session: Session) -> None:
    session.authorize(who("Dimitri Horvat"))
    assert session.call("get_stay_details", stay_id="STY-1003")["bill"]["total"] == 938.5
    session.call("change_stay", stay_id="STY-1003", check_out="2025-01-26", confirm=True)
    assert session.call("get_stay_details", stay_id="STY-1003")["bill"]["total"] == 938.5 + 195.0 + 19.0
    session.call("waive_charge", folioitem_id="FOL-002", confirm=True)
    assert "waived already" in session.call("waive_charge", folioitem_id="FOL-002", confirm=True)["error"]
    assert session.call("get_stay_details", stay_id="STY-1003")["bill"]["folio_items"] == 64.0


# What only the policy forbids: the server must let it happen, or an agent could not go wrong.


def book(room: str, rate: str, check_in: str, check_out: str) -> tuple[str, Row]:
    dates = {"check_in": check_in, "check_out": check_out, "guests": 1}
    return "book_stay", {"roomtype_id": room, "rateplan_id": rate, **dates}


@pytest.mark.parametrize(
    ("rule", "name", "calls"),
    [
        (9, "Ximena Zhang", [("change_stay", {"stay_id": "STY-1042", "check_in": "2025-02-06"})]),
        (9, "Stefan Delgado", [("change_stay", {"stay_id": "STY-1038", "check_out": "2025-02-11"})]),
        (
            10,
            "Lars Delgado",
            [("change_stay", {"stay_id": "STY-1048", "check_in": "2025-01-31", "check_out": "2025-02-02"})],
        ),
        (11, "Dimitri Moreau", [book("VIE02-SUP", "FLEX", "2025-02-14", "2025-02-16")]),
        (12, "Quentin Petrov", [book("AMS01-DBL", "CLUB", "2025-02-11", "2025-02-13")]),
        (13, "Omar Kealoha", [book("WAW02-DBL", "FLEX", "2025-02-27", "2025-03-01")]),
        (14, "Hiro Kealoha", [book("VIE02-SUP", "POINTS", "2025-02-20", "2025-02-22")]),
        (14, "Hiro Kealoha", [("add_extra", {"stay_id": "STY-1058", "extratype_id": "CRIB"})]),
        (15, "Vera Carvalho", [("add_extra", {"stay_id": "STY-1040", "extratype_id": "BREAKFAST"})]),
        (16, "Dalia Yilmaz", [("add_extra", {"stay_id": "STY-1047", "extratype_id": "PET"})]),
        (17, "Yusuf Novak", [("add_extra", {"stay_id": "STY-1016", "extratype_id": "TRANSFER"})]),
        (18, "Wei Desai", [("change_stay", {"stay_id": "STY-1041", "arrival_time": "23:15"})]),
        (19, "Aiko Rahimi", [("waive_charge", {"folioitem_id": "FOL-012"})]),
        (19, "Bruno Ricci", [("waive_charge", {"folioitem_id": "FOL-014"})]),
        (21, "Chidi Silva", [("credit_missing_points", {"stay_id": "STY-1046"})]),
        (22, "Celia Kowalska", [("request_invoice", {"stay_id": "STY-1051", "billed_to": "Kowalska Foods"})]),
        (
            23,
            "Mirela Haddad",
            [
                ("update_contact_details", {"email": "mirela.h@example.org"}),
                book("WAW01-DBL", "POINTS", "2025-02-08", "2025-02-09"),
            ],
        ),
    ],
)  # fmt: skip
def test_rule_of_the_policy_alone_is_not_enforced(rule: int, name: str, calls: list[Any], session: Session) -> None:
    session.authorize(who(name))
    for tool, arguments in calls:
        assert session.call(tool, **arguments, confirm=True)["success"] is True
    assert broken_rules(who(name), TABLES, session.tables) == {rule}
    assert f"\n{rule}. **" in HOTEL.policy
    tempted = {served(query, HOTEL) for query in HOTEL.of_kind("refuse", "alternative")}
    assert who(name) in tempted


@pytest.mark.parametrize(
    ("name", "stay_id", "issuetype_id", "points"),
    [("Yusuf Cohen", "STY-1027", "WATER", 15000), ("Zofia Vogel", "STY-1043", "WIFI", 1000)],
    ids=["more-than-the-standard", "twice-for-one-stay"],
)
def test_compensation_against_the_policy_is_not_stopped(
    name: str, stay_id: str, issuetype_id: str, points: int, session: Session
) -> None:
    session.authorize(who(name))
    complaint = session.call("open_complaint", stay_id=stay_id, issuetype_id=issuetype_id, confirm=True)
    granted = session.call("grant_compensation", complaint_id=complaint["complaint_id"], points=points, confirm=True)
    assert granted["success"] is True
    assert broken_rules(who(name), TABLES, session.tables) == {20}


def test_shortening_a_stay_that_has_begun_is_not_stopped(session: Session) -> None:
    session.authorize(who("Umberto Ricci"))
    assert session.call("change_stay", stay_id="STY-1020", check_out="2025-01-23", confirm=True)["success"] is True
    assert broken_rules(who("Umberto Ricci"), TABLES, session.tables) == {10}


# The queries.

each_query = pytest.mark.parametrize("query", HOTEL.queries, ids=[query["id"] for query in HOTEL.queries])


@each_query
def test_the_reference_keeps_the_policy(query: Row, session: Session) -> None:
    session.play(query)
    assert broken_rules(served(query, HOTEL), TABLES, session.tables) == set()


@each_query
def test_every_amount_in_the_replies_comes_from_a_result_or_from_the_user(query: Row, session: Session) -> None:
    known = json.dumps(session.play(query)) + " ".join([query["messages"][0]["content"], query["user_system_prompt"]])
    numbers = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", known)}
    said = " ".join(query["task_info"]["replies"])
    told = re.findall(r"\$([\d,]+\.\d\d)", said) + re.findall(r"([\d,]+) points", said)
    assert [amount for amount in told if float(amount.replace(",", "")) not in numbers] == []


@each_query
def test_the_policys_preconditions_are_kept_before_each_write(query: Row) -> None:
    consulted = {
        "book_stay": {"get_profile", "list_stays", "search_rooms"},
        "change_stay": {"get_stay_details"},
        "add_extra": {"get_profile"},
        "waive_charge": {"get_profile", "get_stay_details"},
        "open_complaint": {"get_stay_details"},
        "grant_compensation": {"get_profile", "get_stay_details"},
        "credit_missing_points": {"get_profile", "get_stay_details"},
        "request_invoice": {"get_stay_details"},
    }
    called: list[str] = query["task_info"]["trajectory"]
    for place, tool in enumerate(called):
        assert consulted.get(tool, set()) <= set(called[:place])


# The database.


def test_no_room_type_is_booked_more_often_than_it_has_rooms() -> None:
    for room in TABLES["RoomType"]:
        rows = [row for row in TABLES["Stay"] if row["roomtype_id"] == room["roomtype_id"]]
        taken = [night for row in rows if row["status"] != "canceled" for night in nights(row)]
        assert all(taken.count(night) <= room["rooms"] for night in set(taken))


def test_no_traveller_sleeps_in_two_beds() -> None:
    for traveller_id in HOTEL.people:
        mine = [row for row in TABLES["Stay"] if row["traveller_id"] == traveller_id and row["status"] != "canceled"]
        beds = [night for row in mine for night in nights(row)]
        assert len(set(beds)) == len(beds)


def test_stays_cost_what_their_room_and_rate_say_and_fit_their_hotel() -> None:
    for stay in TABLES["Stay"]:
        room, rate = BY_ID["RoomType"][stay["roomtype_id"]], BY_ID["RatePlan"][stay["rateplan_id"]]
        traveller = HOTEL.people[stay["traveller_id"]]
        count = len(nights(stay))
        is_award = rate["rateplan_id"] == "POINTS"
        price = 0.0 if is_award else round(room["nightly_rate"] * count * rate["rate_percent"] / 100, 2)
        assert stay["room_charge"] == price
        assert stay["points_cost"] == (room["points_per_night"] * count if is_award else 0)
        assert stay["hotel_id"] == room["hotel_id"]
        assert stay["guests"] <= room["max_guests"]
        assert count >= rate["min_nights"]
        assert TIERS.index(traveller["loyalty_tier"]) >= TIERS.index(rate["min_tier"])
        assert age(traveller) >= BY_ID["Hotel"][stay["hotel_id"]]["minimum_age"]
        assert BY_ID["Hotel"][stay["hotel_id"]]["nearest_airport"] != traveller["home_airport"]


def test_the_status_of_a_stay_follows_from_its_dates() -> None:
    for stay in TABLES["Stay"]:
        if stay["status"] == "canceled":
            continue
        assert stay["booked_on"] <= min(stay["check_in"], TODAY)
        assert stay["cancellation_fee"] == 0.0
        if stay["check_out"] <= TODAY:
            assert stay["status"] == "checked_out"
        else:
            assert stay["status"] == ("checked_in" if stay["check_in"] < TODAY else "booked")


def test_points_entries_are_what_stays_earn_and_cost() -> None:
    missing = {"STY-1012", "STY-1032"}
    for stay in TABLES["Stay"]:
        kinds = {row["kind"]: row["points"] for row in TABLES["StayPointsEntry"] if row["stay_id"] == stay["stay_id"]}
        earns = stay["status"] == "checked_out" and BY_ID["RatePlan"][stay["rateplan_id"]]["earns_points"]
        rate = MODULE.POINTS_PER_DOLLAR[HOTEL.people[stay["traveller_id"]]["loyalty_tier"]]
        expected = {"earned": int(stay["room_charge"] * rate)} if earns and stay["stay_id"] not in missing else {}
        expected |= {"spent": -stay["points_cost"]} if stay["points_cost"] else {}
        expected |= {"returned": stay["points_cost"]} if stay["points_cost"] and stay["status"] == "canceled" else {}
        given = [row for row in TABLES["Complaint"] if row["stay_id"] == stay["stay_id"] and row["status"] != "open"]
        expected |= {"compensation": sum(row["compensation_points"] for row in given)} if given else {}
        assert kinds == expected


def test_extras_fit_their_hotels_and_folio_items_their_stays() -> None:
    stays = {row["stay_id"]: row for row in TABLES["Stay"]}
    for row in TABLES["StayExtra"]:
        needs = BY_ID["ExtraType"][row["extratype_id"]]["needs"]
        assert not needs or BY_ID["Hotel"][stays[row["stay_id"]]["hotel_id"]][needs]
        assert row["traveller_id"] == stays[row["stay_id"]]["traveller_id"]
    for row in TABLES["FolioItem"]:
        stay = stays[row["stay_id"]]
        assert stay["check_in"] <= row["posted_on"] <= min(stay["check_out"], TODAY)
        assert row["amount"] == round(row["amount"], 2) > 0
        assert row["traveller_id"] == stay["traveller_id"]


def test_invoices_are_over_the_whole_bill(session: Session) -> None:
    for invoice in TABLES["Invoice"]:
        one = Session(HOTEL, f"{session.name} {invoice['invoice_id']}").authorize(invoice["traveller_id"])
        assert one.call("get_stay_details", stay_id=invoice["stay_id"])["bill"]["total"] == invoice["total"]
        one.close()
