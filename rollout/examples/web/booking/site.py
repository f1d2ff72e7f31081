"""The pages and forms of the booking site."""

from __future__ import annotations

import datetime
import re

from aiohttp import web

from rollout.examples.web.booking import ordering, views
from rollout.examples.web.booking.stays import (
    STAYS,
    Booking,
    BookingState,
    RoomPrice,
    Stay,
    check_dates,
    check_stay,
    price_of,
)
from rollout.examples.web.serving import TODAY, Visitors, date_of, make_application, number_of, read_form, redirect

_FIELDS = ("from", "to", "guests", "name", "email", "phone", "arrival", "breakfast", "dog", "note", "terms")
_TAKEN = "Not available on these dates"


def make_app() -> web.Application:
    """The site, with no visitors yet."""
    site = Site()
    return make_application(
        [
            ("GET", "/", site.home),
            ("GET", "/search", site.search),
            ("GET", "/stays", site.stays),
            ("GET", "/stays/{stay}", site.stay),
            ("GET", "/book/{stay}", site.begin),
            ("POST", "/book/{stay}", site.review),
            ("POST", "/book/{stay}/change", site.change_details),
            ("POST", "/book/{stay}/confirm", site.confirm),
            ("GET", "/bookings", site.bookings),
            ("GET", "/bookings/{reference}", site.booking),
            ("POST", "/bookings/{reference}", site.move),
            ("POST", "/bookings/{reference}/cancel", site.cancel),
            ("GET", "/help", site.help),
            ("GET", "/terms", site.terms),
        ],
        "booking",
        site.missing,
    )


