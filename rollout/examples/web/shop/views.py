"""The pages of the shop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aiohttp import web

from rollout.examples.web.hypertext import (
    Child,
    Html,
    button,
    choice,
    el,
    pager,
    post,
    table,
    tabs,
    text_field,
    tick,
)
from rollout.examples.web.serving import Frame, take_notices
from rollout.examples.web.shop.cart import MAX_QUANTITY, ShopState, dollars
from rollout.examples.web.shop.catalogue import CATEGORIES, PAGE_SIZE, PRODUCTS, Product

FRAME = Frame("Fern & Kettle")
_HUES = {"teapots": 160, "mugs": 24, "tea": 95, "coffee": 30, "cookware": 210, "linen": 45}
_SHAPES = {
    "teapots": "M70 70q0-30 50-30t50 30q30-10 34 6-2 26-36 30-12 24-48 24t-48-24q-34 0-40-34 8-10 38-2z"
    "M110 32h20v8h-20z",
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


def page(
    state: ShopState, title: str, *body: Child, current: str = "", words: str = "", status: int = 200
) -> web.Response:
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


def home(state: ShopState) -> web.Response:
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
    state: ShopState,
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


def product_page(state: ShopState, product: Product, chosen: Mapping[str, str]) -> web.Response:
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
                el(
                    "button",
                    "−",
                    type="button",
                    class_="button quiet",
                    aria_label="Less",
                    data_steps="-1",
                    data_of="quantity",
                ),
                el("input", type="number", id="quantity", name="quantity", value="1", min="1", max=MAX_QUANTITY),
                el(
                    "button",
                    "+",
                    type="button",
                    class_="button quiet",
                    aria_label="More",
                    data_steps="1",
                    data_of="quantity",
                ),
                class_="stepper",
            ),
            class_="field",
        ),
        el("div", button("Add to cart"), class_="actions"),
    ]
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
        "Description": el("div", el("p", product.summary), el("p", care)),
        "Details": el("div", table(["Property", "Value"], list(product.facts.items()))),
        f"Reviews ({len(product.reviews)})": el("div", reviews or el("p", "Nobody has written a review yet.")),
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
        el("section", tabs(panels), style="margin-top:28px"),
        el(
            "dialog",
            el("h2", "Delivery & returns"),
            el(
                "p",
                "Standard delivery takes 3 to 5 working days and costs $4.90; it is free from $60. "
                "Express delivery takes 1 working day and costs $12.90.",
            ),
            el("p", "You may return unused goods within 45 days."),
            el("button", "Close", type="button", class_="button", data_closes=True),
            id="delivery",
            aria_label="Delivery & returns",
        ),
        current=product.category,
    )


def wishes(state: ShopState) -> web.Response:
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


def guide(state: ShopState, key: str) -> web.Response:
    title, paragraphs = GUIDES[key]
    return page(state, title, el("article", el("h1", title), [el("p", text) for text in paragraphs], class_="card"))


def missing(state: ShopState) -> web.Response:
    body = [el("h1", "Page not found"), el("p", "There is no such page. ", el("a", "Back to the shop", href="/"))]
    return page(state, "Page not found", *body, status=404)
