"""The pages and forms of the shop."""

from __future__ import annotations

import re

from aiohttp import web

from rollout.examples.web.serving import Visitors, make_application, number_of, read_form, redirect
from rollout.examples.web.shop import ordering, views
from rollout.examples.web.shop.cart import MAX_QUANTITY, ShopState, matching
from rollout.examples.web.shop.catalogue import CATEGORIES, PRODUCTS, Product

_FILTERS = ("q", "min", "max", "rating", "stock", "sort")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


def make_app() -> web.Application:
    """The shop, with no visitors yet."""
    shop = Shop()
    return make_application(
        [
            ("GET", "/", shop.home),
            ("GET", "/c/{category}", shop.category),
            ("GET", "/search", shop.search),
            ("GET", "/p/{sku}", shop.product),
            ("POST", "/p/{sku}", shop.add),
            ("POST", "/p/{sku}/wish", shop.wish),
            ("GET", "/wishes", shop.wishes),
            ("GET", "/cart", shop.cart),
            ("POST", "/cart/voucher", shop.redeem),
            ("POST", "/cart/voucher/remove", shop.drop_voucher),
            ("POST", r"/cart/{place:\d+}", shop.update),
            ("POST", r"/cart/{place:\d+}/remove", shop.remove),
            ("GET", "/checkout", shop.checkout),
            ("POST", "/checkout", shop.buy),
            ("GET", "/orders", shop.orders),
            ("GET", "/orders/{number}", shop.order),
            ("POST", "/orders/{number}/cancel", shop.cancel),
            ("GET", "/guides/{guide}", shop.guide),
        ],
        "shop",
        shop.missing,
    )


