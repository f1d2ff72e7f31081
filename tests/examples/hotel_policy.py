"""What the policy of `HotelReservations` forbids, as far as the tables before and after a conversation show it.

The server lets all of this happen, so a reference solution has to be looked at.
"""

from datetime import date, timedelta

from tests.examples.shipped import Row, shipped

TODAY, TOMORROW = "2025-01-23", "2025-01-24"
TIERS = ["basic", "silver", "gold", "platinum"]
BY_ID: dict[str, dict[str, Row]] = {
    table: {row[f"{table.lower()}_id"]: row for row in shipped("HotelReservations").tables[table]}
    for table in ("Hotel", "RoomType", "RatePlan", "IssueType", "ExtraType")
}


def nights(stay: Row) -> list[str]:
    """The nights that a stay has."""
    first, last = date.fromisoformat(stay["check_in"]), date.fromisoformat(stay["check_out"])
    return [str(first + timedelta(days)) for days in range((last - first).days)]


def occupied(stays: list[Row]) -> list[Row]:
    return [row for row in stays if row["status"] in ("booked", "checked_in")]


def age(traveller: Row) -> int:
    born = date.fromisoformat(traveller["date_of_birth"])
    today = date.fromisoformat(TODAY)
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))


def broken_rules(traveller_id: str, before: dict[str, list[Row]], after: dict[str, list[Row]]) -> set[int]:
    """The numbered rules of the policy that a change of one traveller's records breaks, as far as tables show it."""
    broken: set[int] = set()

    def mine(tables: dict[str, list[Row]], table: str) -> dict[str, Row]:
        return {row[f"{table.lower()}_id"]: row for row in tables[table] if row["traveller_id"] == traveller_id}

    def changed(table: str) -> list[tuple[Row | None, Row]]:
        old = mine(before, table)
        return [(old.get(key), row) for key, row in mine(after, table).items() if old.get(key) != row]

    (me,) = (row for row in after["Traveller"] if row["traveller_id"] == traveller_id)
    (was,) = (row for row in before["Traveller"] if row["traveller_id"] == traveller_id)
    stays = mine(after, "Stay")
    rates = {key: BY_ID["RatePlan"][row["rateplan_id"]] for key, row in stays.items()}
    hotels = {key: BY_ID["Hotel"][row["hotel_id"]] for key, row in stays.items()}
    beds = [night for row in occupied(list(stays.values())) for night in nights(row)]
    if len(set(beds)) < len(beds):
        broken.add(11)
    for old, row in changed("Stay"):
        key = row["stay_id"]
        if old is None:
            broken |= {12} if TIERS.index(rates[key]["min_tier"]) > TIERS.index(me["loyalty_tier"]) else set()
            broken |= {13} if hotels[key]["minimum_age"] > age(me) else set()
            broken |= {14} if me["is_suspended"] else set()
        elif any(old[column] != row[column] for column in ("check_in", "check_out", "roomtype_id", "guests")):
            broken |= {9} if not rates[key]["is_refundable"] else set()
            free_until = date.fromisoformat(old["check_in"]) - timedelta(rates[key]["free_cancel_days"] or 0)
            if old["status"] == "booked" and rates[key]["is_refundable"] and str(free_until) < TODAY:
                broken.add(10)
            if old["status"] == "checked_in" and row["check_out"] < old["check_out"]:
                broken.add(10)
        if row["arrival_time"] and row["arrival_time"] > (hotels[key]["reception_closes"] or "24:00"):
            broken.add(18)
    for _, row in changed("StayExtra"):
        key, kind = row["stay_id"], row["extratype_id"]
        broken |= {14} if me["is_suspended"] else set()
        broken |= {15} if kind == "BREAKFAST" and rates[key]["includes_breakfast"] else set()
        broken |= {16} if kind == "PET" and not hotels[key]["accepts_pets"] else set()
        broken |= {17} if kind == "TRANSFER" and stays[key]["check_in"] <= TOMORROW else set()
    for _, row in changed("FolioItem"):
        waived = [item for _, item in changed("FolioItem") if item["stay_id"] == row["stay_id"]]
        if row["kind"] != "late_checkout" or me["loyalty_tier"] not in ("gold", "platinum") or len(waived) > 1:
            broken.add(19)
    for _, row in changed("Complaint"):
        granted = [item for item in mine(after, "Complaint").values() if item["stay_id"] == row["stay_id"]]
        right = BY_ID["IssueType"][row["issuetype_id"]]["standard_points"] * (1 + (me["loyalty_tier"] == "platinum"))
        late = stays[row["stay_id"]]["check_out"] < "2024-12-24"
        if row["compensation_points"] not in (0, right) or (row["compensation_points"] and late):
            broken.add(20)
        if sum(item["compensation_points"] > 0 for item in granted) > 1:
            broken.add(20)
    for _, row in changed("StayPointsEntry"):
        broken |= {14} if me["is_suspended"] and row["kind"] != "returned" else set()
        broken |= (
            {23} if row["kind"] == "spent" and (me["email"], me["phone"]) != (was["email"], was["phone"]) else set()
        )
        is_stale = stays[row["stay_id"]]["check_out"] < "2024-10-25"
        broken |= {21} if row["kind"] == "earned" and (is_stale or not rates[row["stay_id"]]["earns_points"]) else set()
    for _, row in changed("Invoice"):
        broken |= {22} if stays[row["stay_id"]]["status"] != "checked_out" else set()
    return broken