class Site:
    """Handlers, and the visitors they serve."""

    def __init__(self) -> None:
        self._visitors = Visitors(BookingState)

    async def home(self, request: web.Request) -> web.Response:
        return views.home(request, self._visitors.of(request))

    async def stays(self, request: web.Request) -> web.Response:
        return views.stays(request, self._visitors.of(request), list(STAYS.values()))

    async def search(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        values = {name: request.query.get(name, "").strip() for name in ("place", "from", "to", "guests", "sort")}
        guests = number_of(values["guests"], 2, 1, 6)
        start, end = date_of(values["from"]), date_of(values["to"])
        errors = check_dates(start, end)
        wanted = request.query.getall("with", [])
        found: list[tuple[Stay, RoomPrice | None, str]] = []
        for stay in STAYS.values():
            is_wanted = (not values["place"] or stay.place == values["place"]) and set(wanted) <= set(stay.facilities)
            if errors or not is_wanted or start is None or end is None:
                continue
            faults = check_stay(stay, start, end, guests)
            if "guests" in faults:
                continue
            why = f"Minimum stay {stay.min_nights} nights" if "to" in faults else _TAKEN
            is_free = not faults and state.is_free(stay, start, end)
            found.append((stay, price_of(stay, start, end, guests), "") if is_free else (stay, None, why))
        keys = {
            "price-down": lambda row: -row[1].total if row[1] else 10**6,
            "rating": lambda row: -row[0].rating if row[1] else 10**6,
        }
        found.sort(key=keys.get(values["sort"], lambda row: row[1].total if row[1] else 10**6))
        return views.results(request, state, values, errors, wanted, found)

    async def stay(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        stay = STAYS.get(request.match_info["stay"])
        if stay is None:
            return await self.missing(request)
        values = {name: request.query.get(name, "").strip() for name in ("from", "to", "guests")}
        errors: dict[str, str] = {}
        price = None
        if "from" in request.query:
            errors, offer = self._offer(state, stay, values)
            price = offer[3] if offer else None
        month = date_of(request.query.get("month", "") + "-01") or date_of(values["from"]) or TODAY
        month = max(TODAY, min(month, datetime.date(2025, 12, 1))).replace(day=1)
        return views.stay_page(request, state, stay, month, values, errors, price)

    def _offer(
        self, state: BookingState, stay: Stay, values: dict[str, str]
    ) -> tuple[dict[str, str], tuple[datetime.date, datetime.date, int, RoomPrice] | None]:
        """What is wrong with the dates of a form, or dates, guests and price."""
        start, end = date_of(values.get("from", "")), date_of(values.get("to", ""))
        guests = number_of(values.get("guests", ""), 2, 1, 6)
        errors = check_dates(start, end)
        if start is not None and end is not None and not errors:
            errors = check_stay(stay, start, end, guests)
            if not errors and not state.is_free(stay, start, end):
                errors = {"from": f"{stay.name} is not available on these dates."}
            if not errors:
                return {}, (start, end, guests, price_of(stay, start, end, guests, values))
        return errors, None

    # ---- booking ------------------------------------------------------------------------------------------------

    async def begin(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        stay = STAYS.get(request.match_info["stay"])
        if stay is None:
            return await self.missing(request)
        values = {name: request.query.get(name, "") for name in ("from", "to", "guests")}
        _, offer = self._offer(state, stay, values)
        if offer is None:
            return redirect(f"/stays/{stay.key}")
        return ordering.details(request, state, stay, {**values, "guests": str(offer[2])}, {}, offer[3])

    async def review(self, request: web.Request) -> web.Response:
        return await self._step(request, "review")

    async def change_details(self, request: web.Request) -> web.Response:
        return await self._step(request, "details")

    async def confirm(self, request: web.Request) -> web.Response:
        return await self._step(request, "confirm")

    async def _step(self, request: web.Request, what: str) -> web.Response:
        state = self._visitors.of(request)
        stay = STAYS.get(request.match_info["stay"])
        if stay is None:
            return await self.missing(request)
        form = {name: value for name, value in (await read_form(request)).items() if name in _FIELDS}
        _, offer = self._offer(state, stay, form)
        if offer is None:
            state.notices.append(("bad", f"{stay.name} is not available on these dates."))
            return redirect(f"/stays/{stay.key}")
        start, end, guests, price = offer
        form["guests"] = str(guests)
        errors = check_guest(stay, form)
        if errors or what == "details":
            return ordering.details(request, state, stay, form, errors, price)
        if what == "review":
            return ordering.review(request, state, stay, form, price)
        booking = state.book(stay, start, end, guests, form)
        return redirect(f"/bookings/{booking.reference}?new=1")

    # ---- what was booked ----------------------------------------------------------------------------------------

    def _find(self, request: web.Request) -> tuple[BookingState, Booking | None]:
        state = self._visitors.of(request)
        reference = request.match_info["reference"]
        return state, next((booking for booking in state.bookings if booking.reference == reference), None)

    async def bookings(self, request: web.Request) -> web.Response:
        return ordering.bookings(request, self._visitors.of(request))

    async def booking(self, request: web.Request) -> web.Response:
        state, booking = self._find(request)
        if booking is None:
            return await self.missing(request)
        return ordering.booking_page(request, state, booking, "new" in request.query, {}, {})

    async def move(self, request: web.Request) -> web.Response:
        state, booking = self._find(request)
        if booking is None or booking.status != "Confirmed":
            return await self.missing(request)
        form = await read_form(request)
        start, end = date_of(form.get("from", "")), date_of(form.get("to", ""))
        errors = check_dates(start, end)
        if start is not None and end is not None and not errors:
            errors = check_stay(booking.stay, start, end, booking.guests)
            if not errors and not state.is_free(booking.stay, start, end, but=booking):
                errors = {"from": f"{booking.stay.name} is not available on these dates."}
            if not errors:
                booking.start, booking.end = start, end
                state.notices.append(("good", "Your dates were changed."))
                return redirect(f"/bookings/{booking.reference}")
        values = {name: form.get(name, "") for name in ("from", "to")}
        return ordering.booking_page(request, state, booking, False, values, errors)

    async def cancel(self, request: web.Request) -> web.Response:
        state, booking = self._find(request)
        if booking is None:
            return await self.missing(request)
        booking.status = "Cancelled"
        state.notices.append(("good", f"{booking.reference} was cancelled. ${booking.refund} will be paid back."))
        return redirect(f"/bookings/{booking.reference}")

    async def help(self, request: web.Request) -> web.Response:
        return views.help_page(request, self._visitors.of(request))

    async def terms(self, request: web.Request) -> web.Response:
        return views.terms(request, self._visitors.of(request))

    async def missing(self, request: web.Request) -> web.Response:
        return views.missing(request, self._visitors.of(request))


def check_guest(stay: Stay, form: dict[str, str]) -> dict[str, str]:
    """What is wrong with the form of a booking."""
    errors = {}
    if len(form.get("name", "").split()) < 2:
        errors["name"] = "Please enter first and last name."
    if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", form.get("email", "")):
        errors["email"] = "Please enter a valid email address."
    if len(re.sub(r"\D", "", form.get("phone", ""))) < 7:
        errors["phone"] = "Please enter a phone number with at least 7 digits."
    if not form.get("arrival"):
        errors["arrival"] = "Please choose when you arrive."
    if form.get("dog") and "Dogs welcome" not in stay.facilities:
        errors["dog"] = f"Dogs are not allowed at {stay.name}."
    if not form.get("terms"):
        errors["terms"] = "Please accept the terms of booking."
    return errors
