"""The reservations desk of Sandpiper Hotels, as a mock tool server: who sleeps where, and what it costs.

Sessions, tables, argument checks and authorization come from `rollout.examples.kit`. Nothing here stores a bill: it is
the room charge, the extras and the posted folio items of a stay, summed anew at every question. The points balance
stands in the traveller's row, which servers of other trades may change as well; each of our own changes leaves a
`StayPointsEntry`. The clock stands still at `NOW`. The policy beside this file forbids more than this server refuses.
"""

import re
import uuid
from datetime import date, timedelta
from typing import Literal

from rollout.examples.kit import Refusal, Row, Server, TableNames, Tools, cents, preview, tool_table

NOW = "2025-01-23T15:00:00-05:00"
TODAY = NOW[:10]
AWARD_RATE = "POINTS"
MAX_NIGHTS = 14
COMPLAINT_DAYS = 60
MAX_COMPENSATION = 20000
POINTS_PER_DOLLAR = {"basic": 5.0, "silver": 6.0, "gold": 7.5, "platinum": 10.0}
CLOCK_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")

TABLES = TableNames(
    entities=("Traveller", "Hotel", "RoomType", "RatePlan", "ExtraType", "IssueType"),
    relationships=("Stay", "StayExtra", "FolioItem", "Complaint", "Invoice", "StayPointsEntry"),
)
Status = Literal["booked", "checked_in", "checked_out", "canceled"]
PointsKind = Literal["earned", "spent", "returned", "compensation"]


