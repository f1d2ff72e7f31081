"""The pages of the booking site."""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Mapping, Sequence

from aiohttp import web

from rollout.examples.web.booking.stays import BREAKFAST, DOG_FEE, FACILITIES, PLACES, STAYS, Booking, Price, State, Stay
from rollout.examples.web.html import (
    Child,
    Errors,
    Html,
    button,
    choice,
    el,
    faults,
    post,
    query,
    table,
    text_area,
    text_field,
    tick,
)
from rollout.examples.web.serving import TODAY, Frame, show_date, take_notices

FRAME = Frame("Saltmarsh Stays")
STYLE = """
:root { --accent: #0e6a8a; --accent-soft: #e2f0f5; --ground: #f4f7f8; }
.banner { background: linear-gradient(120deg, #0e6a8a, #4aa3a1 70%, #d8c48a); color: #fff; border-radius: 14px; padding: 26px 30px; margin: 0 0 22px; } .banner h1 { font-size: 30px; }
.finder { background: var(--paper); color: var(--ink); border-radius: 10px; padding: 16px 18px 4px; } .finder .button { margin: 23px 0 14px; align-self: flex-start; }
.picks .card { padding: 0; overflow: hidden; } .picks .card div { padding: 12px 16px; } .picks .view { height: 130px; min-height: 0; }
.stay { display: grid; grid-template-columns: 210px 1fr 180px; gap: 20px; padding: 0; overflow: hidden; } .stay > div { padding: 16px 0; } .stay > div:last-child { padding-right: 18px; text-align: right; }
.view { display: block; width: 100%; height: 100%; min-height: 150px; } .wide .view { height: 260px; border-radius: 12px; }
.month { width: 100%; text-align: center; font-size: 14px; } .month th, .month td { text-align: center; padding: 5px; border: 0; } .month .taken { color: #b9c0c5; text-decoration: line-through; } .month .past { color: #d5dadd; }
.month .free { background: #e9f6ee; border-radius: 4px; } .cookies { position: fixed; left: 0; right: 0; bottom: 0; background: #22323a; color: #fff; padding: 14px 24px; display: flex; gap: 16px; align-items: center; justify-content: center; z-index: 9; }
.steps { display: flex; gap: 8px; margin: 0 0 18px; padding: 0; list-style: none; } .steps li { flex: 1; padding: 7px 12px; border-radius: 6px; background: #e3e9ec; color: var(--quiet); font-size: 14px; } .steps li[aria-current] { background: var(--accent); color: #fff; font-weight: 600; }
"""  # noqa: E501
_SKIES = ("#bfe3ee", "#f6d9b8", "#cfe6d8", "#dcd5ee", "#f3e3b5", "#c7daf2", "#f2cfc4", "#d3ecec")


def view(stay: Stay, place: int = 0) -> Html:
    """A drawing of sky, sea and land for a stay."""
    number = sum(map(ord, stay.key)) + place
    sky = _SKIES[number % len(_SKIES)]
    house = 60 + number * 13 % 90
    return el(
        "svg",
        el("rect", width="240", height="160", fill=sky),
        el("circle", cx=str(30 + number * 29 % 180), cy="40", r="16", fill="#fff6d8"),
        el("path", d="M0 100q60-14 120 0t120 0v60H0z", fill="#5b9fb0"),
        el("path", d="M0 124q80-22 240 6v30H0z", fill="#8aa56d"),
        el("path", d=f"M{house} 118v-26l20-16 20 16v26z", fill="#fbf7ef"),
        el("path", d=f"M{house - 5} 94l25-21 25 21z", fill="#9c4a3a"),
        el("rect", x=str(house + 14), y="102", width="12", height="16", fill="#35606b"),
        viewBox="0 0 240 160",
        preserveAspectRatio="xMidYMid slice",
        class_="view",
        role="img",
        aria_label=stay.name,
    )


