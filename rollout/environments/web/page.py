"""One tab: our script in its document, its screenshot, its history.

The script (script.js and the files of `in_page`) runs in an isolated world of the document. A new document has none
yet, and a call that a navigation overtakes fails; in both cases the world is made again and the call repeated, for as
long as the caller waits. Frames of the page's own origin are seen from the page. A frame of another origin is asked by
itself, and its elements are numbered behind the others.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import re
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from rollout.config.browsing import WebSettings
from rollout.core.errors import WorldError
from rollout.core.messages import JSON, Image
from rollout.core.secrets import excerpt
from rollout.environments.web.settling import settle_script

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Frame, Page

WORLD = "rollout"
_encode = msgspec.json.encode


MAX_FOREIGN = 6
KEY_EVENTS = frozenset({"keydown", "keypress", "keyup", "input", "beforeinput", "textInput"})
_FOCUS_PATH = """(() => {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  if (!at || /^I?FRAME$/.test(at.tagName)) throw new Error('in a frame');
  const path = [];
  for (; at; at = at.parentNode || at.host) path.push(at);
  return [...path, window];
})()"""


class ForeignFrame(msgspec.Struct, frozen=True):
    """A frame of another origin, as it was last observed."""

    id: str
    world: int
    first: int
    count: int
    """Its elements have the numbers from first + 1 to first + count. A further part of them is a further entry."""


class PageLost(Exception):
    """The tab, its renderer or its browser is gone. It cannot be used any more."""


PARTS = ("names", "geometry", "listing", "tree", "marks", "acting", "state")


@functools.cache
def _script() -> str:
    """The files as the body of one function, which does nothing where it has run before."""
    package = resources.files("rollout.environments.web")
    files = ["script.js", *(f"in_page/{part}.js" for part in PARTS)]
    body = "\n".join(package.joinpath(name).read_text() for name in files)
    script = settle_script() + f"(() => {{\n  if (globalThis.rollout) return;\n{body}\n}})();\n"
    # Every new document parses it: without comments and indentation that takes a fifth less.
    return re.sub(r"^\s*(//.*\s+)*", "", script, flags=re.MULTILINE)


class Tab:
    """One page of a context."""

    def __init__(self, page: Page, cdp: CDPSession, settings: WebSettings) -> None:
        self.page = page
        self.cdp = cdp
        self.is_crashed = False
        self._settings = settings
        self._world: int | None = None
        self._frame: str | None = None
        self._foreign: list[ForeignFrame] = []
        self._document = 0
        """How many documents there were before this one."""
        self.numbered = 0
        """The highest number of an element in the last observation."""
        page.on("framenavigated", self._on_navigated)
        page.on("crash", self._on_crash)

    @property
    def is_gone(self) -> bool:
        return self.is_crashed or self.page.is_closed()

    async def call(self, function: str, *arguments: Any) -> Any:
        """The value of one of the script's functions. Raises PageLost where the tab is gone."""
        from playwright.async_api import Error

        call = _call(function, *arguments)
        while True:
            try:
                # The script comes along only when the world is new.
                script = "" if self._world is not None else _script()
                world = self._world if self._world is not None else await self._enter()
                return await self._evaluate(world, script + call)
            except Error as error:
                if self.is_gone:
                    raise PageLost(str(error)) from error
                self._world = None
                await asyncio.sleep(0.01)  # there is no event for "the next document can be asked"

    async def call_at(self, function: str, place: JSON, *arguments: Any) -> Any:
        """`call` for a place: a point, or an element of the last observation, in whichever frame it is."""
        frame = self._frame_of(place.get("element", 0))
        if frame is None:
            return await self.call(function, place, *arguments)
        from playwright.async_api import Error

        try:
            found = await self._evaluate(frame.world, _call(function, place, *arguments))
            if "x" in found:
                x, y = await self._offset(frame.id) or (0, 0)
                found |= {"x": found["x"] + x, "y": found["y"] + y}
        except Error as error:
            if self.is_gone:
                raise PageLost(str(error)) from error
            return {"fault": "gone"}
        return found

    async def observe(self, options: JSON) -> JSON:
        """What the document says of itself, foreign frames included. With `isNext` the next part of what was listed,
        whose numbers follow those before."""
        # In the tree an element keeps its number for as long as its document is there: the script itself remembers
        # how far it came, and is given which numbers its frames have.
        is_tree = options["mode"] == "accessibility_tree"
        is_next = options.get("isNext", False)
        while True:
            document = self._document
            first = self._numbered_in_frames() if is_tree else self.numbered if is_next else 0
            seen: JSON = await self.call("observe", options | {"first": first})
            if not is_tree or document == self._document:
                break
        if options["mode"] == "none":
            return seen
        if not is_tree and not is_next:
            self._foreign = []
        self.numbered = max(seen["numbered"], self._numbered_in_frames())
        if seen["foreign"] or self._foreign:
            await self._observe_foreign(seen, options)
        return seen

    async def scroll(self, x: float, y: float, across: float, down: float) -> bool:
        """Scroll what lies at a point, or what holds it, by a multiple of its own size. False where nothing scrolls."""
        from playwright.async_api import Error

        has_scrolled = await self.call("scroll", x, y, across, down)
        if has_scrolled is None:
            frames = [each async for each in self._foreign_frames()]
            for _, world, left, top in reversed(frames):  # the innermost first
                with contextlib.suppress(Error):
                    if await self._evaluate(world, _call("scroll", x - left, y - top, across, down, True)):
                        return True
            has_scrolled = await self.call("scroll", x, y, across, down, True)
        return bool(has_scrolled)

    def _numbered_in_frames(self) -> int:
        return max((frame.first + frame.count for frame in self._foreign), default=0)

    async def full_text(self) -> str:
        """All that the page has to read, in sight or not, with its frames."""
        texts = [await self.call("fullText"), *await self._ask_foreign("fullText")]
        return "\n".join(filter(None, texts))

    async def has_more(self) -> bool:
        """Whether the last observation left out elements or text that `isNext` would show."""
        return bool(await self.call("hasMore") or any(await self._ask_foreign("hasMore")))

    async def clear(self) -> bool:
        """Take the numbers off the page. True where elements have moved since they were numbered."""
        return any([await self.call("clear"), *await self._ask_foreign("clear")])

    async def digest(self) -> str:
        """A hash of what the document says."""
        return ",".join([await self.call("digest"), *await self._ask_foreign("digest")])

    async def watch_windows(self, opened: Callable[[], None]) -> None:
        """Call `opened` whenever the page opens a window, which is before the browser has made a tab for it. Raises
        PageLost where the tab is gone."""
        from playwright.async_api import Error

        def hear(event: JSON) -> None:
            if not event["url"].startswith("data:"):  # never opened
                opened()

        self.cdp.on("Page.windowOpen", hear)
        try:
            await self.cdp.send("Page.enable")
        except Error as error:
            raise PageLost(str(error)) from error

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

    async def listens_to_keys(self) -> bool:
        """Whether the page listens to keys or input of the focused field, there or further out. Also True where that
        is unknown: in a frame."""
        from playwright.async_api import Error

        try:
            reply = await self.cdp.send("Runtime.evaluate", {"expression": _FOCUS_PATH})
            path = await self.cdp.send(
                "Runtime.getProperties", {"objectId": reply["result"]["objectId"], "ownProperties": True}
            )
            nodes = [entry["value"]["objectId"] for entry in path["result"] if "objectId" in entry.get("value", {})]
            asked = [self.cdp.send("DOMDebugger.getEventListeners", {"objectId": node}) for node in nodes]
            replies = await asyncio.gather(*asked)
        except (Error, KeyError):
            if self.is_gone:
                raise PageLost("the tab is gone") from None
            return True
        kinds = {listener["type"] for reply in replies for listener in reply["listeners"]}
        return not kinds.isdisjoint(KEY_EVENTS)

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

    async def check_alive(self) -> None:
        """Raise PageLost where the browser does not know the tab any more."""
        from playwright.async_api import Error

        try:
            await self.cdp.send("Target.getTargetInfo")
        except Error as error:
            raise PageLost(str(error)) from error

    async def answers(self, seconds: float) -> bool:
        """Whether the page's thread is free to answer within this many seconds."""
        from playwright.async_api import Error

        try:
            async with asyncio.timeout(seconds):
                await self.cdp.send("Runtime.evaluate", {"expression": "0"})
        except (Error, TimeoutError):
            return False
        return True

    async def stop_script(self, seconds: float) -> None:
        """Stop the script that keeps the page busy. A page that cannot be reached in this many seconds stays as it
        is."""
        from playwright.async_api import Error

        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(seconds):
                await self.cdp.send("Runtime.terminateExecution")

    # ---- scripts that are not ours ------------------------------------------------------------------------------

    async def run(self, program: str, seconds: float) -> Any:
        """The value of a program in the page's main world, as JSON. Raises WorldError where it fails or is stopped
        because it computes longer than `seconds`; waiting for a promise is the caller's to bound."""
        from playwright.async_api import Error

        options = {
            "expression": program,
            "returnByValue": True,
            "awaitPromise": True,
            "userGesture": False,
            "timeout": seconds * 1e3,
        }
        try:
            reply = await self.cdp.send("Runtime.evaluate", options)
        except Error as error:
            if self.is_gone:
                raise PageLost(str(error)) from error
            raise WorldError(f"the script failed: {excerpt(error.message.partition(chr(10))[0], 300)}") from error
        if "exceptionDetails" in reply:
            raise WorldError(f"the script failed: {_failure(reply)}")
        return reply["result"].get("value")

    # ---- frames of other origins --------------------------------------------------------------------------------

    async def _observe_foreign(self, seen: JSON, options: JSON) -> None:
        from playwright.async_api import Error

        asked = 0
        async for frame, world, left, top in self._foreign_frames():
            if asked == MAX_FOREIGN:
                seen["isCut"] = True
                return
            # A frame that goes away meanwhile is none.
            with contextlib.suppress(Error):
                asked += 1
                first = self.numbered
                # The page has waited for its frames to load already, as long as it may.
                told = options | {"first": first, "x": left, "y": top, "load": 0}
                inner = await self._evaluate(world, _call("observe", told))
                self.numbered = max(first, inner["numbered"])
                self._foreign.append(ForeignFrame(frame, world, first, self.numbered - first))
                _add_frame(seen, inner, is_list=options["mode"] == "set_of_marks")

    async def _foreign_frames(self) -> AsyncIterator[tuple[str, int, float, float]]:
        """Frames of other origins that are shown, outer ones first: id, world, and where the content lies."""
        from playwright.async_api import Error

        tree = await self.cdp.send("Page.getFrameTree")
        for frame in _descendants(tree["frameTree"]):
            # A frame that goes away meanwhile is none.
            with contextlib.suppress(Error):
                entered = {"frameId": frame, "worldName": WORLD}
                world = int((await self.cdp.send("Page.createIsolatedWorld", entered))["executionContextId"])
                if not await self._evaluate(world, _script() + _call("isForeign")):
                    continue
                offset = await self._offset(frame)
                if offset is not None:
                    yield frame, world, *offset

    async def _ask_foreign(self, function: str) -> list[Any]:
        from playwright.async_api import Error

        told = []
        for world in dict.fromkeys(frame.world for frame in self._foreign):
            with contextlib.suppress(Error):
                told.append(await self._evaluate(world, _call(function)))
        return told

    async def _offset(self, frame: str) -> tuple[float, float] | None:
        """Where a frame's content lies in the window; None where it is not shown."""
        from playwright.async_api import Error

        try:
            owner = await self.cdp.send("DOM.getFrameOwner", {"frameId": frame})
            box = await self.cdp.send("DOM.getBoxModel", {"backendNodeId": owner["backendNodeId"]})
        except Error:
            return None
        x, y = box["model"]["content"][:2]
        return float(x), float(y)

    def _frame_of(self, number: int) -> ForeignFrame | None:
        return next((frame for frame in self._foreign if frame.first < number <= frame.first + frame.count), None)

    # ---- the script's world -------------------------------------------------------------------------------------

    async def _evaluate(self, world: int, expression: str) -> Any:
        reply = await self.cdp.send(
            "Runtime.evaluate",
            {"contextId": world, "expression": expression, "returnByValue": True, "awaitPromise": True},
        )
        if "exceptionDetails" in reply:
            raise WorldError(f"the script in the page failed at {expression[-200:]}: {_failure(reply)}")
        return reply["result"].get("value")

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
            self._foreign = []
            self._document += 1

    def _on_crash(self, page: Page) -> None:
        self.is_crashed = True