class Shop:
    """Handlers, and the visitors they serve."""

    def __init__(self) -> None:
        self._visitors = Visitors(ShopState)

    async def home(self, request: web.Request) -> web.Response:
        return views.home(self._visitors.of(request))

    async def category(self, request: web.Request) -> web.Response:
        key = request.match_info["category"]
        if key not in CATEGORIES:
            return await self.missing(request)
        products = [product for product in PRODUCTS.values() if product.category == key]
        return self._list(request, CATEGORIES[key], products, key)

    async def search(self, request: web.Request) -> web.Response:
        words = request.query.get("q", "").strip()
        title = f'Results for "{words}"' if words else "All products"
        return self._list(request, title, list(PRODUCTS.values()))

    def _list(self, request: web.Request, title: str, products: list[Product], current: str = "") -> web.Response:
        wanted = {name: request.query.get(name, "").strip() for name in _FILTERS}
        if not re.fullmatch(r"\d(\.\d)?", wanted["rating"]):
            wanted["rating"] = ""
        chosen = request.query.getall("brand", [])
        among = matching(products, {"q": wanted["q"]}, [])
        brands = sorted({product.brand for product in among})
        found = matching(products, wanted, chosen)
        number = number_of(request.query.get("page", ""), 1, 1, 999)
        return views.listing(
            self._visitors.of(request), title, request.path, found, brands, chosen, wanted, number, current
        )

    async def product(self, request: web.Request) -> web.Response:
        product = PRODUCTS.get(request.match_info["sku"])
        if product is None:
            return await self.missing(request)
        return views.product_page(self._visitors.of(request), product, {})

    async def add(self, request: web.Request) -> web.Response:
        product = PRODUCTS.get(request.match_info["sku"])
        if product is None:
            return await self.missing(request)
        state = self._visitors.of(request)
        form = await read_form(request)
        chosen = {name: form.get(f"option-{name}", "") for name in product.options}
        lacking = [name for name, values in product.options.items() if chosen[name] not in values]
        quantity = number_of(form.get("quantity", ""), 0, 0, 1000)
        if lacking:
            fault: str | None = f"Please choose: {', '.join(name.lower() for name in lacking)}."
        elif not 1 <= quantity <= MAX_QUANTITY:
            fault = f"The quantity must be between 1 and {MAX_QUANTITY}."
        else:
            fault = state.add(product, ", ".join(chosen.values()), quantity)
        if fault:
            state.notices.append(("bad", fault))
            return views.product_page(state, product, chosen)
        state.notices.append(("good", f"{product.name} was added to your cart."))
        return redirect("/cart")

    async def wish(self, request: web.Request) -> web.Response:
        sku = request.match_info["sku"]
        if sku not in PRODUCTS:
            return await self.missing(request)
        wishes = self._visitors.of(request).wishes
        if sku in wishes:
            wishes.remove(sku)
        else:
            wishes.append(sku)
        return redirect(f"/p/{sku}")

    async def wishes(self, request: web.Request) -> web.Response:
        return views.wishes(self._visitors.of(request))

    # ---- the cart -----------------------------------------------------------------------------------------------

    async def cart(self, request: web.Request) -> web.Response:
        return ordering.cart(self._visitors.of(request))

    async def update(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        place = int(request.match_info["place"])
        quantity = number_of((await read_form(request)).get("quantity", ""), -1, -1, 1000)
        if place < len(state.lines):
            if not 0 <= quantity <= MAX_QUANTITY:
                state.notices.append(("bad", f"The quantity must be between 0 and {MAX_QUANTITY}."))
            elif quantity == 0:
                del state.lines[place]
            else:
                state.lines[place].quantity = quantity
                state.notices.append(("good", "Your cart was updated."))
        return redirect("/cart")

    async def remove(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        place = int(request.match_info["place"])
        if place < len(state.lines):
            line = state.lines.pop(place)
            state.notices.append(("good", f"{line.title} was removed from your cart."))
        return redirect("/cart")

    async def redeem(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        fault = state.redeem((await read_form(request)).get("code", ""))
        state.notices.append(("bad", fault) if fault else ("good", "Your voucher was redeemed."))
        return redirect("/cart")

    async def drop_voucher(self, request: web.Request) -> web.Response:
        self._visitors.of(request).voucher = None
        return redirect("/cart")

    # ---- buying -------------------------------------------------------------------------------------------------

    async def checkout(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        return ordering.checkout(state, {}, {}) if state.lines else redirect("/cart")

    async def buy(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        if not state.lines:
            return redirect("/cart")
        form = await read_form(request)
        errors = check_address(form)
        if errors:
            return ordering.checkout(state, form, errors)
        delivery = "express" if form.get("delivery") == "express" else "standard"
        order = state.order(form, delivery)
        return redirect(f"/orders/{order.number}?new=1")

    async def orders(self, request: web.Request) -> web.Response:
        return ordering.orders(self._visitors.of(request))

    async def order(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        order = next((order for order in state.orders if order.number == request.match_info["number"]), None)
        if order is None:
            return await self.missing(request)
        return ordering.order_page(state, order, "new" in request.query)

    async def cancel(self, request: web.Request) -> web.Response:
        state = self._visitors.of(request)
        for order in state.orders:
            if order.number == request.match_info["number"]:
                order.status = "Cancelled"
                state.notices.append(("good", f"The order {order.number} was cancelled."))
        return redirect(f"/orders/{request.match_info['number']}")

    async def guide(self, request: web.Request) -> web.Response:
        key = request.match_info["guide"]
        return views.guide(self._visitors.of(request), key) if key in views.GUIDES else await self.missing(request)

    async def missing(self, request: web.Request) -> web.Response:
        return views.missing(self._visitors.of(request))


def check_address(form: dict[str, str]) -> dict[str, str]:
    """What is wrong with an order's form, by field."""
    errors = {}
    if len(form.get("name", "").split()) < 2:
        errors["name"] = "Please enter your first and last name."
    if not _EMAIL.fullmatch(form.get("email", "")):
        errors["email"] = "Please enter a valid email address."
    if not form.get("street"):
        errors["street"] = "Please enter your street and number."
    if not re.fullmatch(r"\d{5}", form.get("postcode", "")):
        errors["postcode"] = "The postcode must have 5 digits."
    if not form.get("city"):
        errors["city"] = "Please enter your city."
    if not form.get("country"):
        errors["country"] = "Please choose a country."
    if not form.get("terms"):
        errors["terms"] = "Please accept the terms."
    return errors
