"""The pages of the shop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aiohttp import web

from rollout.examples.web.html import (
    Child,
    Errors,
    Html,
    button,
    choice,
    el,
    faults,
    pager,
    post,
    table,
    text_field,
    tick,
)
from rollout.examples.web.serving import Frame, take_notices
from rollout.examples.web.shop.cart import MAX_QUANTITY, Line, Order, State, Sums, dollars
from rollout.examples.web.shop.catalogue import CATEGORIES, PAGE_SIZE, PRODUCTS, Product

FRAME = Frame("Fern & Kettle")
STYLE = """
:root { --accent: #2f6f5e; --accent-soft: #e6f0ec; }
.top .strip { background: var(--accent); color: #fff; text-align: center; font-size: 13px; padding: 5px; }
.top .kinds { max-width: var(--wide); margin: 0 auto; padding: 0 20px 10px; display: flex; gap: 22px; }
.top .kinds a { text-decoration: none; color: var(--quiet); font-weight: 600; font-size: 14px; }
.top .kinds a:hover, .top .kinds a[aria-current] { color: var(--accent); }
.hero { background: linear-gradient(100deg, #dcebe3, #f3efe2); border-radius: 14px; padding: 34px 40px; margin: 0 0 24px; }
.hero h1 { font-size: 32px; max-width: 480px; }
.goods .card { padding: 0; overflow: hidden; margin: 0; display: flex; flex-direction: column; }
.goods .card > div { padding: 12px 16px 16px; } .goods .card h3 a { color: var(--ink); text-decoration: none; }
.goods .card h3 a:hover { color: var(--accent); }
.picture { display: block; width: 100%; height: 130px; } .big .picture { height: 380px; border-radius: 12px; }
.grid.four { grid-template-columns: repeat(4, 1fr); }
.stepper { display: flex; gap: 6px; width: 170px; } .stepper input { text-align: center; } .stepper button { width: 44px; }
.sums td { border: 0; padding: 4px 0; } .sums { background: none; } .sums tr:last-child td { border-top: 1px solid var(--line); font-weight: 700; font-size: 18px; padding-top: 10px; }
.sums td:last-child { text-align: right; } .cart input[type=number] { width: 70px; } .cart form { display: flex; gap: 8px; }
"""
_HUES = {"teapots": 160, "mugs": 24, "tea": 95, "coffee": 30, "cookware": 210, "linen": 45}
_SHAPES = {
    "teapots": "M70 70q0-30 50-30t50 30q30-10 34 6-2 26-36 30-12 24-48 24t-48-24q-34 0-40-34 8-10 38-2zM110 32h20v8h-20z",
    "mugs": "M80 40h70v70q0 14-14 14H94q-14 0-14-14zM150 54q34-4 34 24t-34 26v-12q20 0 20-14t-20-12z",
    "tea": "M78 44h84l8 82H70zM92 30h56v10H92zM120 64q26 14 0 46-26-32 0-46z",
    "coffee": "M84 40h72l-6 90H90zM80 28h80v10H80zM120 62q18 22 0 46-18-24 0-46z",
    "cookware": "M60 64h110v36q0 26-26 26H86q-26 0-26-26zM170 70h56v12h-56zM56 52h118v8H56z",
    "linen": "M70 36h100v96l-20-10-30 10-30-10-20 10zM70 56h100v4H70zM70 68h100v4H70z",
}


def picture(product: Product) -> Html:
    """A drawing of a product in a colour of its own."""
    hue = (_HUES[product.category] + sum(map(ord, product.sku)) * 7) % 360
    return el(
        "svg",
        el("rect", width="240", height="160", fill=f"hsl({hue} 32% 90%)"),
        el("path", d=_SHAPES[product.category], fill=f"hsl({hue} 34% 42%)"),
        viewBox="0 0 240 160",
        preserveAspectRatio="xMidYMid slice",
        class_="picture",
        role="img",
        aria_label=product.name,
    )


def page(state: State, title: str, *body: Child, current: str = "", words: str = "", status: int = 200) -> web.Response:
    """A page of the shop with what happened last on top."""
    header = [
        el("div", "Free standard delivery on orders of $60 or more", class_="strip"),
        el(
            "div",
            el("a", "Fern & Kettle", href="/", class_="brand"),
            el(
                "form",
                el("input", type="search", name="q", value=words, placeholder="Search products", aria_label="Search"),
                button("Search"),
                action="/search",
                class_="search",
                role="search",
            ),
            el(
                "nav",
                el("a", f"Wish list ({len(state.wishes)})", href="/wishes"),
                el("a", "Orders", href="/orders"),
                el("a", f"Cart ({state.count})", href="/cart"),
            ),
            class_="bar",
        ),
        el(
            "nav",
            [
                el("a", name, href=f"/c/{key}", aria_current="page" if key == current else None)
                for key, name in CATEGORIES.items()
            ],
            class_="kinds",
            aria_label="Categories",
        ),
    ]
    footer = [
        "Fern & Kettle, 12 Harbour Lane",
        el("a", "Delivery", href="/guides/delivery"),
        el("a", "Returns", href="/guides/returns"),
        el("a", "Care guide", href="/guides/care", target="_blank"),
    ]
    return FRAME.page(title, take_notices(state.notices), *body, header=header, footer=footer, status=status)


def stars(product: Product) -> Html:
    return el(
        "span", el("span", "★ ", class_="stars"), f"{product.rating:.1f} ", el("small", f"({product.ratings} ratings)")
    )


def price(product: Product) -> Html:
    was = el("span", dollars(product.was), class_="was") if product.was else None
    return el("span", el("span", dollars(product.price), class_="price"), " ", was)


def cards(products: Sequence[Product], columns: str = "grid") -> Html:
    return el(
        "div",
        [
            el(
                "article",
                picture(product),
                el(
                    "div",
                    el("h3", el("a", product.name, href=f"/p/{product.sku}")),
                    el("div", product.brand, class_="quiet"),
                    el("div", stars(product)),
                    el(
                        "div",
                        price(product),
                        el("span", "Sold out", class_="tag bad") if product.is_sold_out else None,
                        class_="spread",
                    ),
                ),
                class_="card",
            )
            for product in products
        ],
        class_=f"{columns} goods",
    )


def home(state: State) -> web.Response:
    newest = sorted(PRODUCTS.values(), key=lambda product: product.added, reverse=True)[:4]
    reduced = [product for product in PRODUCTS.values() if product.was]
    return page(
        state,
        "",
        el(
            "section",
            el("h1", "Good things for slow mornings"),
            el("p", "Teapots, cups, coffee and the cloth to put them on. New customers get 10% off with WELCOME10."),
            el("a", "Shop teapots", href="/c/teapots", class_="button"),
            class_="hero",
        ),
        el("h2", "New arrivals"),
        cards(newest, "grid four"),
        el("h2", "Reduced"),
        cards(reduced, "grid four"),
    )


def listing(
    state: State,
    title: str,
    path: str,
    found: Sequence[Product],
    brands: Sequence[str],
    chosen: Sequence[str],
    wanted: Mapping[str, str],
    number: int,
    current: str = "",
) -> web.Response:
    """Products with filters beside them."""
    filters = el(
        "form",
        el("h3", "Filter"),
        el("input", type="hidden", name="q", value=wanted["q"]) if wanted.get("q") else None,
        el(
            "div",
            el("strong", "Brand"),
            [tick("brand", brand, brand in chosen, value=brand) for brand in brands],
            class_="field",
        ),
        el(
            "div",
            text_field("min", "From $", wanted.get("min", ""), inputmode="decimal"),
            text_field("max", "To $", wanted.get("max", ""), inputmode="decimal"),
            class_="row narrow",
        ),
        choice(
            "rating",
            "Customer rating",
            [("", "Any"), ("4", "4.0 and up"), ("4.5", "4.5 and up"), ("4.7", "4.7 and up")],
            wanted.get("rating", ""),
        ),
        tick("stock", "In stock only", bool(wanted.get("stock"))),
        choice(
            "sort",
            "Sort by",
            [
                ("", "Featured"),
                ("price", "Price: low to high"),
                ("price-down", "Price: high to low"),
                ("rating", "Customer rating"),
                ("reviews", "Most rated"),
                ("newest", "Newest"),
            ],
            wanted.get("sort", ""),
        ),
        el("div", button("Apply"), el("a", "Clear all", href=path), class_="actions"),
        action=path,
        class_="card",
    )
    pages = max(1, -(-len(found) // PAGE_SIZE))
    number = min(number, pages)
    shown = found[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
    address = {"": path, **wanted}
    results: list[Child] = [
        el("h1", title),
        el("p", f"{len(found)} product{'' if len(found) == 1 else 's'}", class_="quiet"),
    ]
    if shown:
        results += [cards(shown), pager(number, pages, address)]
    else:
        results.append(el("div", "Nothing fits. Try fewer filters or another word.", class_="notice note"))
    body = el("div", el("aside", filters), el("div", results), class_="split")
    return page(state, title, body, current=current, words=wanted.get("q", ""))


def product_page(state: State, product: Product, chosen: Mapping[str, str]) -> web.Response:
    options = [
        choice(f"option-{name}", name, [("", "Choose…"), *((value, value) for value in values)], chosen.get(name, ""))
        for name, values in product.options.items()
    ]
    buying: Child = [
        options,
        el(
            "div",
            el("label", "Quantity", for_="quantity"),
            el(
                "div",
                el("button", "−", type="button", class_="button quiet", aria_label="Less", data_steps="-1", data_of="quantity"),
                el("input", type="number", id="quantity", name="quantity", value="1", min="1", max=MAX_QUANTITY),
                el("button", "+", type="button", class_="button quiet", aria_label="More", data_steps="1", data_of="quantity"),
                class_="stepper",
            ),
            class_="field",
        ),
        el("div", button("Add to cart"), class_="actions"),
    ]  # fmt: skip
    sold_out = el("div", "This product is sold out at the moment.", class_="notice note")
    wish = "Remove from wish list" if product.sku in state.wishes else "Add to wish list"
    head = el(
        "div",
        el("div", picture(product), class_="big"),
        el(
            "div",
            el("h1", product.name),
            el("p", f"{product.brand} · {product.sku} · ", stars(product)),
            el("p", price(product)),
            el("p", product.summary),
            sold_out if product.is_sold_out else post(f"/p/{product.sku}", buying),
            el(
                "div",
                post(f"/p/{product.sku}/wish", button(wish, kind="quiet small")),
                el("button", "Delivery & returns", type="button", class_="button quiet small", data_opens="delivery"),
                class_="actions",
                style="margin-top:12px",
            ),
        ),
        class_="split even",
    )
    tabs = [("description", "Description"), ("details", "Details"), ("reviews", f"Reviews ({len(product.reviews)})")]
    reviews = [
        el(
            "div",
            el("strong", "★" * review.stars + "☆" * (5 - review.stars), class_="stars"),
            f" {review.author}, {review.date}",
            el("p", review.text),
            class_="card",
        )
        for review in product.reviews
    ]
    care = el("a", "Read our care guide", href="/guides/care", target="_blank")
    panels = {
        "description": el("div", el("p", product.summary), el("p", care)),
        "details": el("div", table(["Property", "Value"], list(product.facts.items()))),
        "reviews": el("div", reviews or el("p", "Nobody has written a review yet.")),
    }
    return page(
        state,
        product.name,
        el(
            "div",
            [
                el("a", "Home", href="/"),
                " / ",
                el("a", CATEGORIES[product.category], href=f"/c/{product.category}"),
                f" / {product.name}",
            ],
            class_="crumbs",
        ),
        head,
        el("section", tab_list(tabs), [_panel(key, panels[key], key == "description") for key, _ in tabs], style="margin-top:28px"),
        el(
            "dialog",
            el("h2", "Delivery & returns"),
            el("p", "Standard delivery takes 3 to 5 working days and costs $4.90; it is free from $60. Express delivery takes 1 working day and costs $12.90."),
            el("p", "You may return unused goods within 45 days."),
            el("button", "Close", type="button", class_="button", data_closes=True),
            id="delivery",
            aria_label="Delivery & returns",
        ),
        current=product.category,
    )  # fmt: skip


def tab_list(tabs: Sequence[tuple[str, str]]) -> Html:
    return el(
        "div",
        [
            el(
                "button",
                label,
                type="button",
                role="tab",
                id=f"tab-{key}",
                aria_controls=f"panel-{key}",
                aria_selected="true" if place == 0 else "false",
            )
            for place, (key, label) in enumerate(tabs)
        ],
        class_="tabs",
        role="tablist",
    )


def _panel(key: str, body: Html, is_open: bool) -> Html:
    return el("div", body, role="tabpanel", id=f"panel-{key}", aria_labelledby=f"tab-{key}", hidden=not is_open)


def cart(state: State) -> web.Response:
    if not state.lines:
        empty = el("div", el("p", "Your cart is empty."), el("a", "Go shopping", href="/", class_="button"), class_="card")
        return page(state, "Your cart", el("h1", "Your cart"), empty)
    rows = [
        (
            el("a", line.title, href=f"/p/{line.product.sku}"),
            dollars(line.product.price),
            post(
                f"/cart/{place}",
                el("input", type="number", name="quantity", value=line.quantity, min="0", max=MAX_QUANTITY,
                   aria_label=f"Quantity of {line.title}"),
                button("Update", kind="quiet small"),
            ),
            dollars(line.total),
            post(f"/cart/{place}/remove", button("Remove", kind="danger small")),
        )
        for place, line in enumerate(state.lines)
    ]  # fmt: skip
    voucher = (
        post(
            "/cart/voucher/remove",
            el("p", el("span", state.voucher.code, class_="tag good"), " ", state.voucher.text),
            button("Remove voucher", kind="quiet small"),
        )
        if state.voucher
        else post("/cart/voucher", text_field("code", "Voucher code"), button("Redeem", kind="quiet"))
    )
    return page(
        state,
        "Your cart",
        el("h1", "Your cart"),
        el(
            "div",
            el("div", table(["Product", "Price", "Quantity", "Sum", ""], rows), class_="cart"),
            el(
                "aside",
                el("div", el("h3", "Summary"), sums_table(state.sums()), el("a", "Go to checkout", href="/checkout", class_="button"), class_="card"),
                el("div", voucher, class_="card"),
            ),
            class_="split right",
        ),
    )  # fmt: skip


def sums_table(sums: Sums) -> Html:
    rows: list[tuple[str, str]] = [("Goods", dollars(sums.goods))]
    if sums.discount:
        rows.append(("Discount", f"−{dollars(sums.discount)}"))
    rows.append(("Delivery", dollars(sums.shipping) if sums.shipping else "Free"))
    rows.append(("Total", dollars(sums.total)))
    cells = [el("tr", el("td", name), el("td", amount, id=f"sum-{name.lower()}")) for name, amount in rows]
    return el("table", el("tbody", cells), class_="sums")


def checkout(state: State, values: Mapping[str, str], errors: Errors) -> web.Response:
    def text(name: str, label: str, **more: str) -> Html:
        return text_field(name, label, values.get(name, ""), errors, **more)

    delivery = values.get("delivery", "standard")
    form = post(
        "/checkout",
        faults(errors),
        el("h2", "Delivery address", style="margin-top:0"),
        el("div", text("name", "Full name"), text("email", "Email"), class_="row"),
        text("street", "Street and number"),
        el("div", text("postcode", "Postcode", hint="5 digits"), text("city", "City"), class_="row"),
        choice(
            "country",
            "Country",
            [("", "Choose…"), *((name, name) for name in ("Canada", "Ireland", "United Kingdom", "United States"))],
            values.get("country", ""),
            errors,
        ),
        el("h2", "Delivery"),
        tick("delivery", "Standard, 3 to 5 working days", delivery == "standard", value="standard", kind="radio"),
        tick("delivery", "Express, next working day", delivery == "express", value="express", kind="radio"),
        text("note", "Note for the courier"),
        tick("gift", "Wrap as a gift (free)", bool(values.get("gift"))),
        tick("terms", ["I accept the ", el("a", "terms", href="/guides/terms", target="_blank")], bool(values.get("terms"))),
        el("p", errors["terms"], class_="fault") if "terms" in errors else None,
        button("Place order"),
        class_="card",
    )  # fmt: skip
    lines = [el("li", f"{line.quantity} × {line.title}: {dollars(line.total)}") for line in state.lines]
    aside = el("div", el("h3", "Your order"), el("ul", lines), sums_table(state.sums(delivery)), class_="card")
    return page(state, "Checkout", el("h1", "Checkout"), el("div", form, el("aside", aside), class_="split right"))


def orders(state: State) -> web.Response:
    rows = [
        (
            el("a", order.number, href=f"/orders/{order.number}"),
            ", ".join(_counted(line) for line in order.lines),
            dollars(order.sums.total),
            el("span", order.status, class_="tag bad" if order.status == "Cancelled" else "tag good"),
        )
        for order in state.orders
    ]
    body = table(["Order", "Goods", "Total", "Status"], rows) if rows else el("p", "You have not ordered anything yet.")
    return page(state, "Your orders", el("h1", "Your orders"), body)


def order_page(state: State, order: Order, is_new: bool) -> web.Response:
    address = order.address
    facts = {
        "Status": order.status,
        "Deliver to": f"{address['name']}, {address['street']}, {address['postcode']} {address['city']}, {address['country']}",
        "Email": address["email"],
        "Delivery": order.delivery.capitalize(),
        "Gift wrap": "Yes" if address.get("gift") else "No",
        "Note": address.get("note") or "None",
    }
    thanks = el("div", f"Thank you! Your order {order.number} is confirmed.", class_="notice good", role="status")
    cancel = post(
        f"/orders/{order.number}/cancel",
        button("Cancel order", kind="danger"),
        confirm=f"Cancel the order {order.number}? This cannot be undone.",
    )
    return page(
        state,
        f"Order {order.number}",
        thanks if is_new else None,
        el("h1", f"Order {order.number}"),
        el(
            "div",
            el(
                "div",
                el("dl", [[el("dt", name), el("dd", value)] for name, value in facts.items()], class_="facts"),
                table(["Goods", "Sum"], [(_counted(line), dollars(line.total)) for line in order.lines]),
                class_="card",
            ),
            el("aside", el("div", sums_table(order.sums), cancel if order.status == "Confirmed" else None, class_="card")),
            class_="split right",
        ),
    )  # fmt: skip


def wishes(state: State) -> web.Response:
    products = [PRODUCTS[sku] for sku in state.wishes]
    body = cards(products, "grid four") if products else el("p", "Your wish list is empty.")
    return page(state, "Your wish list", el("h1", "Your wish list"), body)


GUIDES: dict[str, tuple[str, Sequence[str]]] = {
    "care": (
        "Care guide",
        (
            "Cast iron: wash with hot water and no soap, dry at once, and rub with a little oil.",
            "Stoneware: dishwasher safe up to 65 °C. Let it cool before you rinse it.",
            "Olive wood: wash by hand and oil it every three months.",
            "Linen: wash at 40 °C, hang while wet, do not tumble dry.",
        ),
    ),
    "delivery": (
        "Delivery",
        (
            "Standard delivery takes 3 to 5 working days and costs $4.90. It is free for orders of $60 or more.",
            "Express delivery takes 1 working day and costs $12.90. Orders placed before 14:00 leave the same day.",
            "We deliver to Canada, Ireland, the United Kingdom and the United States.",
        ),
    ),
    "returns": (
        "Returns",
        (
            "You may return unused goods within 45 days. Returns cost $3.50, which we keep from the refund.",
            "Opened tea and coffee cannot be returned.",
        ),
    ),
    "terms": ("Terms", ("Orders are binding once confirmed. They may be cancelled until they leave our warehouse.",)),
}


def guide(state: State, key: str) -> web.Response:
    title, paragraphs = GUIDES[key]
    return page(state, title, el("article", el("h1", title), [el("p", text) for text in paragraphs], class_="card"))


def missing(state: State) -> web.Response:
    body = [el("h1", "Page not found"), el("p", "There is no such page. ", el("a", "Back to the shop", href="/"))]
    return page(state, "Page not found", *body, status=404)


def _counted(line: Line) -> str:
    return f"{line.quantity} × {line.title}"
