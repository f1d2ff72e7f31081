"""`patterns`: one page for each thing that makes pages of the live web hard, from late rendering to date pickers."""

from rollout.examples.web.patterns.site import make_app

__all__ = ["make_app"]
