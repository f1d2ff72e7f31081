"""`tracker`: the issues of a small software team. Sign-in, a board, filters, comments, changes of status, settings."""

from rollout.examples.web.tracker.site import make_app

__all__ = ["make_app"]