class HotelTools(Tools):
    """The tools as one session may use them, on the stays of the traveller who is authorized in it."""

    person = "Traveller"
    secret = "booking_pin"

    def _new_id(self) -> str:
        return str(uuid.uuid4())

    # Reading the records.

    def _price(self, room: Row, rate: Row, nights: int) -> Row:
        """What some nights cost: dollars, or points on the award rate."""
        if rate["rateplan_id"] == AWARD_RATE:
            return {"room_charge": 0.0, "points_cost": room["points_per_night"] * nights}
        return {"room_charge": cents(room["nightly_rate"] * nights * rate["rate_percent"] / 100), "points_cost": 0}

    def _rooms_free(self, roomtype_id: str, check_in: str, check_out: str, besides: str | None = None) -> int:
        """How many rooms of a type are free in every one of these nights, a stay that is to be moved left aside."""
        taken = [
            row
            for row in self._rows("Stay")
            if row["roomtype_id"] == roomtype_id
            and row["status"] in ("booked", "checked_in")
            and row["stay_id"] != besides
        ]
        nights = [str(_date(check_in) + timedelta(days)) for days in range(_nights(check_in, check_out))]
        most = max(sum(row["check_in"] <= night < row["check_out"] for row in taken) for night in nights)
        rooms: int = self._find("RoomType", roomtype_id)["rooms"]
        return max(rooms - most, 0)

    def _extra(self, row: Row, nights: int) -> Row:
        """A stay's extra with its name and what it costs over the whole stay."""
        kind = self._find("ExtraType", row["extratype_id"])
        times = nights if kind["is_per_night"] else 1
        return row | {"name": kind["name"], "total": cents(kind["price"] * row["quantity"] * times)}

    def _cancellation(self, stay: Row) -> Row:
        """What canceling costs today: nothing in the free days, then the first night; everything on a fixed rate."""
        rate = self._find("RatePlan", stay["rateplan_id"])
        free_until = str(_date(stay["check_in"]) - timedelta(rate["free_cancel_days"] or 0))
        share = 1.0
        if rate["is_refundable"]:
            share = 0.0 if free_until >= TODAY else 1 / _nights(stay["check_in"], stay["check_out"])
        return {
            "free_cancellation_until": free_until if rate["is_refundable"] else None,
            "fee_if_canceled_now": cents(stay["room_charge"] * share),
            "points_lost_if_canceled_now": round(stay["points_cost"] * share),
        }

    def _shown(self, stay: Row) -> Row:
        """A stay with the names of what it is made of; one to come also says what canceling it costs."""
        hotel, room = self._find("Hotel", stay["hotel_id"]), self._find("RoomType", stay["roomtype_id"])
        names = {"hotel": hotel["name"], "city": hotel["city"], "room": room["name"]}
        shown = stay | names | {"nights": _nights(stay["check_in"], stay["check_out"])}
        return shown | self._cancellation(stay) if stay["status"] == "booked" else shown

    # The rules, each a sentence that the caller can act on.

    def _require_room(self, stay: Row, besides: str | None = None) -> None:
        """May these nights, guests and this rate go together, and is there a room?"""
        room, rate = self._find("RoomType", stay["roomtype_id"]), self._find("RatePlan", stay["rateplan_id"])
        nights = _nights(stay["check_in"], stay["check_out"])
        if nights > MAX_NIGHTS:
            raise Refusal(f"A stay can have {MAX_NIGHTS} nights at most, not {nights}.")
        if nights < rate["min_nights"]:
            raise Refusal(f"{rate['name']} needs {rate['min_nights']} nights at least, not {nights}.")
        if not 1 <= stay["guests"] <= room["max_guests"]:
            raise Refusal(f"{room['name']} takes 1 to {room['max_guests']} guests, not {stay['guests']}.")
        if self._rooms_free(stay["roomtype_id"], stay["check_in"], stay["check_out"], besides) == 0:
            raise Refusal(f"{room['name']} ({stay['roomtype_id']}) is full between these dates.")

    def _require_points(self, needed: int) -> None:
        balance = self._mine("Traveller")[0]["points_balance"]
        if needed > balance:
            raise Refusal(f"This takes {needed} points; the traveller has {balance}.")

    def _require_status(self, stay_id: str, *wanted: Status) -> Row:
        stay = self._own("Stay", stay_id)
        if stay["status"] not in wanted:
            raise Refusal(f"{stay_id} is {stay['status']}; this needs a stay that is {' or '.join(wanted)}.")
        return stay

    def _post_points(self, stay_id: str, kind: PointsKind, points: int) -> int:
        """Change the balance and keep why; nothing is kept of no points. The balance after it."""
        traveller = self._mine("Traveller")[0]
        balance: int = traveller["points_balance"] + points
        if points:
            self._update("Traveller", traveller["traveller_id"], points_balance=balance)
            self._insert("StayPointsEntry", stay_id=stay_id, kind=kind, points=points, posted_at=NOW)
        return balance

    # The tools.

    def authorize_traveller(self, booking_pin: str, traveller_id: str | None = None, email: str | None = None) -> Row:
        return self._authorize(booking_pin, traveller_id=traveller_id, email=email and email.lower())

    def get_profile(self) -> Row:
        traveller = self._mine("Traveller")[0]
        return {
            "traveller": {key: value for key, value in traveller.items() if key != self.secret},
            "points_per_dollar": POINTS_PER_DOLLAR[traveller["loyalty_tier"]],
            "stay_points_entries": [dict(row) for row in self._mine("StayPointsEntry")],
        }

    def update_contact_details(self, email: str | None = None, phone: str | None = None, confirm: bool = False) -> Row:
        return self._change_contact(confirm, email=email, phone=phone)

    def search_rooms(self, city: str, check_in: str, check_out: str, guests: int = 1) -> Row:
        hotels = [row for row in self._rows("Hotel") if row["city"].lower() == city.lower()]
        if not hotels:
            cities = ", ".join(sorted({row["city"] for row in self._rows("Hotel")}))
            raise Refusal(f"There is no hotel in '{city}'. There are hotels in: {cities}.")
        _require_future(check_in)
        nights = _nights(check_in, check_out)
        rates = [rate for rate in self._rows("RatePlan") if rate["min_nights"] <= nights]
        here = {hotel["hotel_id"] for hotel in hotels}
        rooms = [
            room
            | {"rooms_free": self._rooms_free(room["roomtype_id"], check_in, check_out)}
            | {"offers": [{"rateplan_id": each["rateplan_id"], **self._price(room, each, nights)} for each in rates]}
            for room in self._rows("RoomType")
            if room["hotel_id"] in here and guests <= room["max_guests"]
        ]
        return {
            "nights": nights,
            "hotels": [dict(hotel) for hotel in hotels],
            "rooms": rooms,
            "rate_plans": [dict(rate) for rate in rates],
        }

    def list_stays(self, status: Status | None = None) -> Row:
        stays = [self._shown(row) for row in self._mine("Stay") if status in (None, row["status"])]
        return {"stays": stays, "count": len(stays)}

    def get_stay_details(self, stay_id: str) -> Row:
        stay = self._own("Stay", stay_id)
        nights = _nights(stay["check_in"], stay["check_out"])
        extras = [self._extra(row, nights) for row in self._mine("StayExtra", stay_id=stay_id)]
        items = [dict(row) for row in self._mine("FolioItem", stay_id=stay_id)]
        issues = {row["issuetype_id"]: row for row in self._rows("IssueType")}
        is_canceled = stay["status"] == "canceled"
        bill = {
            "room_charge": stay["cancellation_fee"] if is_canceled else stay["room_charge"],
            "extras": 0.0 if is_canceled else cents(sum(row["total"] for row in extras)),
            "folio_items": cents(sum(row["amount"] for row in items if row["status"] == "posted")),
        }
        return {
            "stay": self._shown(stay),
            "hotel": dict(self._find("Hotel", stay["hotel_id"])),
            "room_types": [dict(row) for row in self._rows("RoomType") if row["hotel_id"] == stay["hotel_id"]],
            "rate_plan": dict(self._find("RatePlan", stay["rateplan_id"])),
            "extras": extras,
            "extras_on_offer": [dict(row) for row in self._rows("ExtraType")],
            "folio_items": items,
            "bill": bill | {"total": cents(sum(bill.values()))},
            "complaints": [issues[row["issuetype_id"]] | row for row in self._mine("Complaint", stay_id=stay_id)],
            "issue_types": [dict(row) for row in issues.values()],
            "invoices": [dict(row) for row in self._mine("Invoice", stay_id=stay_id)],
            "points_entries": [dict(row) for row in self._mine("StayPointsEntry", stay_id=stay_id)],
        }

    def book_stay(
        self, roomtype_id: str, rateplan_id: str, check_in: str, check_out: str, guests: int, confirm: bool = False
    ) -> Row:
        room, rate = self._find("RoomType", roomtype_id), self._find("RatePlan", rateplan_id)
        _require_future(check_in)
        price = self._price(room, rate, _nights(check_in, check_out))
        stay = {"hotel_id": room["hotel_id"], "roomtype_id": roomtype_id, "rateplan_id": rateplan_id}
        stay |= {"check_in": check_in, "check_out": check_out, "guests": guests, "arrival_time": None, **price}
        stay |= {"cancellation_fee": 0.0, "status": "booked", "booked_on": TODAY}
        self._require_room(stay)
        self._require_points(stay["points_cost"])
        if not confirm:
            return preview("book_stay", **stay, cancellation=self._cancellation(stay))
        row = self._insert("Stay", **stay)
        balance = self._post_points(row["stay_id"], "spent", -stay["points_cost"])
        return {"success": True, **self._shown(row), "points_balance": balance}

    def change_stay(
        self,
        stay_id: str,
        check_in: str | None = None,
        check_out: str | None = None,
        roomtype_id: str | None = None,
        guests: int | None = None,
        arrival_time: str | None = None,
        confirm: bool = False,
    ) -> Row:
        stay = self._require_status(stay_id, "booked", "checked_in")
        wanted = {"check_in": check_in, "check_out": check_out, "roomtype_id": roomtype_id, "guests": guests}
        wanted |= {"arrival_time": arrival_time}
        changes = {key: value for key, value in wanted.items() if value is not None and value != stay[key]}
        if not changes:
            raise Refusal(f"Nothing to change: give one of {', '.join(wanted)} with a new value.")
        if stay["status"] == "checked_in" and set(changes) != {"check_out"}:
            raise Refusal(f"{stay_id} has begun; only its check_out can be changed.")
        if arrival_time is not None and not CLOCK_TIME.fullmatch(arrival_time):
            raise Refusal("An arrival time must look like 21:30.")
        after = stay | changes
        room, rate = self._find("RoomType", after["roomtype_id"]), self._find("RatePlan", after["rateplan_id"])
        if room["hotel_id"] != stay["hotel_id"]:
            raise Refusal(f"{after['roomtype_id']} is in another hotel; a stay cannot move there.")
        _require_future(after["check_out"] if stay["status"] == "checked_in" else after["check_in"])
        self._require_room(after, besides=stay_id)
        changes |= self._price(room, rate, _nights(after["check_in"], after["check_out"]))
        points = stay["points_cost"] - changes["points_cost"]
        self._require_points(-points)
        before = {key: stay[key] for key in changes}
        if not confirm:
            return preview("change_stay", stay_id=stay_id, before=before, after=changes)
        self._update("Stay", stay_id, **changes)
        balance = self._post_points(stay_id, "returned" if points > 0 else "spent", points)
        return {"success": True, "stay_id": stay_id, "before": before, "after": changes, "points_balance": balance}

    def cancel_stay(self, stay_id: str, confirm: bool = False) -> Row:
        stay = self._require_status(stay_id, "booked")
        costs = self._cancellation(stay)
        returned = stay["points_cost"] - costs["points_lost_if_canceled_now"]
        if not confirm:
            return preview("cancel_stay", stay=self._shown(stay), points_returned=returned)
        after = {"status": "canceled", "cancellation_fee": costs["fee_if_canceled_now"]}
        self._update("Stay", stay_id, **after)
        balance = self._post_points(stay_id, "returned", returned)
        return {"success": True, "stay_id": stay_id, **after, "points_returned": returned, "points_balance": balance}

    def add_extra(self, stay_id: str, extratype_id: str, quantity: int = 1, confirm: bool = False) -> Row:
        stay = self._require_status(stay_id, "booked", "checked_in")
        kind, hotel = self._find("ExtraType", extratype_id), self._find("Hotel", stay["hotel_id"])
        if kind["needs"] and not hotel[kind["needs"]]:
            raise Refusal(f"{hotel['name']} does not offer {kind['name']}.")
        if not 1 <= quantity <= kind["max_quantity"]:
            raise Refusal(f"{kind['name']} can be ordered 1 to {kind['max_quantity']} times, not {quantity}.")
        if self._mine("StayExtra", stay_id=stay_id, extratype_id=extratype_id):
            raise Refusal(f"{stay_id} has {kind['name']} already; remove it first to order another quantity.")
        nights = _nights(stay["check_in"], stay["check_out"])
        extra = {"stay_id": stay_id, "extratype_id": extratype_id, "quantity": quantity}
        if not confirm:
            return preview("add_extra", **self._extra(extra, nights))
        return {"success": True, **self._extra(self._insert("StayExtra", **extra, added_on=TODAY), nights)}

    def remove_extra(self, stayextra_id: str, confirm: bool = False) -> Row:
        extra = self._own("StayExtra", stayextra_id)
        stay = self._require_status(extra["stay_id"], "booked", "checked_in")
        if not confirm:
            return preview("remove_extra", **self._extra(extra, _nights(stay["check_in"], stay["check_out"])))
        self._delete("StayExtra", stayextra_id)
        return {"success": True, "removed": stayextra_id}

    def waive_charge(self, folioitem_id: str, confirm: bool = False) -> Row:
        item = self._own("FolioItem", folioitem_id)
        if item["status"] != "posted":
            raise Refusal(f"{folioitem_id} is {item['status']} already.")
        if not confirm:
            return preview("waive_charge", item=dict(item))
        self._update("FolioItem", folioitem_id, status="waived")
        return {"success": True, "folioitem_id": folioitem_id, "status": "waived", "amount": item["amount"]}

    def open_complaint(self, stay_id: str, issuetype_id: str, confirm: bool = False) -> Row:
        stay, issue = self._require_status(stay_id, "checked_in", "checked_out"), self._find("IssueType", issuetype_id)
        if _days_since(stay["check_out"]) > COMPLAINT_DAYS:
            raise Refusal(f"{stay_id} ended on {stay['check_out']}; complaints are taken for {COMPLAINT_DAYS} days.")
        for known in self._mine("Complaint", stay_id=stay_id, issuetype_id=issuetype_id):
            raise Refusal(f"{stay_id} has complaint {known['complaint_id']} about this already.")
        values = {"stay_id": stay_id, "issuetype_id": issuetype_id, "status": "open", "opened_at": NOW}
        values |= {"compensation_points": 0}
        if not confirm:
            return preview("open_complaint", **values)
        return {"success": True, **issue, **self._insert("Complaint", **values)}

    def grant_compensation(self, complaint_id: str, points: int, confirm: bool = False) -> Row:
        complaint = self._own("Complaint", complaint_id)
        if complaint["status"] != "open":
            raise Refusal(f"{complaint_id} is {complaint['status']} already.")
        if not 1 <= points <= MAX_COMPENSATION:
            raise Refusal(f"A compensation has 1 to {MAX_COMPENSATION} points, not {points}.")
        if not confirm:
            return preview("grant_compensation", complaint=dict(complaint), points=points)
        self._update("Complaint", complaint_id, status="compensated", compensation_points=points)
        balance = self._post_points(complaint["stay_id"], "compensation", points)
        return {"success": True, "complaint_id": complaint_id, "points": points, "points_balance": balance}

    def credit_missing_points(self, stay_id: str, confirm: bool = False) -> Row:
        stay = self._require_status(stay_id, "checked_out")
        if self._mine("StayPointsEntry", stay_id=stay_id, kind="earned"):
            raise Refusal(f"The points for {stay_id} have been credited already.")
        tier = self._mine("Traveller")[0]["loyalty_tier"]
        points = int(stay["room_charge"] * POINTS_PER_DOLLAR[tier])
        if not points:
            raise Refusal(f"{stay_id} was not paid in dollars, so it earns no points.")
        if not confirm:
            return preview("credit_missing_points", stay_id=stay_id, points=points)
        balance = self._post_points(stay_id, "earned", points)
        return {"success": True, "stay_id": stay_id, "points": points, "points_balance": balance}

    def request_invoice(self, stay_id: str, billed_to: str, confirm: bool = False) -> Row:
        total = self.get_stay_details(stay_id)["bill"]["total"]
        for issued in self._mine("Invoice", stay_id=stay_id):
            raise Refusal(f"Invoice {issued['invoice_id']} was issued for {stay_id} already; a stay has one invoice.")
        values = {"stay_id": stay_id, "billed_to": billed_to, "total": total, "issued_at": NOW}
        if not confirm:
            return preview("request_invoice", **values)
        return {"success": True, **self._insert("Invoice", **values)}