def page(request: web.Request, state: State, title: str, *body: Child, status: int = 200) -> web.Response:
    header = el(
        "div",
        el("a", "Saltmarsh Stays", href="/", class_="brand"),
        el(
            "nav",
            el("a", "All stays", href="/stays"),
            el("a", "My bookings", href="/bookings"),
            el("a", "Help", href="/help"),
            el("span", "Alex Moreno", class_="tag"),
        ),
        class_="bar",
    )
    cookies = None
    if request.cookies.get("dismissed") != "cookies":
        cookies = el(
            "div",
            el("span", "We use cookies so that the site works and to count visits."),
            el("button", "Accept all", type="button", class_="button small", data_dismisses="cookies"),
            el("button", "Only necessary", type="button", class_="button quiet small", data_dismisses="cookies"),
            class_="cookies",
            id="cookies",
            role="region",
            aria_label="Cookies",
        )
    footer = ["Saltmarsh Stays", el("a", "Terms", href="/terms", target="_blank"), el("a", "Help", href="/help")]
    return FRAME.page(title, take_notices(state.notices), *body, cookies, header=header, footer=footer, status=status)


def finder(values: Mapping[str, str], errors: Errors) -> Html:
    """The form that finds stays."""
    places = [("", "Anywhere"), *((place, place) for place in PLACES)]
    return el(
        "form",
        faults(errors),
        el(
            "div",
            choice("place", "Where", places, values.get("place", "")),
            text_field("from", "Check-in", values.get("from", ""), errors, kind="date"),
            text_field("to", "Check-out", values.get("to", ""), errors, kind="date"),
            _guests(values, errors),
            button("Search"),
            class_="row",
        ),
        action="/search",
        novalidate=True,
        class_="finder",
    )


def _guests(values: Mapping[str, str], errors: Errors) -> Html:
    options = [(str(count), f"{count} guest{'s' if count > 1 else ''}") for count in range(1, 7)]
    return choice("guests", "Guests", options, values.get("guests") or "2", errors)


def home(request: web.Request, state: State) -> web.Response:
    banner = el(
        "section",
        el("h1", "Rooms with the tide in the window"),
        el("p", f"Eight stays on one coast. Today is {show_date(TODAY)}."),
        finder({}, {}),
        class_="banner",
    )
    notes = [
        ("Pay later", "Free cancellation until 14 days before you arrive."),
        ("Only eight", "We know every house, and every key."),
        ("By the sea", "No stay is further than 400 metres from the water."),
    ]
    cards = [el("div", el("h3", name), el("p", text), class_="card") for name, text in notes]
    picks = [
        el(
            "article",
            view(stay),
            el(
                "div",
                el("h3", el("a", stay.name, href=f"/stays/{stay.key}")),
                el("span", f"{stay.place} · from ${stay.price} a night", class_="quiet"),
            ),
            class_="card",
        )
        for stay in sorted(STAYS.values(), key=lambda stay: -stay.rating)[:3]
    ]
    body = [el("div", cards, class_="grid"), el("h2", "Loved by our guests"), el("div", picks, class_="grid picks")]
    return page(request, state, "", banner, *body)


def results(
    request: web.Request,
    state: State,
    values: Mapping[str, str],
    errors: Errors,
    wanted: Sequence[str],
    found: Sequence[tuple[Stay, Price | None, str]],
) -> web.Response:
    """Stays with their price for the dates, or why they cannot be had."""
    hidden = [el("input", type="hidden", name=name, value=values.get(name, "")) for name in ("place", "from", "to", "guests")]
    sorts = [("price", "Price: low to high"), ("price-down", "Price: high to low"), ("rating", "Guest rating")]
    filters = el(
        "form",
        hidden,
        el("h3", "Filter"),
        [tick("with", name, name in wanted, value=name) for name in FACILITIES],
        choice("sort", "Sort by", sorts, values.get("sort", "price")),
        button("Apply"),
        action="/search",
        class_="card",
    )  # fmt: skip
    dates = {name: values.get(name, "") for name in ("from", "to", "guests")}
    cards = [
        el(
            "article",
            view(stay),
            _summary(stay),
            el(
                "div",
                [
                    el("div", f"${price.total}", class_="price"),
                    el("p", f"{len(price.nights)} nights, all in", class_="quiet"),
                    el("a", f"See {stay.name}", href=query({"": f"/stays/{stay.key}", **dates}), class_="button small"),
                ]
                if price
                else el("span", why, class_="tag bad"),
            ),
            class_="card stay",
        )
        for stay, price, why in found
    ]
    count = sum(1 for _, price, _ in found if price)
    body = [
        finder(values, errors),
        el("h1", f"{count} stay{'' if count == 1 else 's'} available", style="margin-top:22px"),
        el("div", el("aside", filters), el("div", cards), class_="split"),
    ]
    return page(request, state, "Search", body if not errors else [el("h1", "Find a stay"), finder(values, errors)])


