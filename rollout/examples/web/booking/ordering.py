"""The pages on which one books, and those of what was booked."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from aiohttp import web

from rollout.examples.web.booking.stays import BREAKFAST, DOG_FEE, Booking, BookingState, RoomPrice, Stay
from rollout.examples.web.booking.views import page, price_table
from rollout.examples.web.hypertext import (
    Errors,
    Html,
    button,
    choice,
    el,
    faults,
    post,
    table,
    text_area,
    text_field,
    tick,
)
from rollout.examples.web.serving import show_date


def _steps(current: int) -> Html:
    names = ("1. Your details", "2. Review", "3. Done")
    items = [el("li", name, aria_current="step" if place == current else None) for place, name in enumerate(names)]
    return el("ol", items, class_="steps")


def details(
    request: web.Request, state: BookingState, stay: Stay, values: Mapping[str, str], errors: Errors, price: RoomPrice
) -> web.Response:
    """The first step of booking: who comes, and with what."""

    def text(name: str, label: str, kind: str = "text", hint: str = "") -> Html:
        return text_field(name, label, values.get(name, ""), errors, kind=kind, hint=hint)

    hours = [("", "Choose…"), *((f"{hour}:00", f"{hour}:00") for hour in range(14, 22)), ("late", "After 22:00")]
    dates = [el("input", type="hidden", name=name, value=values.get(name, "")) for name in ("from", "to", "guests")]
    form = post(
        f"/book/{stay.key}",
        faults(errors),
        dates,
        el("div", text("name", "Full name"), text("email", "Email"), class_="row"),
        el(
            "div",
            text("phone", "Phone", hint="At least 7 digits"),
            choice("arrival", "Arrival time", hours, values.get("arrival", ""), errors),
            class_="row",
        ),
        tick("breakfast", f"Breakfast (${BREAKFAST} a person and night)", bool(values.get("breakfast"))),
        tick("dog", f"Bring a dog (${DOG_FEE} a stay)", bool(values.get("dog"))),
        el("p", errors["dog"], class_="fault") if "dog" in errors else None,
        text_area("note", "Anything we should know?", values.get("note", ""), errors, rows=3),
        tick(
            "terms",
            ["I accept the ", el("a", "terms of booking", href="/terms", target="_blank")],
            bool(values.get("terms")),
        ),
        el("p", errors["terms"], class_="fault") if "terms" in errors else None,
        button("Continue"),
        class_="card",
    )
    body = [
        _steps(0),
        el("h1", f"Book {stay.name}"),
        el("div", form, el("aside", _dates_card(stay, values, price)), class_="split right"),
    ]
    return page(request, state, f"Book {stay.name}", *body)


def _dates_card(stay: Stay, values: Mapping[str, str], price: RoomPrice) -> Html:
    first, last = (datetime.date.fromisoformat(values[name]) for name in ("from", "to"))
    return el(
        "div",
        el("h3", stay.name),
        el("p", f"{show_date(first)} to {show_date(last)}, {values['guests']} guests"),
        price_table(price),
        class_="card",
    )


def review(
    request: web.Request, state: BookingState, stay: Stay, values: Mapping[str, str], price: RoomPrice
) -> web.Response:
    """The second step: everything once more, then the button that counts."""
    hidden = [el("input", type="hidden", name=name, value=value) for name, value in values.items()]
    facts = {
        "Name": values["name"],
        "Email": values["email"],
        "Phone": values["phone"],
        "Arrival": values["arrival"],
        "Note": values.get("note") or "None",
    }
    confirm = post(f"/book/{stay.key}/confirm", hidden, button("Confirm booking"))
    change = post(f"/book/{stay.key}/change", hidden, button("Change details", kind="quiet"))
    body = el(
        "div",
        el("h2", "Please check your booking", style="margin-top:0"),
        el("dl", [[el("dt", name), el("dd", value)] for name, value in facts.items()], class_="facts"),
        el("p", "Nothing is booked yet.", class_="quiet"),
        el("div", confirm, change, class_="actions"),
        class_="card",
    )
    split = el("div", body, el("aside", _dates_card(stay, values, price)), class_="split right")
    return page(request, state, f"Review: {stay.name}", _steps(1), el("h1", f"Book {stay.name}"), split)


def bookings(request: web.Request, state: BookingState) -> web.Response:
    rows = [
        (
            el("a", booking.reference, href=f"/bookings/{booking.reference}"),
            booking.stay.name,
            f"{show_date(booking.start)} to {show_date(booking.end)}",
            booking.guests,
            f"${booking.price.total}",
            el("span", booking.status, class_="tag good" if booking.status == "Confirmed" else "tag bad"),
        )
        for booking in state.bookings
    ]
    heads = ["Reference", "Stay", "Dates", "Guests", "Total", "Status"]
    return page(request, state, "My bookings", el("h1", "My bookings"), table(heads, rows))


def booking_page(
    request: web.Request, state: BookingState, booking: Booking, is_new: bool, values: Mapping[str, str], errors: Errors
) -> web.Response:
    facts = {
        "Reference": booking.reference,
        "Status": booking.status,
        "Stay": booking.stay.name,
        "Check-in": show_date(booking.start),
        "Check-out": show_date(booking.end),
        "Guests": str(booking.guests),
        "Name": booking.form["name"],
        "Arrival": booking.form["arrival"],
        "Breakfast": "Yes" if booking.form.get("breakfast") else "No",
        "Dog": "Yes" if booking.form.get("dog") else "No",
        "Note": booking.form.get("note") or "None",
    }
    given = {"from": booking.start.isoformat(), "to": booking.end.isoformat(), **values}
    changing = post(
        f"/bookings/{booking.reference}",
        el("h3", "Change dates"),
        faults(errors),
        text_field("from", "Check-in", given["from"], errors, kind="date"),
        text_field("to", "Check-out", given["to"], errors, kind="date"),
        button("Save dates", kind="quiet"),
        class_="card",
    )
    cancelling = post(
        f"/bookings/{booking.reference}/cancel",
        el("h3", "Cancel booking"),
        el("p", f"You would get back ${booking.refund}."),
        button("Cancel booking", kind="danger"),
        confirm=f"Cancel {booking.reference}? ${booking.refund} will be paid back.",
        class_="card",
    )
    is_live = booking.status == "Confirmed"
    thanks = el("div", f"Thank you! Your booking {booking.reference} is confirmed.", class_="notice good")
    return page(
        request,
        state,
        f"Booking {booking.reference}",
        [thanks, _steps(2)] if is_new else None,
        el("h1", f"Booking {booking.reference}"),
        el(
            "div",
            el(
                "div",
                el("dl", [[el("dt", name), el("dd", value)] for name, value in facts.items()], class_="facts"),
                price_table(booking.price),
                class_="card",
            ),
            el("aside", [changing, cancelling] if is_live else None),
            class_="split right",
        ),
    )
