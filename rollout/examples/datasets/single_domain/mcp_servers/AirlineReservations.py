"""The reservations desk of Kestrel Air, as a mock tool server: who flies when, for what fare, with which extras.

Sessions, tables, argument checks and authorization come from `rollout.examples.kit`. What happens to a segment happens
to all passengers of its reservation; seats and bags belong to one passenger on one segment. The balance of points is a
column of the traveller, because other companies of the program earn and spend the same points. The clock stands still
at `NOW`. The policy beside this file forbids more than this server refuses.
"""

import uuid
from datetime import datetime
from typing import Literal

from rollout.examples.kit import Refusal, Row, Server, TableNames, Tools, cents, preview, tool_table

NOW = "2025-01-23T15:00:00-05:00"
TODAY = NOW[:10]
POINTS_FOR_A_DOLLAR = 100
CLOSING_HOURS = 2.0
FREE_CANCELLATION_HOURS = 24.0
LONG_DELAY = 180
MAX_EXTRA_BAGS = 3
BAG_FEES = {"checked_23kg": 35.00, "checked_32kg": 60.00, "sports_equipment": 50.00}
MAX_CREDIT = 300.00
CREDIT_EXPIRES_ON = "2026-01-23"
TIER_BONUS = {"basic": 1.0, "silver": 1.25, "gold": 1.5, "platinum": 2.0}
FREE_SEAT_TIERS = ("gold", "platinum")
BUSINESS_ROWS = range(1, 5)

TABLES = TableNames(
    entities=("Traveller", "Airport", "Flight", "FareClass"),
    relationships=(
        "Fare", "Reservation", "Passenger", "Segment", "SeatAssignment", "Bag", "StandbyEntry", "Payment", "Refund",
        "TravelCredit", "PointsEntry",
    ),
)  # fmt: skip
FareName = Literal["LIGHT", "STANDARD", "FLEX", "BUSINESS"]
PaymentMethod = Literal["card", "points", "travel_credit"]
RefundTo = Literal["original_payment", "travel_credit", "none"]
BagKind = Literal["checked_23kg", "checked_32kg", "sports_equipment"]
Occasion = Literal["delay", "cancellation", "baggage", "goodwill"]


