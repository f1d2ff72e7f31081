"""A pool of Chromium browsers, and contexts of theirs leased to one episode each.

A context is made new for every lease and thrown away after it: nothing of an episode (cookies, storage, caches, service
workers, connections, the renderer process) can reach the next one. Wiping a used context costs as much CPU as making
one and leaves more behind. What is kept is the browser, which serves many contexts and is retired when it has served
enough of them or has grown. A spare context is made ahead, while others work, and waits for the next lease that wants
one of its shape: it is unused.

Who waits for what: a lease waits for a place (`max_contexts`), then for memory (`min_free_mb`), then for a turn to be
made in (`max_active`); a step in a leased context waits for a turn only. Nobody who holds a turn waits for anything of
the pool, so turns always come back.

A browser that dies tells its leases (`Lease.lost`). One that hangs says nothing: a holder that waited without
success gives the lease back, and a context that cannot be closed in time, or a browser that does not answer a probe,
gets the browser killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from rollout.config.browsing import WebSettings
from rollout.core.errors import WorldError
from rollout.core.extras import missing_extra
from rollout.environments.web.chromium import CLOSE_TIMEOUT, Launcher, ProcessWatch, find_chromium, memory_of, within
from rollout.environments.web.limits import MemoryGate, Turns, default_max_active, raise_file_limit
from rollout.environments.web.proxy import EgressProxy
from rollout.environments.web.settling import TimerWatch

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, CDPSession, Page

log = logging.getLogger(__name__)

MAKE_TIMEOUT = 20.0
PROBE_TIMEOUT = 5.0
WEIGH_EVERY = 16
"""Browsers are weighed after this many contexts."""
_Shape = tuple[int, int, str, str]
T = TypeVar("T")


class Lease:
    """A context that belongs to one episode until it is released."""

    def __init__(
        self,
        browser: _Browser,
        context: BrowserContext,
        page: Page,
        proxy: EgressProxy,
        timers: TimerWatch,
        settings: WebSettings,
    ) -> None:
        self.context = context
        self.page = page
        self.proxy = proxy
        self.settings = settings
        self.timers = timers
        """Asks pages about their timers."""
        self.lost = asyncio.Event()
        """Set when the browser is gone."""
        self._browser = browser
        self._is_spare = False
        self._has_crashed = False
        page.on("crash", self._on_crash)

    @property
    def is_gone(self) -> bool:
        """Whether the browser is gone, or the first page's renderer."""
        return self.lost.is_set() or self._has_crashed

    def _on_crash(self, page: Page) -> None:
        self._has_crashed = True

    @property
    def pid(self) -> int:
        """The browser's process."""
        return self._browser.pid

    async def release(self) -> None:
        """Give it back; works at any time and twice. Whoever is cancelled meanwhile has given it back all the same.

        Takes CLOSE_TIMEOUT at most; where the browser is weighed, PROBE_TIMEOUT more, and CLOSE_TIMEOUT again where it
        is retired.
        """
        pool = self._browser.pool
        if await pool._take_back(self):
            pool._free_place()


class _Browser:
    """One browser of the pool."""

    def __init__(self, pool: BrowserPool, browser: Browser, root: CDPSession, pid: int) -> None:
        self.pool = pool
        self.browser = browser
        self.root = root
        self.pid = pid
        self.leases: set[Lease] = set()
        """All of its contexts, spare ones included."""
        self.places = 0
        """Contexts that are leased or are being made for a lease."""
        self.served = 0
        self.is_open = True
        """Whether it takes new contexts."""
        self.is_ending = False
        self.watch = ProcessWatch(lambda: pool._lost_service(self))


