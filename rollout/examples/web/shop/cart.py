"""State of a visitor of the shop: a cart with its sums, orders, and the message for the next page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rollout.examples.web.shop.catalogue import (
    EXPIRED,
    EXPRESS_SHIPPING,
    FREE_SHIPPING,
    STANDARD_SHIPPING,
    VOUCHERS,
    Product,
    Voucher,
)

MAX_QUANTITY = 10
MAX_LINES = 50
FIRST_ORDER = 20431


@dataclass
class Line:
    product: Product
    variant: str
    quantity: int

    @property
    def total(self) -> int:
        return self.product.price * self.quantity

    @property
    def title(self) -> str:
        return f"{self.product.name} ({self.variant})" if self.variant else self.product.name


@dataclass(frozen=True)
class CartSums:
    goods: int
    discount: int
    shipping: int

    @property
    def total(self) -> int:
        return self.goods - self.discount + self.shipping


@dataclass
class Order:
    number: str
    lines: tuple[Line, ...]
    sums: CartSums
    address: dict[str, str]
    delivery: str
    status: str = "Confirmed"


@dataclass
class ShopState:
    lines: list[Line] = field(default_factory=list)
    voucher: Voucher | None = None
    orders: list[Order] = field(default_factory=list)
    wishes: list[str] = field(default_factory=list)
    notices: list[tuple[str, str]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(line.quantity for line in self.lines)

    def add(self, product: Product, variant: str, quantity: int) -> str | None:
        """Put something into the cart; what is wrong with it where it cannot be."""
        if not product.is_in_stock(variant):
            return f"Sorry, {product.name}{f' in {variant}' if variant else ''} is out of stock."
        line = next((line for line in self.lines if line.product is product and line.variant == variant), None)
        if quantity + (line.quantity if line else 0) > MAX_QUANTITY:
            return f"You can order at most {MAX_QUANTITY} of one item."
        if line:
            line.quantity += quantity
        elif len(self.lines) < MAX_LINES:
            self.lines.append(Line(product, variant, quantity))
        return None

    def redeem(self, code: str) -> str | None:
        """Use a voucher; why not where it cannot be used."""
        voucher = VOUCHERS.get(code.upper())
        if code.upper() in EXPIRED:
            return f"The voucher {code.upper()} has expired."
        if voucher is None:
            return f"The voucher {code!r} is not known."
        goods = sum(line.total for line in self.lines)
        if goods < voucher.minimum:
            return f"{voucher.code} needs an order of {dollars(voucher.minimum)} or more."
        self.voucher = voucher
        return None

    def sums(self, delivery: str = "standard") -> CartSums:
        """What the cart costs."""
        goods = sum(line.total for line in self.lines)
        voucher = self.voucher if self.voucher and goods >= self.voucher.minimum else None
        discount = (goods * voucher.percent + 50) // 100 if voucher else 0
        shipping = EXPRESS_SHIPPING if delivery == "express" else STANDARD_SHIPPING
        is_free = goods - discount >= FREE_SHIPPING or (voucher is not None and voucher.free_shipping)
        if not self.lines or (is_free and delivery == "standard"):
            shipping = 0
        return CartSums(goods, discount, shipping)

    def order(self, address: dict[str, str], delivery: str) -> Order:
        """Buy what is in the cart."""
        number = f"FK-{FIRST_ORDER + len(self.orders)}"
        order = Order(number, tuple(self.lines), self.sums(delivery), address, delivery)
        self.orders.append(order)
        self.lines, self.voucher = [], None
        return order


def dollars(cents: int) -> str:
    """An amount of money as people read it."""
    return f"${cents / 100:,.2f}"


def matching(products: Sequence[Product], wanted: dict[str, str], brands: Sequence[str]) -> list[Product]:
    """The products that fit a search and its filters, in the order asked for."""
    words = wanted.get("q", "").lower().split()
    found = [
        product
        for product in products
        if all(word in f"{product.name} {product.brand} {product.summary}".lower() for word in words)
        and (not brands or product.brand in brands)
        and _cents(wanted.get("min", ""), 0) <= product.price <= _cents(wanted.get("max", ""), 10**9)
        and product.rating >= float(wanted.get("rating") or 0)
        and not (wanted.get("stock") and product.is_sold_out)
    ]
    orders = {
        "price": lambda product: product.price,
        "price-down": lambda product: -product.price,
        "rating": lambda product: -product.rating,
        "reviews": lambda product: -product.ratings,
    }
    if wanted.get("sort") == "newest":
        found.sort(key=lambda product: product.added, reverse=True)
    elif wanted.get("sort") in orders:
        found.sort(key=orders[wanted["sort"]])
    return found


def _cents(text: str, default: int) -> int:
    try:
        return round(float(text.lstrip("$")) * 100)
    except ValueError:
        return default
