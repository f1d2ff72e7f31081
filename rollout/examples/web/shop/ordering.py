"""The pages of the shop on which one buys: cart, checkout, orders."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from rollout.examples.web.hypertext import Errors, Html, button, choice, el, faults, post, table, text_field, tick
from rollout.examples.web.shop.cart import MAX_QUANTITY, CartSums, Line, Order, ShopState, dollars
from rollout.examples.web.shop.views import page


def cart(state: ShopState) -> web.Response:
    if not state.lines:
        empty = el(
            "div", el("p", "Your cart is empty."), el("a", "Go shopping", href="/", class_="button"), class_="card"
        )
        return page(state, "Your cart", el("h1", "Your cart"), empty)
    rows = [
        (
            el("a", line.title, href=f"/p/{line.product.sku}"),
            dollars(line.product.price),
            post(
                f"/cart/{place}",
                el(
                    "input",
                    type="number",
                    name="quantity",
                    value=line.quantity,
                    min="0",
                    max=MAX_QUANTITY,
                    aria_label=f"Quantity of {line.title}",
                ),
                button("Update", kind="quiet small"),
            ),
            dollars(line.total),
            post(f"/cart/{place}/remove", button("Remove", kind="danger small")),
        )
        for place, line in enumerate(state.lines)
    ]
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
                el(
                    "div",
                    el("h3", "Summary"),
                    sums_table(state.sums()),
                    el("a", "Go to checkout", href="/checkout", class_="button"),
                    class_="card",
                ),
                el("div", voucher, class_="card"),
            ),
            class_="split right",
        ),
    )


def sums_table(sums: CartSums) -> Html:
    rows: list[tuple[str, str]] = [("Goods", dollars(sums.goods))]
    if sums.discount:
        rows.append(("Discount", f"−{dollars(sums.discount)}"))
    rows.append(("Delivery", dollars(sums.shipping) if sums.shipping else "Free"))
    rows.append(("Total", dollars(sums.total)))
    cells = [el("tr", el("td", name), el("td", amount, id=f"sum-{name.lower()}")) for name, amount in rows]
    return el("table", el("tbody", cells), class_="sums")


def checkout(state: ShopState, values: Mapping[str, str], errors: Errors) -> web.Response:
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
        tick(
            "terms",
            ["I accept the ", el("a", "terms", href="/guides/terms", target="_blank")],
            bool(values.get("terms")),
        ),
        el("p", errors["terms"], class_="fault") if "terms" in errors else None,
        button("Place order"),
        class_="card",
    )
    lines = [el("li", f"{line.quantity} × {line.title}: {dollars(line.total)}") for line in state.lines]
    aside = el("div", el("h3", "Your order"), el("ul", lines), sums_table(state.sums(delivery)), class_="card")
    return page(state, "Checkout", el("h1", "Checkout"), el("div", form, el("aside", aside), class_="split right"))


def orders(state: ShopState) -> web.Response:
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


def order_page(state: ShopState, order: Order, is_new: bool) -> web.Response:
    address = order.address
    facts = {
        "Status": order.status,
        "Deliver to": "{name}, {street}, {postcode} {city}, {country}".format_map(address),
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
            el(
                "aside",
                el("div", sums_table(order.sums), cancel if order.status == "Confirmed" else None, class_="card"),
            ),
            class_="split right",
        ),
    )


def _counted(line: Line) -> str:
    return f"{line.quantity} × {line.title}"