class AirlineTools(Tools):
    """The tools as one session may use them, on the reservations of the traveller who is authorized in it."""

    person = "Traveller"
    secret = "booking_pin"

    def _new_id(self) -> str:
        return str(uuid.uuid4())

    # Reading the records.

    def _fares(self, flight_id: str) -> list[Row]:
        """What a flight costs, with the rules of each fare."""
        rules = {row["fareclass_id"]: row for row in self._rows("FareClass")}
        return [
            rules[row["fareclass_id"]] | row | {"price_in_points": _points(row["price"])}
            for row in self._rows("Fare")
            if row["flight_id"] == flight_id
        ]

    def _free_seats(self, flight: Row) -> list[str]:
        """The seats that can still be chosen. Those that are taken are known by their segments."""
        aboard = {row["segment_id"] for row in self._rows("Segment") if row["flight_id"] == flight["flight_id"]}
        taken = {row["seat"] for row in self._rows("SeatAssignment") if row["segment_id"] in aboard}
        return [seat for seat in flight["seats_to_choose"].split(", ") if seat not in taken]

    def _segments(self, reservation_id: str) -> list[Row]:
        """The segments of a reservation with their flights, in the order in which they are flown."""
        found = []
        for row in self._mine("Segment", reservation_id=reservation_id):
            flight = _shown(self._find("Flight", row["flight_id"]))
            found.append(flight | row | {"flight_status": flight["status"]})
        return sorted(found, key=lambda row: float(row["hours_to_departure"]))

    def _fare_paid(self, reservation_id: str) -> float:
        payments = self._mine("Payment", reservation_id=reservation_id)
        return cents(sum(row["amount"] for row in payments if row["item"].startswith("fare")))

    def _credits(self) -> list[Row]:
        return [row | {"is_expired": row["expires_on"] < TODAY} for row in self._mine("TravelCredit")]

    # The rules, each a sentence that the caller can act on.

    def _require_bookable(self, flight_id: str, instead_of: Row | None = None) -> Row:
        flight = self._find("Flight", flight_id)
        if flight["status"] not in ("scheduled", "delayed"):
            raise Refusal(f"{flight_id} is {flight['status']}.")
        if _hours_to(flight["departs_at"]) < CLOSING_HOURS:
            raise Refusal(f"{flight_id} is closed: it departs at {flight['departs_at']}.")
        if instead_of and any(flight[end] != instead_of[end] for end in ("origin", "destination")):
            raise Refusal(f"{flight_id} does not fly from {instead_of['origin']} to {instead_of['destination']}.")
        return flight

    def _require_fare(self, flight_id: str, fareclass_id: str, seats: int) -> Row:
        for fare in self._fares(flight_id):
            if fare["fareclass_id"] == fareclass_id and fare["seats_left"] >= seats:
                return fare
        raise Refusal(f"{flight_id} does not have {seats} seat(s) left in {fareclass_id}.")

    def _require_open(self, segment_id: str) -> tuple[Row, Row]:
        """A segment that is still to be flown, and its flight."""
        segment = self._own("Segment", segment_id)
        if segment["status"] != "confirmed":
            raise Refusal(f"{segment_id} is {segment['status']} already.")
        flight = self._find("Flight", segment["flight_id"])
        if flight["status"] != "canceled" and _hours_to(flight["departs_at"]) < CLOSING_HOURS:
            raise Refusal(f"{flight['flight_id']} is closed: it departs at {flight['departs_at']}.")
        return segment, flight

    def _require_aboard(self, segment_id: str, passenger_id: str) -> tuple[Row, Row]:
        """An open segment of this passenger, and its flight."""
        segment, flight = self._require_open(segment_id)
        if self._own("Passenger", passenger_id)["reservation_id"] != segment["reservation_id"]:
            raise Refusal(f"{passenger_id} is no passenger of {segment['reservation_id']}.")
        return segment, flight

    def _require_funds(self, method: PaymentMethod, price: float) -> Row | None:
        """The travel credit to pay with, if it is one: of those that cover the price, the first to expire."""
        balance = self._mine("Traveller")[0]["points_balance"]
        if method == "points" and balance < _points(price):
            raise Refusal(f"This costs {_points(price)} points; the traveller has {balance}.")
        if method != "travel_credit":
            return None
        valid = [row for row in self._credits() if not row["is_expired"] and row["balance"] >= price]
        if not valid:
            raise Refusal(f"No valid travel credit of the traveller covers {price:.2f}.")
        return min(valid, key=lambda row: str(row["expires_on"]))

    # Writing what several tools write.

    def _take_seats(self, flight_id: str, fareclass_id: str, count: int) -> None:
        """Take seats out of a fare, or give them back where `count` is negative."""
        fare = self._require_fare(flight_id, fareclass_id, count)
        self._update("Fare", fare["fare_id"], seats_left=fare["seats_left"] - count)

    def _charge(self, reservation_id: str, item: str, amount: float, method: PaymentMethod = "card") -> None:
        if amount > 0:
            self._insert("Payment", reservation_id=reservation_id, item=item, amount=amount, method=method, paid_at=NOW)

    def _post_points(self, reservation_id: str, kind: str, points: int) -> int:
        """Book points in or out; the new balance."""
        me = self._mine("Traveller")[0]
        balance: int = me["points_balance"] + points
        self._update("Traveller", me["traveller_id"], points_balance=balance)
        self._insert("PointsEntry", reservation_id=reservation_id, kind=kind, points=points, posted_at=NOW)
        return balance

    def _grant_credit(self, reservation_id: str, amount: float, reason: str) -> Row:
        terms = {"balance": amount, "reason": reason, "issued_on": TODAY, "expires_on": CREDIT_EXPIRES_ON}
        return self._insert("TravelCredit", reservation_id=reservation_id, **terms)

    def _vacate(self, segment_id: str) -> None:
        """Chosen seats and places in standby queues belong to one flight: they end when the segment leaves it."""
        for table in ("SeatAssignment", "StandbyEntry"):
            for row in self._mine(table, segment_id=segment_id):
                self._delete(table, row[f"{table.lower()}_id"])

    # The tools.

    def authorize_traveller(self, booking_pin: str, traveller_id: str | None = None, email: str | None = None) -> Row:
        return self._authorize(booking_pin, traveller_id=traveller_id, email=email and email.lower())

    def get_profile(self) -> Row:
        left_out = {"traveller_id", "price", "aircraft", "delay_minutes", "disruption_cause"}
        segments = [row for each in self._mine("Reservation") for row in self._segments(each["reservation_id"])]
        return {
            "traveller": {key: value for key, value in self._mine("Traveller")[0].items() if key != self.secret},
            "segments": [{key: value for key, value in row.items() if key not in left_out} for row in segments],
            "travel_credits": self._credits(),
            "points_entries": [dict(row) for row in self._mine("PointsEntry")],
        }

    def update_contact_details(self, email: str | None = None, phone: str | None = None, confirm: bool = False) -> Row:
        return self._change_contact(confirm, email=email, phone=phone)

    def get_reservation(self, reservation_id: str) -> Row:
        reservation = self._own("Reservation", reservation_id)
        segments = self._segments(reservation_id)
        aboard = {row["segment_id"] for row in segments}
        return {
            "reservation": dict(reservation) | {"hours_since_booking": -_hours_to(reservation["booked_at"])},
            "passengers": [dict(row) for row in self._mine("Passenger", reservation_id=reservation_id)],
            "segments": segments,
            "fare_rules": [dict(self._find("FareClass", row["fareclass_id"])) for row in segments],
            "seats": [dict(row) for row in self._mine("SeatAssignment") if row["segment_id"] in aboard],
            "extra_bags": [dict(row) for row in self._mine("Bag") if row["segment_id"] in aboard],
            "standby": [dict(row) for row in self._mine("StandbyEntry") if row["segment_id"] in aboard],
            "payments": [dict(row) for row in self._mine("Payment", reservation_id=reservation_id)],
            "fare_paid": self._fare_paid(reservation_id),
            "refunds": [dict(row) for row in self._mine("Refund", reservation_id=reservation_id)],
        }

    def search_flights(self, origin: str, destination: str, date: str) -> Row:
        self._find("Airport", origin)
        self._find("Airport", destination)
        found = [
            _shown(flight) | {"fares": self._fares(flight["flight_id"])}
            for flight in self._rows("Flight")
            if (flight["origin"], flight["destination"], flight["departs_at"][:10]) == (origin, destination, date)
        ]
        return {"flights": sorted(found, key=lambda row: str(row["departs_at"])), "count": len(found)}

    def get_flight(self, flight_id: str) -> Row:
        flight = self._find("Flight", flight_id)
        return {"flight": _shown(flight), "fares": self._fares(flight_id), "free_seats": self._free_seats(flight)}

    def book_flight(self, flight_id: str, fareclass_id: FareName, payment: PaymentMethod, confirm: bool = False) -> Row:
        flight = self._require_bookable(flight_id)
        fare = self._require_fare(flight_id, fareclass_id, 1)
        credit = self._require_funds(payment, fare["price"])
        if not confirm:
            return preview("book_flight", flight=_shown(flight), fare=fare, payment=payment)
        me = self._mine("Traveller")[0]
        reservation = self._insert("Reservation", status="confirmed", booked_at=NOW)
        mine = {"reservation_id": reservation["reservation_id"]}
        person = {"first_name": me["first_name"], "last_name": me["last_name"], "born_on": me["date_of_birth"]}
        passenger = self._insert("Passenger", **mine, **person, needs_assistance=False)
        flown = {"flight_id": flight_id, "fareclass_id": fareclass_id, "price": fare["price"], "checked_in": False}
        segment = self._insert("Segment", **mine, **flown, points_credited=False, status="confirmed")
        self._take_seats(flight_id, fareclass_id, 1)
        self._charge(**mine, item="fare", amount=fare["price"], method=payment)
        answer = {"success": True, **passenger, **segment}
        if payment == "points":
            answer["points_balance"] = self._post_points(**mine, kind="spent", points=-_points(fare["price"]))
        if credit is not None:
            answer["credit_left"] = cents(credit["balance"] - fare["price"])
            self._update("TravelCredit", credit["travelcredit_id"], balance=answer["credit_left"])
        return answer

    def change_flight(
        self, segment_id: str, flight_id: str, fareclass_id: FareName | None = None, confirm: bool = False
    ) -> Row:
        segment, old = self._require_open(segment_id)
        new = self._require_bookable(flight_id, instead_of=old)
        ranks = [row["fareclass_id"] for row in self._rows("FareClass")]
        before, after = segment["fareclass_id"], fareclass_id or segment["fareclass_id"]
        if (flight_id, after) == (old["flight_id"], before):
            raise Refusal(f"{segment_id} is {before} on {flight_id} already.")
        if ranks.index(after) < ranks.index(before):
            raise Refusal(f"A change cannot lower the fare from {before} to {after}.")
        count = len(self._mine("Passenger", reservation_id=segment["reservation_id"]))
        fare = self._require_fare(flight_id, after, count)
        is_disrupted = old["status"] == "canceled" or old["delay_minutes"] >= LONG_DELAY
        more = 0.0 if is_disrupted and after == before else max(cents(fare["price"] - segment["price"]), 0.0)
        fee = 0.0 if is_disrupted or new is old else self._find("FareClass", before)["change_fee"]
        cost = {"fare_difference": cents(more * count), "change_fee": cents(fee * count)}
        if not confirm:
            return preview(
                "change_flight", flight=_shown(new), fareclass_id=after, **cost, total=cents(sum(cost.values()))
            )
        self._take_seats(old["flight_id"], before, -count)
        self._take_seats(flight_id, after, count)
        self._vacate(segment_id)
        change = {"flight_id": flight_id, "fareclass_id": after, "price": cents(segment["price"] + more)}
        self._update("Segment", segment_id, **change, checked_in=False)
        for item, amount in cost.items():
            self._charge(segment["reservation_id"], item, amount)
        return {"success": True, "segment_id": segment_id, **change, **cost, "total": cents(sum(cost.values()))}

    def cancel_reservation(self, reservation_id: str, refund_to: RefundTo, confirm: bool = False) -> Row:
        reservation = self._own("Reservation", reservation_id)
        segments = self._mine("Segment", reservation_id=reservation_id, status="confirmed")
        if not segments:
            raise Refusal(f"{reservation_id} is {reservation['status']} already.")
        flights = [self._require_open(row["segment_id"])[1] for row in segments]
        count = len(self._mine("Passenger", reservation_id=reservation_id))
        is_recent = -_hours_to(reservation["booked_at"]) < FREE_CANCELLATION_HOURS
        is_free = is_recent or any(flight["status"] == "canceled" for flight in flights)
        fees = [self._find("FareClass", row["fareclass_id"])["cancel_fee"] * count for row in segments]
        fee = 0.0 if is_free else max(fees)
        amount = 0.0 if refund_to == "none" else max(cents(self._fare_paid(reservation_id) - fee), 0.0)
        (method,) = {row["method"] for row in self._mine("Payment", reservation_id=reservation_id, item="fare")}
        method = method if refund_to == "original_payment" else refund_to
        if not confirm:
            return preview("cancel_reservation", reservation_id=reservation_id, refund=amount, refund_method=method)
        for row in segments:
            self._vacate(row["segment_id"])
            self._take_seats(row["flight_id"], row["fareclass_id"], -count)
            self._update("Segment", row["segment_id"], status="canceled")
        self._update("Reservation", reservation_id, status="canceled")
        answer = {"success": True, "reservation_id": reservation_id, "refund": amount, "refund_method": method}
        if amount > 0:
            self._insert("Refund", reservation_id=reservation_id, amount=amount, method=method, requested_at=NOW)
            if method == "points":
                answer["points_balance"] = self._post_points(reservation_id, "returned", _points(amount))
            if method == "travel_credit":
                answer |= self._grant_credit(reservation_id, amount, "refund")
        return answer

    def select_seat(self, segment_id: str, passenger_id: str, seat: str, confirm: bool = False) -> Row:
        segment, flight = self._require_aboard(segment_id, passenger_id)
        if seat not in self._free_seats(flight):
            raise Refusal(f"Seat {seat} of {flight['flight_id']} cannot be chosen.")
        rules = self._find("FareClass", segment["fareclass_id"])
        if (int(seat[:-1]) in BUSINESS_ROWS) != (rules["cabin"] == "business"):
            raise Refusal(f"Seat {seat} is not in the {rules['cabin']} cabin.")
        held = self._mine("SeatAssignment", segment_id=segment_id, passenger_id=passenger_id)
        fee = 0.0 if held or self._mine("Traveller")[0]["loyalty_tier"] in FREE_SEAT_TIERS else rules["seat_fee"]
        if not confirm:
            return preview("select_seat", flight_id=flight["flight_id"], passenger_id=passenger_id, seat=seat, fee=fee)
        for row in held:
            self._delete("SeatAssignment", row["seatassignment_id"])
        self._insert("SeatAssignment", segment_id=segment_id, passenger_id=passenger_id, seat=seat)
        self._charge(segment["reservation_id"], "seat", fee)
        return {"success": True, "segment_id": segment_id, "passenger_id": passenger_id, "seat": seat, "fee": fee}

    def add_bag(self, segment_id: str, passenger_id: str, kind: BagKind, confirm: bool = False) -> Row:
        segment, flight = self._require_aboard(segment_id, passenger_id)
        if len(self._mine("Bag", segment_id=segment_id, passenger_id=passenger_id)) >= MAX_EXTRA_BAGS:
            raise Refusal(f"{passenger_id} has {MAX_EXTRA_BAGS} extra bags on {segment_id}, which is the most.")
        fee = BAG_FEES[kind]
        if not confirm:
            return preview("add_bag", flight_id=flight["flight_id"], passenger_id=passenger_id, kind=kind, fee=fee)
        row = self._insert("Bag", segment_id=segment_id, passenger_id=passenger_id, kind=kind, fee=fee)
        self._charge(segment["reservation_id"], "bag", fee)
        return {"success": True, **row}

    def join_standby(self, segment_id: str, flight_id: str, confirm: bool = False) -> Row:
        old = self._require_open(segment_id)[1]
        new = self._require_bookable(flight_id, instead_of=old)
        if new["departs_at"][:10] != old["departs_at"][:10] or new["departs_at"] >= old["departs_at"]:
            raise Refusal(f"Standby is for earlier flights on the day of {old['flight_id']}.")
        if self._mine("StandbyEntry", segment_id=segment_id, flight_id=flight_id):
            raise Refusal(f"{segment_id} is on the standby list of {flight_id} already.")
        if not confirm:
            return preview("join_standby", booked_flight=old["flight_id"], standby_flight=flight_id)
        row = self._insert("StandbyEntry", segment_id=segment_id, flight_id=flight_id, joined_at=NOW)
        return {"success": True, **row}

    def leave_standby(self, standbyentry_id: str, confirm: bool = False) -> Row:
        entry = self._own("StandbyEntry", standbyentry_id)
        if not confirm:
            return preview("leave_standby", entry=dict(entry))
        self._delete("StandbyEntry", standbyentry_id)
        return {"success": True, "left_standby_of": entry["flight_id"]}

    def issue_travel_credit(self, reservation_id: str, amount: float, reason: Occasion, confirm: bool = False) -> Row:
        self._own("Reservation", reservation_id)
        if not 0 < amount <= MAX_CREDIT or amount != cents(amount):
            raise Refusal(f"The amount must be positive, with at most two decimals, and {MAX_CREDIT:.2f} at most.")
        if not confirm:
            return preview("issue_travel_credit", reservation_id=reservation_id, amount=amount, reason=reason)
        return {"success": True, **self._grant_credit(reservation_id, amount, reason)}

    def claim_missing_points(self, segment_id: str, confirm: bool = False) -> Row:
        segment = self._own("Segment", segment_id)
        if segment["status"] != "flown" or segment["points_credited"]:
            raise Refusal(f"{segment_id} is {segment['status']}: points are earned once, by flying.")
        rate = self._find("FareClass", segment["fareclass_id"])["points_per_dollar"]
        points = round(segment["price"] * rate * TIER_BONUS[self._mine("Traveller")[0]["loyalty_tier"]])
        if points == 0:
            raise Refusal(f"{segment['fareclass_id']} fares earn no points.")
        if not confirm:
            return preview("claim_missing_points", segment_id=segment_id, points=points)
        self._update("Segment", segment_id, points_credited=True)
        balance = self._post_points(segment["reservation_id"], "earned", points)
        return {"success": True, "segment_id": segment_id, "points": points, "points_balance": balance}