def stays(request: web.Request, state: State, found: Sequence[Stay]) -> web.Response:
    cards = [
        el(
            "article",
            view(stay),
            _summary(stay),
            el(
                "div",
                el("p", "from ", el("span", f"${stay.price}", class_="price"), " a night"),
                el("a", f"See {stay.name}", href=f"/stays/{stay.key}", class_="button small"),
            ),
            class_="card stay",
        )
        for stay in found
    ]
    return page(request, state, "All stays", el("h1", "All stays"), cards)


def _summary(stay: Stay, is_named: bool = True) -> Html:
    return el(
        "div",
        el("h3", stay.name) if is_named else None,
        el("p", f"{stay.place} · sleeps {stay.sleeps} · ★ {stay.rating}", class_="quiet"),
        el("p", stay.text),
        [[el("span", name, class_="tag"), " "] for name in stay.facilities],
    )


def stay_page(
    request: web.Request,
    state: State,
    stay: Stay,
    month: datetime.date,
    values: Mapping[str, str],
    errors: Errors,
    price: Price | None,
) -> web.Response:
    accordion = {
        "House rules": stay.rules,
        "Cancellation": "Free until 14 days before arrival. Half of the price is paid back until 3 days before arrival.",
        "Prices": f"A night from Sunday to Thursday costs ${stay.price}; Friday and Saturday nights cost "
        f"${stay.weekend} more. In July and August all nights cost a quarter more. Cleaning is ${stay.cleaning} a stay.",
    }
    offer: Child = None
    if price:
        dates = {name: values[name] for name in ("from", "to", "guests")}
        offer = [
            el("p", "Total ", el("span", f"${price.total}", class_="price", id="total")),
            el(
                "div",
                el("a", "Book this stay", href=query({"": f"/book/{stay.key}", **dates}), class_="button"),
                el("button", "Price details", type="button", class_="button quiet small", data_opens="details"),
                class_="actions",
            ),
            el(
                "dialog",
                el("h2", "Price details"),
                price_table(price),
                el("button", "Close", type="button", class_="button", data_closes=True),
                id="details",
                aria_label="Price details",
            ),
        ]
    aside = el(
        "div",
        el(
            "form",
            el("h3", "Check dates"),
            faults(errors),
            text_field("from", "Check-in", values.get("from", ""), errors, kind="date"),
            text_field("to", "Check-out", values.get("to", ""), errors, kind="date"),
            _guests(values, errors),
            button("Check price"),
            action=f"/stays/{stay.key}",
            novalidate=True,
        ),
        offer,
        class_="card",
    )
    return page(
        request,
        state,
        stay.name,
        el(
            "div",
            el(
                "div",
                el("div", view(stay), class_="wide"),
                el("h1", stay.name, style="margin-top:16px"),
                _summary(stay, is_named=False),
                el("p", f"Minimum stay: {stay.min_nights} night{'s' if stay.min_nights > 1 else ''}.", style="margin-top:10px"),
                [el("details", el("summary", name), el("div", text)) for name, text in accordion.items()],
                el("h2", "Availability"),
                month_table(state, stay, month),
            ),
            el("aside", aside),
            class_="split right",
        ),
    )  # fmt: skip


