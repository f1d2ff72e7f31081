"""`shop`: a shop for kitchen things. Catalogue, search, filters, options, cart, vouchers, checkout, orders."""

from rollout.examples.web.shop.site import make_app

__all__ = ["make_app"]