class BrowserPool:
    """Browsers that are started as they are needed. Opened and closed by its user (`async with`)."""

    def __init__(
        self,
        *,
        executable: str | None = None,
        max_contexts: int = 16,
        contexts_per_browser: int = 16,
        max_served: int = 400,
        max_memory_mb: int = 4096,
        max_active: int | None = None,
        min_free_mb: int = 512,
        spare_contexts: int = 1,
    ) -> None:
        """The keys of the section `browsers`, as they are described there."""
        self.max_served = max_served
        self.max_memory_mb = max_memory_mb
        self._executable = executable
        self._contexts_per_browser = contexts_per_browser
        self._spare_contexts = spare_contexts
        self._places = asyncio.Semaphore(max_contexts)
        self._memory = MemoryGate(min_free_mb)
        self._turns = Turns(max_active or default_max_active())
        self._starting = asyncio.Lock()
        self._launcher = Launcher(executable)
        self._browsers: list[_Browser] = []
        self._spares: list[Lease] = []
        self._stocking: Counter[_Shape] = Counter()
        self._asked_for: dict[_Shape, WebSettings] = {}
        """Of leases since the last turn: of these, spare ones are made."""
        self._live = 0
        """Leases that were let in and are not given back."""
        self._awaited = 0
        """Those of them that have no context yet."""
        self._is_closed = False
        self._chores: set[asyncio.Task[None]] = set()
        self._closings: set[asyncio.Task[None]] = set()
        self._launches: set[asyncio.Task[_Browser]] = set()

    def check(self) -> None:
        """Raise ConfigError where a browser, or what drives it, is not installed."""
        if importlib.util.find_spec("playwright") is None or importlib.util.find_spec("publicsuffixlist") is None:
            raise missing_extra("a browser", "web")
        find_chromium(self._executable)

    async def __aenter__(self) -> BrowserPool:
        self.check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def lease(self, settings: WebSettings) -> Lease:
        """A new context with one empty page, as `settings` have it.

        Waits for a free place and for memory as long as it takes: the caller has the deadline.

        Raises WorldError where no browser can be had, ConfigError where there is none to start.
        """
        await self._places.acquire()
        try:
            if self._spares and not self._memory.is_open(self._awaited):
                await self._drop(self._spares)
            lease = self._take_spare(settings)
            if lease is None:
                await self._memory.passed(lambda: self._live, lambda: self._awaited)
        except BaseException:
            self._places.release()
            raise
        self._live += 1
        self._awaited += 1
        try:
            lease = lease or await self._lease(settings)
        except BaseException:
            self._free_place()
            raise
        finally:
            self._awaited -= 1
        self._asked_for[_shape(settings)] = settings
        return lease

    async def replace(self, lease: Lease) -> Lease:
        """A new context for one that is lost or hangs, in the same place: no other lease can take it in between."""
        if not await self._take_back(lease):
            raise WorldError("a context that was given back cannot be replaced")
        try:
            return self._take_spare(lease.settings) or await self._lease(lease.settings)
        except BaseException:
            self._free_place()
            raise

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """A turn to act in a leased context: whatever makes its page work is done in one. Waits as long as it takes.

        Who holds one may ask for no other, nor for a lease.
        """
        try:
            async with self._turns.taken():
                yield
        finally:
            # Only now: contexts made ahead should not hold up the page that is being opened in the last one.
            while self._asked_for:
                self._restock(self._asked_for.popitem()[1])

    async def close(self) -> None:
        """End all browsers, whatever they do."""
        self._is_closed = True
        spares, self._spares = self._spares, []
        for browser in [*self._browsers]:
            await self._end(browser)
        while under_way := self._launches | self._chores | self._closings:
            # Who gives a lease back waits for its closing, which soon ends by itself, and is not cancelled.
            for task in under_way - self._closings:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
        for spare in (*spares, *self._spares):
            await spare.proxy.close()
        await self._launcher.close()

    # ---- making contexts ----------------------------------------------------------------------------------------

    async def _lease(self, settings: WebSettings) -> Lease:
        problem: object = "it did not answer in time"
        for _ in range(3):
            if self._is_closed:
                raise WorldError("the pool of browsers is closed")
            browser = await self._pick()
            try:
                made = await self._made(browser, settings, is_spare=False)
            finally:
                browser.places -= 1
            if isinstance(made, Lease):
                return made
            problem = made or problem
        raise WorldError(f"no browser could make a context: {problem}", transient=True)

    async def _made(self, browser: _Browser, settings: WebSettings, is_spare: bool) -> Lease | str:
        """A new context of a browser, or why there is none. A browser that makes none is on its way out."""
        from playwright.async_api import Error

        async with self._turns.taken():
            making = asyncio.create_task(self._make(browser, settings, is_spare))
            try:
                async with asyncio.timeout(MAKE_TIMEOUT):
                    return await asyncio.shield(making)
            except (Error, TimeoutError) as error:
                problem = str(error)
                if browser in self._browsers and not browser.is_ending:
                    log.warning("browser %d: no new context (%s); it is replaced", browser.pid, problem or "no answer")
                    self._condemn(browser)
                self._unmake_later(making)
                return problem
            except OSError as error:
                # The machine has no more files or ports for the proxy, which is not the browser's fault.
                return str(error)
            except asyncio.CancelledError:
                self._unmake_later(making)
                raise

    def _unmake_later(self, making: asyncio.Task[Lease]) -> None:
        """Nobody waits for this context any more, but Playwright makes it all the same: end it when it is there."""

        async def unmake() -> None:
            from playwright.async_api import Error

            with contextlib.suppress(Error):
                await self._take_back(await making)

        _start(self._chores, unmake())

    async def _make(self, browser: _Browser, settings: WebSettings, is_spare: bool) -> Lease:
        proxy = EgressProxy()
        await proxy.start()
        try:
            context = await browser.browser.new_context(
                viewport={"width": settings.width, "height": settings.height},
                screen={"width": settings.width, "height": settings.height},
                device_scale_factor=1,
                locale=settings.locale,
                timezone_id=settings.timezone,
                color_scheme="light",
                reduced_motion="reduce",
                accept_downloads=False,
                proxy={"server": proxy.address},
            )
            timers = TimerWatch()
            await context.add_init_script(timers.script)
            lease = Lease(browser, context, await context.new_page(), proxy, timers, settings)
            await browser.watch.start(browser.root)
        except BaseException:
            await proxy.close()
            raise
        if browser not in self._browsers:
            lease.lost.set()
        lease._is_spare = is_spare
        if not is_spare:
            browser.places += 1
        browser.leases.add(lease)
        browser.served += 1
        if browser.served >= self.max_served:
            browser.is_open = False
        return lease

    async def _pick(self) -> _Browser:
        """A browser with a free place, which is taken; a new one where there is none."""
        async with self._starting:
            free = [b for b in self._browsers if b.is_open and b.places < self._contexts_per_browser]
            if free:
                browser = min(free, key=lambda b: b.places)
            else:
                # A start goes on though nothing waits for it any more: the browser serves the next lease.
                browser = await asyncio.shield(_start(self._launches, self._launch()))
            browser.places += 1
            return browser

    async def _launch(self) -> _Browser:
        raise_file_limit()
        launched, root, pid = await self._launcher.launch(bool(self._browsers))
        browser = _Browser(self, launched, root, pid)
        launched.on("disconnected", lambda _: self._forget(browser))
        self._browsers.append(browser)
        return browser

    # ---- spare contexts -----------------------------------------------------------------------------------------

    def _take_spare(self, settings: WebSettings) -> Lease | None:
        """A context of this shape that was made ahead, in a browser with a free place."""
        for spare in self._spares:
            browser = spare._browser
            if (
                not spare.is_gone
                and not browser.is_ending
                and _shape(spare.settings) == _shape(settings)
                and browser.places < self._contexts_per_browser
            ):
                self._spares.remove(spare)
                spare._is_spare = False
                spare.settings = settings
                browser.places += 1
                return spare
        return None

    def _restock(self, settings: WebSettings) -> None:
        """See to it that there are spare contexts for the next one who wants this shape."""
        shape = _shape(settings)
        there = sum(_shape(spare.settings) == shape for spare in self._spares) + self._stocking[shape]
        if there >= self._spare_contexts or self._is_closed:
            return

        async def stock() -> None:
            try:
                browser = min((b for b in self._browsers if b.is_open), key=lambda b: b.places, default=None)
                if browser is None or not self._memory.is_open(self._awaited + 1):
                    return
                made = await self._made(browser, settings, is_spare=True)
                if isinstance(made, Lease):
                    self._spares.append(made)
                    if made.lost.is_set():
                        await self._drop([made])
            finally:
                self._stocking[shape] -= 1

        self._stocking[shape] += 1
        _start(self._chores, stock())

    async def _drop(self, spares: list[Lease]) -> None:
        """End spare contexts."""
        for spare in [*spares]:
            if spare in self._spares:
                self._spares.remove(spare)
                await self._take_back(spare)

    # ---- taking back --------------------------------------------------------------------------------------------

    async def _take_back(self, lease: Lease) -> bool:
        """End a context. True where it was not ended before: its place is then the caller's to give away."""
        browser = lease._browser
        if lease not in browser.leases:
            return False
        browser.leases.discard(lease)
        try:
            # It goes on though nothing waits for it any more.
            await asyncio.shield(_start(self._closings, self._put_away(lease)))
        except BaseException:
            if not lease._is_spare:
                self._free_place()
            raise
        return True

    async def _put_away(self, lease: Lease) -> None:
        """Close a context, then retire its browser if that is due."""
        browser = lease._browser
        try:
            await self._close_context(lease)
        finally:
            if not lease._is_spare:
                browser.places -= 1
        if browser.is_open and browser.served % WEIGH_EVERY == 0:
            await self._weigh(browser)
        if not browser.is_open and not browser.places and browser in self._browsers:
            await self._end(browser)

    async def _close_context(self, lease: Lease) -> None:
        await lease.proxy.close()
        if not lease.lost.is_set() and not await within(CLOSE_TIMEOUT, lease.context.close()):
            log.warning("browser %d: a context does not close; the browser is replaced", lease.pid)
            self._condemn(lease._browser)

    def _free_place(self) -> None:
        self._live -= 1
        self._places.release()
        self._memory.look_again()

    async def _weigh(self, browser: _Browser) -> None:
        """Retire a browser that has grown; replace one that does not answer."""
        weight = 0

        async def weigh() -> None:
            nonlocal weight
            weight = await memory_of(browser.root)

        if not await within(PROBE_TIMEOUT, weigh()):
            self._condemn(browser)
        elif weight > self.max_memory_mb << 20:
            browser.is_open = False

    def _condemn(self, browser: _Browser) -> None:
        """Kill a browser that does not do its work. Its leases are lost."""
        if browser in self._browsers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(browser.pid, signal.SIGKILL)
            self._forget(browser)

    def _lost_service(self, browser: _Browser) -> None:
        if not browser.is_ending:
            log.warning("browser %d: its network process ended, and cookies with it; it is replaced", browser.pid)
            self._condemn(browser)

    def _forget(self, browser: _Browser) -> None:
        """The browser is gone."""
        browser.is_open = False
        browser.watch.close()
        if browser in self._browsers:
            self._browsers.remove(browser)
        for lease in browser.leases:
            lease.lost.set()
        if gone := [spare for spare in self._spares if spare._browser is browser]:
            _start(self._chores, self._drop(gone))

    async def _end(self, browser: _Browser) -> None:
        """Close a browser, by force where it does not close by itself."""
        if browser in self._browsers:
            browser.is_open, browser.is_ending = False, True
            if not await within(CLOSE_TIMEOUT, browser.browser.close()):
                self._condemn(browser)
            self._forget(browser)


def _start(tasks: set[asyncio.Task[T]], work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Work that is held in a set until it is done."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


def _shape(settings: WebSettings) -> _Shape:
    """What a context is made by; everything else of the settings is not in it."""
    return (settings.width, settings.height, settings.locale, settings.timezone)
