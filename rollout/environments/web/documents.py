"""Keeps documents to the task's hosts where the rest of a page may come from any public host.

The proxy sees only host and port of an https connection, so it cannot tell a page from a picture. Where it lets every
public host through, documents are therefore checked in the browser: each tab hands its document requests (pages and
frames, redirects included, nothing else) to us before they are sent. That costs a document one round trip, and other
requests nothing.

The first request of a new tab may be under way before we can ask for it. `refusal_of` is for code that finds such a tab
at a document that it may not show.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

from rollout.core.messages import JSON
from rollout.environments.web.page import PageLost, Tab
from rollout.environments.web.proxy import EgressProxy

Start = Callable[[Coroutine[Any, Any, None]], None]
"""Starts work that goes on by itself. Errors of a tab that went away meanwhile are its business."""


class DocumentRule:
    """The task's hosts, applied to the documents of one context."""

    def __init__(self, proxy: EgressProxy, start: Start) -> None:
        self._proxy = proxy
        self._start = start

    async def apply(self, tab: Tab) -> None:
        """Check every document that the tab asks for from now on. Raises PageLost where it is gone."""
        from playwright.async_api import Error

        if not self._proxy.egress.any_assets:
            return  # the proxy refuses whatever is not allowed
        tab.cdp.on("Fetch.requestPaused", lambda event: self._start(self._decide(tab, event)))
        try:
            await tab.cdp.send("Fetch.enable", {"patterns": [{"urlPattern": "http*", "resourceType": "Document"}]})
        except Error as error:
            raise PageLost(str(error)) from error

    def refusal_of(self, url: str) -> str | None:
        """Why a document may not be shown; None where it may."""
        if not self._proxy.egress.any_assets or not url.startswith(("http://", "https://")):
            return None
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return self._proxy.egress.refusal_of_document(parts.hostname or "", port)

    async def _decide(self, tab: Tab, event: JSON) -> None:
        request, url = {"requestId": event["requestId"]}, event["request"]["url"]
        refusal = self.refusal_of(url)
        if refusal is None:
            await tab.cdp.send("Fetch.continueRequest", request)
            return
        self._proxy.refuse(urlsplit(url).hostname or "", refusal)
        await tab.cdp.send("Fetch.failRequest", request | {"errorReason": "AddressUnreachable"})
