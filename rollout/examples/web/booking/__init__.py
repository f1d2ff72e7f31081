"""`booking`: houses and rooms by the sea. Dates, prices by night, a form in steps, cancelling."""

from rollout.examples.web.booking.site import make_app

__all__ = ["make_app"]