def _date(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or str(day) != text:  # 20250214 is a date as well, but would not compare with the others
        raise Refusal(f"'{text}' is not a date like 2025-02-14.")
    return day


def _nights(check_in: str, check_out: str) -> int:
    nights = (_date(check_out) - _date(check_in)).days
    if nights < 1:
        raise Refusal(f"check_out ({check_out}) must be after check_in ({check_in}).")
    return nights


def _days_since(day: str) -> int:
    return (_date(TODAY) - _date(day)).days


def _require_future(day: str) -> None:
    if _days_since(day) > 0:
        raise Refusal(f"{day} is past; today is {TODAY}.")


TOOLS = tool_table(
    HotelTools.authorize_traveller,
    HotelTools.get_profile,
    HotelTools.update_contact_details,
    HotelTools.search_rooms,
    HotelTools.list_stays,
    HotelTools.get_stay_details,
    HotelTools.book_stay,
    HotelTools.change_stay,
    HotelTools.cancel_stay,
    HotelTools.add_extra,
    HotelTools.remove_extra,
    HotelTools.waive_charge,
    HotelTools.open_complaint,
    HotelTools.grant_compensation,
    HotelTools.credit_missing_points,
    HotelTools.request_invoice,
)


class HotelReservationsServer(Server):
    """The desk for any number of sessions."""

    def __init__(self, domain_name: str) -> None:
        super().__init__(domain_name, __file__, HotelTools, TOOLS, TABLES)
