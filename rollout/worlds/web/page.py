"""One tab: our script in its document, its screenshot, its history.

The script runs in an isolated world of the document (see script.js). A new document has none yet, and a call that a
navigation overtakes fails; both are met by making the world anew and asking again, for as long as the caller waits.
"""

from __future__ import annotations

import asyncio
import base64
import functools
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from rollout.errors import WorldError
from rollout.messages import Image
from rollout.worlds.web.settings import WebSettings

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Frame, Page

WORLD = "rollout"
_encode = msgspec.json.encode


class PageLost(Exception):
    """The tab, its renderer or its browser is gone. Nothing more can be asked of it."""


@functools.cache
def _script() -> str:
    return resources.files("rollout.worlds.web").joinpath("script.js").read_text()


class Tab:
    """One page of a context."""

    def __init__(self, page: Page, cdp: CDPSession, settings: WebSettings) -> None:
        self.page = page
        self.cdp = cdp
        self.is_crashed = False
        self._settings = settings
        self._world: int | None = None
        self._frame: str | None = None
        page.on("framenavigated", self._on_navigated)
        page.on("crash", self._on_crash)

    @property
    def is_gone(self) -> bool:
        return self.is_crashed or self.page.is_closed()

    async def call(self, function: str, *arguments: Any) -> Any:
        """The value of one of the script's functions. Raises PageLost where the tab is gone."""
        from playwright.async_api import Error

        call = f"rollout.{function}({','.join(_encode(argument).decode() for argument in arguments)})"
        while True:
            try:
                # The script comes along only when the world is new.
                script = "" if self._world is not None else _script()
                world = self._world if self._world is not None else await self._enter()
                reply = await self.cdp.send(
                    "Runtime.evaluate",
                    {"contextId": world, "expression": script + call, "returnByValue": True, "awaitPromise": True},
                )
            except Error as error:
                if self.is_gone:
                    raise PageLost(str(error)) from error
                self._world = None
                await asyncio.sleep(0.01)  # there is no event for "the next document can be asked"
                continue
            if "exceptionDetails" in reply:
                details = reply["exceptionDetails"]
                text = details.get("exception", {}).get("description") or details.get("text")
                raise WorldError(f"the script in the page failed at {function}: {text}")
            return reply["result"].get("value")

    async def screenshot(self) -> Image:
        """What the window shows."""
        from playwright.async_api import Error

        kind = self._settings.image_format
        options: dict[str, Any] = {"format": kind, "optimizeForSpeed": True}
        if kind == "jpeg":
            options["quality"] = self._settings.jpeg_quality
        try:
            reply = await self.cdp.send("Page.captureScreenshot", options)
        except Error as error:
            raise PageLost(str(error)) from error
        return Image(f"image/{kind}", base64.b64decode(reply["data"]))

    async def has_history(self) -> bool:
        """Whether there is a page before this one in the tab. The empty page it began with is none."""
        history = await self.cdp.send("Page.getNavigationHistory")
        index = history["currentIndex"]
        return bool(index > 0 and history["entries"][index - 1]["url"] != "about:blank")

    async def stop_loading(self) -> None:
        """Give up what is on its way; the page stays as it is."""
        from playwright.async_api import Error

        try:
            await self.cdp.send("Page.stopLoading")
        except Error as error:
            raise PageLost(str(error)) from error

    async def mute(self) -> None:
        """Stop the script that runs and let no further dialog of this document open."""
        from playwright.async_api import Error

        for method, options in (
            ("Runtime.terminateExecution", {}),
            ("Runtime.evaluate", {"expression": "alert=()=>{};confirm=()=>true;prompt=()=>null;onbeforeunload=null"}),
        ):
            try:
                await self.cdp.send(method, options)
            except Error:
                return

    async def _enter(self) -> int:
        if self._frame is None:
            tree = await self.cdp.send("Page.getFrameTree")
            self._frame = tree["frameTree"]["frame"]["id"]
        reply = await self.cdp.send("Page.createIsolatedWorld", {"frameId": self._frame, "worldName": WORLD})
        self._world = int(reply["executionContextId"])
        return self._world

    def _on_navigated(self, frame: Frame) -> None:
        if frame.parent_frame is None:
            self._world = None

    def _on_crash(self, page: Page) -> None:
        self.is_crashed = True


async def attach(page: Page, settings: WebSettings) -> Tab:
    """A tab for a page of Playwright's. Raises PageLost where it is gone already."""
    from playwright.async_api import Error

    try:
        return Tab(page, await page.context.new_cdp_session(page), settings)
    except Error as error:
        raise PageLost(str(error)) from error