def _call(function: str, *arguments: Any) -> str:
    return f"rollout.{function}({','.join(_encode(argument).decode() for argument in arguments)})"


def _add_frame(seen: JSON, inner: JSON, *, is_list: bool) -> None:
    """Add what a frame of another origin shows to what its page shows. In a list, text is kept with the element that
    follows it."""
    seen["isCut"] = seen["isCut"] or inner["isCut"]
    if not inner["elements"] and not inner["text"]:
        return
    head = f"(a frame from {inner['url'][:100]}:)"
    if is_list and inner["elements"]:
        first = inner["elements"][0]
        first["before"] = "\n".join(filter(None, (seen["text"], head, first["before"])))
        seen["text"] = inner["text"]
    else:
        seen["text"] += f"\n{head}\n{inner['text']}"
    seen["elements"] += inner["elements"]


def _failure(reply: JSON) -> str:
    details = reply["exceptionDetails"]
    text = details.get("exception", {}).get("description") or details.get("exception", {}).get("value")
    return excerpt(str(text or details.get("text")).partition("\n")[0], 300)


def _descendants(tree: JSON) -> Iterator[str]:
    for child in tree.get("childFrames", ()):
        yield child["frame"]["id"]
        yield from _descendants(child)


async def attach(page: Page, settings: WebSettings) -> Tab:
    """A tab for a page of Playwright's. Raises PageLost where it is gone already."""
    from playwright.async_api import Error

    try:
        return Tab(page, await page.context.new_cdp_session(page), settings)
    except Error as error:
        raise PageLost(str(error)) from error