def month_table(state: State, stay: Stay, month: datetime.date) -> Html:
    """A calendar of the nights of a month."""
    before = (month - datetime.timedelta(1)).replace(day=1)
    after = (month + datetime.timedelta(31)).replace(day=1)
    rows = []
    for week in calendar.Calendar().monthdatescalendar(month.year, month.month):
        cells = []
        for day in week:
            is_free = state.is_free(stay, day, day + datetime.timedelta(1))
            kind = "past" if day < TODAY else "free" if is_free else "taken"
            cells.append(el("td", day.day, class_=kind) if day.month == month.month else el("td"))
        rows.append(el("tr", cells))
    names = [el("th", name) for name in ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su")]
    return el(
        "div",
        el(
            "div",
            el("a", "Previous month", href=f"/stays/{stay.key}?month={before:%Y-%m}#month") if month > TODAY else el("span"),
            el("strong", f"{month:%B %Y}", id="month"),
            el("a", "Next month", href=f"/stays/{stay.key}?month={after:%Y-%m}#month"),
            class_="spread",
        ),
        el("table", el("thead", el("tr", names)), el("tbody", rows), class_="month"),
        el("small", "Green nights are free; struck out nights are taken."),
        class_="card",
    )  # fmt: skip


def price_table(price: Price) -> Html:
    rows = [(show_date(night), f"${amount}") for night, amount in price.nights]
    rows.append(("Cleaning", f"${price.cleaning}"))
    if price.breakfast:
        rows.append(("Breakfast", f"${price.breakfast}"))
    if price.dog:
        rows.append(("Dog", f"${price.dog}"))
    rows.append(("Total", f"${price.total}"))
    return table(["Night", "Price"], rows)


def _steps(current: int) -> Html:
    names = ("1. Your details", "2. Review", "3. Done")
    items = [el("li", name, aria_current="step" if place == current else None) for place, name in enumerate(names)]
    return el("ol", items, class_="steps")


def details(
    request: web.Request, state: State, stay: Stay, values: Mapping[str, str], errors: Errors, price: Price
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
        el("div", text("phone", "Phone", hint="At least 7 digits"), choice("arrival", "Arrival time", hours, values.get("arrival", ""), errors), class_="row"),
        tick("breakfast", f"Breakfast (${BREAKFAST} a person and night)", bool(values.get("breakfast"))),
        tick("dog", f"Bring a dog (${DOG_FEE} a stay)", bool(values.get("dog"))),
        el("p", errors["dog"], class_="fault") if "dog" in errors else None,
        text_area("note", "Anything we should know?", values.get("note", ""), errors, rows=3),
        tick("terms", ["I accept the ", el("a", "terms of booking", href="/terms", target="_blank")], bool(values.get("terms"))),
        el("p", errors["terms"], class_="fault") if "terms" in errors else None,
        button("Continue"),
        class_="card",
    )  # fmt: skip
    body = [
        _steps(0),
        el("h1", f"Book {stay.name}"),
        el("div", form, el("aside", _dates_card(stay, values, price)), class_="split right"),
    ]
    return page(request, state, f"Book {stay.name}", *body)


def _dates_card(stay: Stay, values: Mapping[str, str], price: Price) -> Html:
    first, last = (datetime.date.fromisoformat(values[name]) for name in ("from", "to"))
    return el(
        "div",
        el("h3", stay.name),
        el("p", f"{show_date(first)} to {show_date(last)}, {values['guests']} guests"),
        price_table(price),
        class_="card",
    )


def review(
    request: web.Request, state: State, stay: Stay, values: Mapping[str, str], price: Price
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


def bookings(request: web.Request, state: State) -> web.Response:
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
    request: web.Request, state: State, booking: Booking, is_new: bool, values: Mapping[str, str], errors: Errors
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


HELP = {
    "When do I pay?": "On arrival, in cash or by card. We keep no card details.",
    "How do I cancel?": "Open the booking under My bookings. Until 14 days before arrival everything is paid back, "
    "until 3 days before arrival half of it, and after that nothing.",
    "May I bring a dog?": f"Where it says Dogs welcome. A dog costs ${DOG_FEE} for the whole stay; two are one too many.",
    "Is there lost property?": "Call 555 0170 between 9:00 and 12:00. We keep what we find for 60 days.",
    "Do you have cots?": "Two, for children under 3, free of charge. Please ask for one in the note.",
}


def help_page(request: web.Request, state: State) -> web.Response:
    items = [el("details", el("summary", name), el("div", text)) for name, text in HELP.items()]
    return page(request, state, "Help", el("h1", "Help"), items)


def terms(request: web.Request, state: State) -> web.Response:
    texts = (
        "Bookings are binding once confirmed.",
        "A deposit of $75 is taken on arrival and given back on departure.",
        "The person who books must be at least 21 years old.",
    )
    return page(request, state, "Terms of booking", el("h1", "Terms of booking"), [el("p", text) for text in texts])


def missing(request: web.Request, state: State) -> web.Response:
    body = [el("h1", "Page not found"), el("p", "There is no such page. ", el("a", "To the start", href="/"))]
    return page(request, state, "Page not found", *body, status=404)
