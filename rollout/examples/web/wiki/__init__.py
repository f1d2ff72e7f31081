"""`wiki`: an encyclopedia of islands that do not exist. Articles, search, categories, history, editing."""

from rollout.examples.web.wiki.site import make_app

__all__ = ["make_app"]
