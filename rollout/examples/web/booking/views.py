"""The pages of the booking site."""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Mapping, Sequence

from aiohttp import web

from rollout.examples.web.booking.stays import (
    DOG_FEE,
    FACILITIES,
    PLACES,
    STAYS,
    BookingState,
    RoomPrice,
    Stay,
)
from rollout.examples.web.hypertext import (
    Child,
    Errors,
    Html,
    button,
    choice,
    el,
    faults,
    query,
    table,
    text_field,
    tick,
)
from rollout.examples.web.serving import TODAY, Frame, show_date, take_notices

FRAME = Frame("Saltmarsh Stays")
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


def page(request: web.Request, state: BookingState, title: str, *body: Child, status: int = 200) -> web.Response:
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


def home(request: web.Request, state: BookingState) -> web.Response:
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
    state: BookingState,
    values: Mapping[str, str],
    errors: Errors,
    wanted: Sequence[str],
    found: Sequence[tuple[Stay, RoomPrice | None, str]],
) -> web.Response:
    """Stays with their price for the dates, or why they cannot be had."""
    hidden = [
        el("input", type="hidden", name=name, value=values.get(name, "")) for name in ("place", "from", "to", "guests")
    ]
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
    )
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


def stays(request: web.Request, state: BookingState, found: Sequence[Stay]) -> web.Response:
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
    state: BookingState,
    stay: Stay,
    month: datetime.date,
    values: Mapping[str, str],
    errors: Errors,
    price: RoomPrice | None,
) -> web.Response:
    accordion = {
        "House rules": stay.rules,
        "Cancellation": "Free until 14 days before arrival. Half is paid back until 3 days before arrival.",
        "Prices": f"A night from Sunday to Thursday costs ${stay.price}; Friday and Saturday nights cost "
        f"${stay.weekend} more. In July and August all nights cost a quarter more. Cleaning is ${stay.cleaning}.",
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
                el(
                    "p",
                    f"Minimum stay: {stay.min_nights} night{'s' if stay.min_nights > 1 else ''}.",
                    style="margin-top:10px",
                ),
                [el("details", el("summary", name), el("div", text)) for name, text in accordion.items()],
                el("h2", "Availability"),
                month_table(state, stay, month),
            ),
            el("aside", aside),
            class_="split right",
        ),
    )


def month_table(state: BookingState, stay: Stay, month: datetime.date) -> Html:
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
            el("a", "Previous month", href=f"/stays/{stay.key}?month={before:%Y-%m}#month")
            if month > TODAY
            else el("span"),
            el("strong", f"{month:%B %Y}", id="month"),
            el("a", "Next month", href=f"/stays/{stay.key}?month={after:%Y-%m}#month"),
            class_="spread",
        ),
        el("table", el("thead", el("tr", names)), el("tbody", rows), class_="month"),
        el("small", "Green nights are free; struck out nights are taken."),
        class_="card",
    )


def price_table(price: RoomPrice) -> Html:
    rows = [(show_date(night), f"${amount}") for night, amount in price.nights]
    rows.append(("Cleaning", f"${price.cleaning}"))
    if price.breakfast:
        rows.append(("Breakfast", f"${price.breakfast}"))
    if price.dog:
        rows.append(("Dog", f"${price.dog}"))
    rows.append(("Total", f"${price.total}"))
    return table(["Night", "Price"], rows)


HELP = {
    "When do I pay?": "On arrival, in cash or by card. We keep no card details.",
    "How do I cancel?": "Open the booking under My bookings. Until 14 days before arrival everything is paid back, "
    "until 3 days before arrival half of it, and after that nothing.",
    "May I bring a dog?": f"Where it says Dogs welcome. A dog costs ${DOG_FEE} a stay; two are one too many.",
    "Is there lost property?": "Call 555 0170 between 9:00 and 12:00. We keep what we find for 60 days.",
    "Do you have cots?": "Two, for children under 3, free of charge. Please ask for one in the note.",
}


def help_page(request: web.Request, state: BookingState) -> web.Response:
    items = [el("details", el("summary", name), el("div", text)) for name, text in HELP.items()]
    return page(request, state, "Help", el("h1", "Help"), items)


def terms(request: web.Request, state: BookingState) -> web.Response:
    texts = (
        "Bookings are binding once confirmed.",
        "A deposit of $75 is taken on arrival and given back on departure.",
        "The person who books must be at least 21 years old.",
    )
    return page(request, state, "Terms of booking", el("h1", "Terms of booking"), [el("p", text) for text in texts])


def missing(request: web.Request, state: BookingState) -> web.Response:
    body = [el("h1", "Page not found"), el("p", "There is no such page. ", el("a", "To the start", href="/"))]
    return page(request, state, "Page not found", *body, status=404)
