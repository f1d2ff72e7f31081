"""Places to book, with dates and prices, and the bookings of one visitor."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from rollout.examples.web.serving import TODAY

PLACES = ("Port Marrow", "Saltmarsh", "Gullhaven", "Ness Point")
FACILITIES = ("Sea view", "Kitchen", "Dogs welcome", "Free parking", "Step-free")
MAX_NIGHTS = 14
LAST_DAY = datetime.date(2025, 12, 31)
BREAKFAST = 11
DOG_FEE = 25
FIRST_BOOKING = 7301


@dataclass(frozen=True)
class Stay:
    key: str
    name: str
    place: str
    sleeps: int
    price: int
    """A night from Sunday to Thursday, in whole dollars; Friday and Saturday nights cost `weekend` more."""
    weekend: int
    cleaning: int
    min_nights: int
    rating: float
    facilities: tuple[str, ...]
    text: str
    rules: str
    taken: tuple[tuple[str, str], ...]
    """Nights that are booked: from the first, up to but without the second date."""

    def is_free(self, start: datetime.date, end: datetime.date) -> bool:
        taken = (map(datetime.date.fromisoformat, pair) for pair in self.taken)
        return all(end <= first or start >= last for first, last in taken)

    def night_price(self, night: datetime.date) -> int:
        price = self.price + (self.weekend if night.weekday() in (4, 5) else 0)
        return price * 5 // 4 if night.month in (7, 8) else price


STAYS: dict[str, Stay] = {
    stay.key: stay
    for stay in (
        Stay(
            "heron-loft", "Heron Loft", "Saltmarsh", 2, 88, 22, 30, 2, 4.8,
            ("Sea view", "Kitchen"),
            "A white loft under the roof of the old sail works, with a window as wide as the room.",
            "No pets. Quiet from 22:00. Check-in from 15:00, check-out by 10:00.",
            (("2025-03-14", "2025-03-17"), ("2025-04-03", "2025-04-10"), ("2025-05-02", "2025-05-05")),
        ),
        Stay(
            "keepers-cottage", "Keeper's Cottage", "Ness Point", 4, 120, 35, 45, 3, 4.9,
            ("Sea view", "Kitchen", "Dogs welcome", "Free parking"),
            "The lighthouse keeper's house, with thick walls, a stove and nothing between you and the sea.",
            "Dogs are welcome ($25 a stay). Check-in from 16:00, check-out by 11:00. The key is in the blue box.",
            (("2025-03-20", "2025-03-24"), ("2025-04-17", "2025-04-22"), ("2025-06-06", "2025-06-13")),
        ),
        Stay(
            "net-house", "The Net House", "Port Marrow", 6, 165, 40, 60, 2, 4.6,
            ("Kitchen", "Dogs welcome", "Step-free"),
            "Three bedrooms on the quay, a long table, and the fish market at the door.",
            "Dogs are welcome ($25 a stay). No parties. Check-in from 16:00, check-out by 10:00.",
            (("2025-03-28", "2025-03-30"), ("2025-04-11", "2025-04-14")),
        ),
        Stay(
            "quay-room", "Quay Room", "Port Marrow", 2, 64, 16, 15, 1, 4.2,
            ("Step-free",),
            "A plain, bright room above the bakery. You will wake to the smell of bread.",
            "No pets. Check-in from 14:00, check-out by 11:00. Breakfast is served from 7:30.",
            (("2025-03-12", "2025-03-14"), ("2025-04-18", "2025-04-20")),
        ),
        Stay(
            "dune-cabin", "Dune Cabin", "Gullhaven", 3, 79, 21, 25, 2, 4.5,
            ("Kitchen", "Dogs welcome", "Free parking"),
            "A wooden cabin behind the first dune. No television, good books.",
            "Dogs are welcome ($25 a stay). Fires only in the stove. Check-in from 15:00, check-out by 10:00.",
            (("2025-04-25", "2025-04-28"), ("2025-05-29", "2025-06-02")),
        ),
        Stay(
            "gull-nest", "Gull's Nest", "Gullhaven", 2, 72, 18, 20, 1, 4.0,
            ("Sea view", "Free parking"),
            "A small room with a large balcony, two minutes from the ferry.",
            "No pets. Check-in from 15:00, check-out by 11:00.",
            (("2025-03-21", "2025-03-23"), ("2025-05-09", "2025-05-11")),
        ),
        Stay(
            "salt-barn", "Salt Barn", "Saltmarsh", 5, 140, 30, 50, 2, 4.7,
            ("Kitchen", "Free parking", "Step-free"),
            "A converted barn among the salt pans, with bicycles for everybody.",
            "No pets. Check-in from 16:00, check-out by 10:00. Please rinse the bicycles.",
            (("2025-04-04", "2025-04-07"), ("2025-05-16", "2025-05-19")),
        ),
        Stay(
            "harbour-suite", "Harbour Suite", "Port Marrow", 4, 150, 45, 35, 2, 4.4,
            ("Sea view", "Kitchen", "Step-free"),
            "The top floor of the customs house, with two bedrooms and a piano.",
            "No pets. Check-in from 15:00, check-out by 11:00. The piano sleeps from 21:00.",
            (("2025-04-10", "2025-04-13"), ("2025-05-01", "2025-05-04")),
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class RoomPrice:
    nights: tuple[tuple[datetime.date, int], ...]
    cleaning: int
    breakfast: int = 0
    dog: int = 0

    @property
    def total(self) -> int:
        return sum(amount for _, amount in self.nights) + self.cleaning + self.breakfast + self.dog


@dataclass
class Booking:
    reference: str
    stay: Stay
    start: datetime.date
    end: datetime.date
    guests: int
    form: dict[str, str]
    status: str = "Confirmed"

    @property
    def price(self) -> RoomPrice:
        return price_of(self.stay, self.start, self.end, self.guests, self.form)

    @property
    def refund(self) -> int:
        """What is paid back on cancelling: all of it until 14 days before, half until 3 days before, then nothing."""
        days = (self.start - TODAY).days
        return self.price.total if days >= 14 else self.price.total // 2 if days >= 3 else 0


def price_of(
    stay: Stay, start: datetime.date, end: datetime.date, guests: int, extras: dict[str, str] | None = None
) -> RoomPrice:
    """What a stay costs, night by night, with the extras that a form asks for."""
    wanted = extras or {}
    nights = tuple(
        (night, stay.night_price(night))
        for night in (start + datetime.timedelta(days) for days in range((end - start).days))
    )
    breakfast = BREAKFAST * guests * len(nights) if wanted.get("breakfast") else 0
    dog = DOG_FEE if wanted.get("dog") and "Dogs welcome" in stay.facilities else 0
    return RoomPrice(nights, stay.cleaning, breakfast, dog)


@dataclass
class BookingState:
    """What one visitor has booked. Everybody begins with one booking."""

    bookings: list[Booking] = field(
        default_factory=lambda: [
            Booking(
                "SM-7300",
                STAYS["gull-nest"],
                datetime.date(2025, 4, 18),
                datetime.date(2025, 4, 21),
                2,
                {"name": "Alex Moreno", "email": "alex.moreno@example.org", "phone": "555 0143", "arrival": "16:00"},
            )
        ]
    )
    notices: list[tuple[str, str]] = field(default_factory=list)

    def is_free(self, stay: Stay, start: datetime.date, end: datetime.date, but: Booking | None = None) -> bool:
        """Whether a stay can be had, the visitor's own bookings considered."""
        return stay.is_free(start, end) and all(
            booking is but
            or booking.stay is not stay
            or booking.status != "Confirmed"
            or end <= booking.start
            or start >= booking.end
            for booking in self.bookings
        )

    def book(self, stay: Stay, start: datetime.date, end: datetime.date, guests: int, form: dict[str, str]) -> Booking:
        booking = Booking(f"SM-{FIRST_BOOKING + len(self.bookings) - 1}", stay, start, end, guests, form)
        self.bookings.append(booking)
        return booking


def check_dates(start: datetime.date | None, end: datetime.date | None) -> dict[str, str]:
    """What is wrong with two dates, by field."""
    errors = {}
    if start is None:
        errors["from"] = "Please enter the day of arrival."
    elif start < TODAY:
        errors["from"] = "The day of arrival is in the past."
    if end is None:
        errors["to"] = "Please enter the day of departure."
    elif start is not None and end <= start:
        errors["to"] = "The departure must be after the arrival."
    elif start is not None and (end - start).days > MAX_NIGHTS:
        errors["to"] = f"You can stay at most {MAX_NIGHTS} nights."
    elif end > LAST_DAY:
        errors["to"] = "We take bookings until the end of 2025."
    return errors


def check_stay(stay: Stay, start: datetime.date, end: datetime.date, guests: int) -> dict[str, str]:
    """What is wrong with good dates for this stay, but whether it is free."""
    errors = {}
    if (end - start).days < stay.min_nights:
        errors["to"] = f"{stay.name} has a minimum stay of {stay.min_nights} nights."
    if guests > stay.sleeps:
        errors["guests"] = f"{stay.name} sleeps {stay.sleeps}."
    return errors