def _shown(flight: Row) -> Row:
    hours = {"hours_to_departure": _hours_to(flight["departs_at"])}
    return {key: value for key, value in flight.items() if key != "seats_to_choose"} | hours


def _hours_to(moment: str) -> float:
    """Hours from now, negative for what is past."""
    return round((datetime.fromisoformat(moment) - datetime.fromisoformat(NOW)).total_seconds() / 3600, 1)


def _points(dollars: float) -> int:
    return round(dollars * POINTS_FOR_A_DOLLAR)


TOOLS = tool_table(
    AirlineTools.authorize_traveller,
    AirlineTools.get_profile,
    AirlineTools.update_contact_details,
    AirlineTools.get_reservation,
    AirlineTools.search_flights,
    AirlineTools.get_flight,
    AirlineTools.book_flight,
    AirlineTools.change_flight,
    AirlineTools.cancel_reservation,
    AirlineTools.select_seat,
    AirlineTools.add_bag,
    AirlineTools.join_standby,
    AirlineTools.leave_standby,
    AirlineTools.issue_travel_credit,
    AirlineTools.claim_missing_points,
)


class AirlineReservationsServer(Server):
    """The desk for any number of sessions."""

    def __init__(self, domain_name: str) -> None:
        super().__init__(domain_name, __file__, AirlineTools, TOOLS, TABLES)
