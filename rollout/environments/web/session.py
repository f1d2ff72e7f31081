"""The browser context of one episode as its agent sees it: tabs, one of them active, and the events around them.

A step is: act, settle (`rollout.environments.web.settling`), observe. Events beside the page's own pixels are handled
at once and noted in the next observation: dialogs are accepted, new tabs become the active one, downloads and file
choosers are declined, and a document that came with an HTTP error is noted by its status, however it was asked for.

A tab can also be opened apart from the agent's, to look at a page of the same context when the work is over.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from rollout.config.browsing import WebSettings
from rollout.core.messages import JSON, Image
from rollout.environments.web.browsers import Lease
from rollout.environments.web.documents import DocumentRule
from rollout.environments.web.files import UploadFile
from rollout.environments.web.observe import Observation, Seen, script_options, status_note
from rollout.environments.web.page import PageLost, Tab, attach
from rollout.environments.web.settling import PendingRequests, SettleBudget, settle_options

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Download, FileChooser, Page, Request, Response

ERROR_PAGE = "chrome-error:"
"""How the address begins that a tab has where its page could not be had."""
MAX_NOTES = 12
WITH_IMAGES = frozenset({"coordinates", "set_of_marks"})
"""The modes that show screenshots."""
MAX_TAKES = 3
"""Screenshots of a page whose elements move while they are numbered. The last one is shown as it is."""


class BrowserSession:
    """The tabs of one lease."""

    def __init__(self, lease: Lease, settings: WebSettings, files: Mapping[str, UploadFile] | None = None) -> None:
        """`files`: those that may be uploaded, by name."""
        self.lease = lease
        self.settings = settings
        self.files = files or {}
        self.tabs: list[Tab] = []
        self.active: Tab
        self.requests = PendingRequests()
        self._documents = DocumentRule(lease.proxy, lambda work: self._start(self._chores, work))
        self.reminders: tuple[str, ...] = ()
        """Notes that every observation has."""
        self.wants_next = False
        """Whether the next observation shows the next part of the last one's list."""
        if self.files:
            self.reminders = (f"Files that can be uploaded: {', '.join(self.files)}",)
        self.mouse: tuple[float, float] | None = None
        """Where the last action left the mouse, in pixels."""
        self._chosen: asyncio.Future[FileChooser] | None = None
        self._notes: list[str] = []
        self._dialogs = 0
        self._step = 0
        self._refused_between: set[str] = set()
        """Hosts that were refused since the last observation, but before this step."""
        self._asked_for: set[str] = set()
        """Hosts of the documents that this step asked for."""
        self._refusals: dict[Page, Response] = {}
        """The last document of a page, where it came with an HTTP error that was not noted yet."""
        self._told_of: Response | None = None
        self._statuses: dict[Page, int] = {}
        """The status of the last document of a page, where it came since the page was last observed."""
        self._apart: set[Page] = set()
        """Pages that are not the agent's."""
        self._one_at_a_time = asyncio.Lock()
        self._arriving: set[asyncio.Task[None]] = set()
        self._opened = 0
        """Tabs that pages have opened and that the browser has not announced yet."""
        self._announced = asyncio.Event()
        self._chores: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Take over the lease's page. Raises PageLost where the browser is gone."""
        self.active = await self._adopt(self.lease.page)
        context = self.lease.context
        context.on("page", self._on_page)
        context.on("dialog", self._on_dialog)
        context.on("request", self._on_request)
        context.on("response", lambda _: self.requests.note_answer())
        context.on("requestfinished", self._on_returned)
        context.on("requestfailed", self._on_returned)

    async def close(self) -> None:
        """Release everything but the lease, which its owner releases."""
        chores = self._chores | self._arriving
        for chore in chores:
            chore.cancel()
        await asyncio.gather(*chores, return_exceptions=True)

    def begin_step(self) -> None:
        """From here on, what happens belongs to the next step."""
        self._step += 1
        self.requests.begin_step()
        self._dialogs = 0
        self.wants_next = False
        self._asked_for.clear()
        self.lease.proxy.faults.clear()
        self._refused_between |= self.lease.proxy.refused
        self.lease.proxy.refused.clear()

    def note(self, text: str) -> None:
        """Tell something in the next observation."""
        if len(self._notes) < MAX_NOTES and text not in self._notes:
            self._notes.append(text)

    def fault_of(self, url: str) -> str | None:
        """Why the host of an address could not be reached in this step; None where it could."""
        return self.lease.proxy.faults.get(urlsplit(url).hostname or "")

    def document_faults(self) -> list[str]:
        """Why hosts of the documents that this step asked for, redirects included, could not be reached."""
        faults = self.lease.proxy.faults
        return [faults[host] for host in sorted(self._asked_for & faults.keys())]

    async def observe(self) -> Observation:
        """Settle, then look. The notes so far go with the observation.

        Raises PageLost where the browser or the active tab's renderer is gone.
        """
        seen, image, busy = await self._look(self.settings.mode)
        self.note_faults()
        refusal = self._refusals.pop(self.active.page, None)
        if refusal is not None:
            self._told_of = refusal
            self.note(status_note(refusal.status, refusal.status_text))
        if seen.url.startswith(ERROR_PAGE) and not self._notes:
            # Chromium's own page for it is empty without a window.
            self.note("The page could not be opened. goback or navigate to go on.")
        notes, self._notes = (*self.reminders, *self._notes), []
        tabs = tuple([await _title(tab) for tab in self.tabs]) if len(self.tabs) > 1 else ()
        status = self._statuses.pop(self.active.page, None)
        refused = self._take_refused()
        return Observation(seen, tabs, self.tabs.index(self.active), notes, image, status, *refused, busy)

    async def settle(self) -> Seen:
        """Settle only: the numbers of the elements stay, and notes wait for the next observation.

        Raises PageLost, as `observe`.
        """
        return (await self._look("none"))[0]

    def _take_refused(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The hosts that were refused in this step, and the others since the last observation."""
        now, between = self.lease.proxy.refused, self._refused_between
        taken = tuple(sorted(now)), tuple(sorted(between - now))
        now.clear()
        between.clear()
        return taken

    def note_faults(self) -> None:
        """Note which documents that this step asked for could not be had."""
        for fault in self.document_faults():
            self.note(f"a page could not be opened: {fault}.")

    def document_came(self, page: Page, response: Response) -> None:
        """Note the answer to a request for a page's own document."""
        self._statuses[page] = response.status
        if response.status < 400:
            self._refusals.pop(page, None)
        elif response is not self._told_of:
            self._refusals[page] = response

    async def settle_active(self) -> Tab:
        """The active tab when it is settled, with nothing observed."""
        await self._find_active()
        await self._settle(self.active)
        return self.active

    @contextlib.asynccontextmanager
    async def open_apart(self, url: str) -> AsyncIterator[tuple[Tab, Response | None]]:
        """A page in a tab of its own, settled, with the answer to its request. It shares the context's cookies, is
        none of the agent's tabs, is in no observation, and is closed on leaving."""
        from playwright.async_api import Error

        async with self._one_at_a_time:
            page = await self.lease.context.new_page()
            self._apart.add(page)
        try:
            self.begin_step()
            tab = await attach(page, self.settings)
            await self._documents.apply(tab)
            response = await page.goto(url, wait_until="commit", timeout=self.settings.load_timeout * 1e3)
            await self._settle(tab)
            yield tab, response
        finally:
            with contextlib.suppress(Error):
                await page.close()

    async def close_tab(self, tab: Tab) -> None:
        """Close a tab. Where it is the active one, the last of the others becomes active."""
        await tab.page.close()
        self._drop(tab)

    async def activate(self, tab: Tab) -> None:
        """Show a tab."""
        await tab.page.bring_to_front()
        self.active = tab

    @contextlib.contextmanager
    def awaiting_chooser(self) -> Iterator[asyncio.Future[FileChooser]]:
        """The next file chooser that a page opens is given to the caller, not declined."""
        self._chosen = asyncio.get_running_loop().create_future()
        try:
            yield self._chosen
        finally:
            self._chosen = None

    # ---- settling -----------------------------------------------------------------------------------------------

    async def _look(self, mode: str) -> tuple[Seen, Image | None, tuple[str, ...]]:
        """The active tab when it is settled, and what of it is not. The mode `none` does not number its elements."""
        budget = SettleBudget(self.settings)
        takes = 0
        is_settled = False
        while True:
            await self._find_active()
            tab = self.active
            # Where elements have moved since they were numbered, the page is not waited for again.
            waits = not (takes or is_settled)
            is_settled = False
            # After its requests a page is looked at again, so before that it is only waited for.
            is_early = waits and mode != "none" and self.requests.has_any
            try:
                await self._stop_late(tab, budget)
                asked = self._options("none" if is_early else mode, budget, waits=waits)
                seen = msgspec.convert(await tab.observe(asked), Seen)
                if waits:
                    budget.spend(seen.waited / 1e3, seen.busy)
                if seen.is_closing and await self._await_close(tab):
                    continue
                if tab is not self.active or self._arriving or await self._await_tabs():
                    continue
                if await self._stop_late(tab, budget) or await self.requests.settle(budget):
                    continue
                if await self._leave_refused(tab, seen.url):
                    continue
                if is_early:
                    is_settled = True
                    continue
                image = await tab.screenshot() if mode in WITH_IMAGES else None
                takes += 1
                if mode == "set_of_marks" and await tab.clear() and takes < MAX_TAKES and not self.wants_next:
                    continue
                return seen, image, budget.busy
            except PageLost:
                # A tab that was closed is no loss; a crash or the end of the browser is.
                if tab.is_crashed or self.lease.lost.is_set() or not tab.page.is_closed():
                    raise

    async def _stop_late(self, tab: Tab, budget: SettleBudget) -> bool:
        """Wait for the document that a tab has asked for, and give it up where it does not come in time."""
        if not await self.requests.is_late(tab.page, budget):
            return False
        await tab.stop_loading()
        self.requests.give_up_documents()
        self.note(f"The next page did not answer within {self.settings.load_timeout:g} s. Its loading was stopped.")
        return True

    async def _leave_refused(self, tab: Tab, url: str) -> bool:
        """Leave a document that may not be shown: the first of a new tab may have come before it could be refused."""
        from playwright.async_api import Error

        refusal = self._documents.refusal_of(url)
        if refusal is None:
            return False
        self.lease.proxy.refuse(urlsplit(url).hostname or "", refusal)
        self.note(f"a page could not be opened: {refusal}.")
        try:
            if len(self.tabs) > 1:
                await tab.page.close()
                self._drop(tab)
            else:
                await tab.page.goto("about:blank")
        except Error as error:
            raise PageLost(str(error)) from error
        return True

    def _options(self, mode: str, budget: SettleBudget, *, waits: bool = True) -> JSON:
        is_next = self.wants_next and mode != "none"
        settling = settle_options(self.settings, budget, self._step, self.lease.timers)
        options = script_options(self.settings, mode, is_next=is_next) | settling
        return options if waits else options | {"quiet": 0, "settle": 0, "load": 0}

    async def _await_tabs(self) -> bool:
        """Wait until the browser has announced the tabs that pages have opened. False where there are none."""
        if not self._opened:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.settle_timeout):
                while self._opened:
                    self._announced.clear()
                    await self._announced.wait()
        self._opened = 0
        return True

    async def _await_close(self, tab: Tab) -> bool:
        """Wait for the end of a tab that is closing itself. False where it stays open after all."""
        from playwright.async_api import Error

        if not tab.page.is_closed():
            with contextlib.suppress(Error):
                await tab.page.wait_for_event("close", timeout=self.settings.settle_timeout * 1e3)
        return tab.page.is_closed()

    async def _settle(self, tab: Tab) -> None:
        budget = SettleBudget(self.settings)
        while True:
            seen = await tab.observe(self._options("none", budget))
            budget.spend(seen["waited"] / 1e3)
            if not await self.requests.settle(budget):
                return

    async def _find_active(self) -> None:
        """Let tabs that open arrive; where none is left, open an empty one."""
        while self._arriving:
            await asyncio.wait(set(self._arriving))
        for tab in [tab for tab in self.tabs if tab.page.is_closed()]:
            self._drop(tab)
        if not self.tabs:
            if self.lease.lost.is_set():
                raise PageLost("the browser is gone")
            from playwright.async_api import Error

            self.note("The page closed its own tab. This is an empty one: navigate to go on.")
            try:
                page = await self.lease.context.new_page()
            except Error as error:
                raise PageLost(str(error)) from error
            while self._arriving:
                await asyncio.wait(set(self._arriving))
            if not self.tabs:
                self.active = await self._adopt(page)

    # ---- tabs ---------------------------------------------------------------------------------------------------

    async def _adopt(self, page: Page) -> Tab:
        tab = await attach(page, self.settings)
        await self._documents.apply(tab)
        await tab.watch_windows(self._on_window_open)
        self.tabs.append(tab)
        page.on("close", lambda _: self._drop(tab))
        page.on("download", self._on_download)
        page.on("filechooser", self._on_file_chooser)
        return tab

    def _drop(self, tab: Tab) -> None:
        if tab in self.tabs:
            self.tabs.remove(tab)
            self.requests.discard_page(tab.page)
        if self.active is tab and self.tabs:
            self.active = self.tabs[-1]

    def _on_window_open(self) -> None:
        self._opened += 1

    def _on_page(self, page: Page) -> None:
        self._opened = max(0, self._opened - 1)
        self._announced.set()
        self._start(self._arriving, self._arrive(page))

    async def _arrive(self, page: Page) -> None:
        async with self._one_at_a_time:
            if page in self._apart:
                return
            if self._apart and await page.opener() in self._apart:
                await page.close()
                return
            if len(self.tabs) >= self.settings.max_tabs:
                self.note(f"The page opened another tab; there are {len(self.tabs)} already, so it was closed.")
                await page.close()
                self.requests.discard_page(page)
                return
            is_first = not self.tabs
            self.active = await self._adopt(page)
            if not is_first:
                self.note("A new tab opened; it is the active one now. goback at its first page closes it.")

    # ---- what pages do beside themselves ------------------------------------------------------------------------

    def _on_dialog(self, dialog: Dialog) -> None:
        self._dialogs += 1
        self._start(self._chores, self._answer(dialog, self._dialogs))

    async def _answer(self, dialog: Dialog, number: int) -> None:
        limit = self.settings.max_dialogs
        if dialog.page in self._apart:
            pass
        elif number <= limit:
            text = dialog.message if len(dialog.message) <= 300 else dialog.message[:300] + "…"
            answered = f"with {dialog.default_value!r}" if dialog.type == "prompt" else ""
            self.note(f"A dialog ({dialog.type}) said {text!r} and was accepted {answered}".rstrip() + ".")
        elif number == limit + 1:
            self.note(f"The page opened more than {limit} dialogs; its script was stopped and further ones are muted.")
            tab = next((tab for tab in self.tabs if tab.page is dialog.page), None)
            if tab is not None:
                # The script waits in the dialog: it is stopped as soon as that is answered.
                self._start(self._chores, tab.mute())
        await dialog.accept(dialog.default_value) if dialog.type == "prompt" else await dialog.accept()

    def _on_download(self, download: Download) -> None:
        self.note(f"The page offered the file {download.suggested_filename!r} for download; files are not kept.")

    def _on_file_chooser(self, chooser: FileChooser) -> None:
        if self._chosen is not None and not self._chosen.done():
            self._chosen.set_result(chooser)
            return
        known = f"use upload with one of: {', '.join(self.files)}" if self.files else "there are none"
        self.note(f"The page asked for a file, which a click cannot give it; {known}.")

    def _on_request(self, request: Request) -> None:
        self.requests.add(request)
        if request.resource_type == "document":
            self._asked_for.add(urlsplit(request.url).hostname or "")

    def _on_returned(self, request: Request) -> None:
        self.requests.discard(request)
        if request.resource_type == "document" and request.existing_response is not None:
            self._notice_document(request, request.existing_response)

    def _notice_document(self, request: Request, response: Response) -> None:
        from playwright.async_api import Error

        try:
            frame = request.frame
        except Error:
            return  # of a service worker, or of a tab that is gone
        if frame.parent_frame is None:
            self.document_came(frame.page, response)

    def _start(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            from playwright.async_api import Error

            # Where the tab went away meanwhile, the next look at it finds out.
            with contextlib.suppress(Error, PageLost):
                await work

        task = asyncio.create_task(run())
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def _title(tab: Tab) -> str:
    from playwright.async_api import Error

    try:
        async with asyncio.timeout(1):
            return await tab.page.title() or tab.page.url
    except (Error, TimeoutError):
        return tab.page.url
