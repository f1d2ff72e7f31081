"""The catalogue of the shop: products.json, with prices in cents, and the vouchers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

CATEGORIES = {
    "teapots": "Teapots & Kettles",
    "mugs": "Mugs & Cups",
    "tea": "Tea",
    "coffee": "Coffee",
    "cookware": "Cookware",
    "linen": "Table Linen",
}
PAGE_SIZE = 9
FREE_SHIPPING = 6000
STANDARD_SHIPPING = 490
EXPRESS_SHIPPING = 1290


@dataclass(frozen=True)
class Review:
    author: str
    stars: int
    date: str
    text: str


@dataclass(frozen=True)
class Product:
    sku: str
    name: str
    category: str
    brand: str
    price: int
    rating: float
    ratings: int
    added: str
    summary: str
    facts: dict[str, str]
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sold_out: tuple[str, ...] = ()
    """Variants without stock; `*` is all of them."""
    was: int | None = None
    reviews: tuple[Review, ...] = ()

    def is_in_stock(self, variant: str) -> bool:
        return "*" not in self.sold_out and variant not in self.sold_out

    @property
    def is_sold_out(self) -> bool:
        return "*" in self.sold_out


@dataclass(frozen=True)
class Voucher:
    code: str
    text: str
    percent: int = 0
    free_shipping: bool = False
    minimum: int = 0


VOUCHERS = {
    voucher.code: voucher
    for voucher in (
        Voucher("WELCOME10", "10% off your order", percent=10),
        Voucher("SPRING15", "15% off orders of $80 or more", percent=15, minimum=8000),
        Voucher("SHIPFREE", "Free standard delivery", free_shipping=True),
    )
}
EXPIRED = frozenset({"WINTER20", "NEWYEAR"})

PRODUCTS: dict[str, Product] = {
    product.sku: product
    for product in msgspec.json.decode((Path(__file__).parent / "products.json").read_bytes(), type=list[Product])
}
