"""A pool of Chromium browsers, and contexts of theirs leased to one episode each.

A context is made new for every lease and thrown away after it: nothing of an episode (cookies, storage, caches, service
workers, connections, the renderer process) can reach the next one. Wiping a used context costs as much CPU as making
one and leaves more behind. What is kept is the browser, which serves many contexts and is retired when it has served
enough of them or has grown.

A browser that dies tells its leases (`Lease.lost`). One that hangs says nothing: whoever waited in vain gives the lease
back, and a context that cannot be closed in time, or a browser that does not answer a probe, gets the browser killed.

All browsers hang on Playwright's driver process by a pipe, and the driver on us, so that none outlives us.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import shutil
import signal
import tempfile
from types import TracebackType
from typing import TYPE_CHECKING

from rollout.config.browsing import WebSettings
from rollout.errors import ConfigError, WorldError
from rollout.worlds.web.proxy import EgressProxy

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, CDPSession, Page, Playwright

log = logging.getLogger(__name__)

ON_PATH = ("chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--disable-site-isolation-trials",  # one renderer a context; contexts never share one
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # no way around the proxy
    "--disable-quic",
)
LAUNCH_TIMEOUT = 30.0
MAKE_TIMEOUT = 20.0
CLOSE_TIMEOUT = 5.0
PROBE_TIMEOUT = 5.0
WEIGH_EVERY = 16
"""Browsers are weighed after so many contexts."""


def find_chromium(configured: str | None = None) -> str | None:
    """The browser's executable: the configured one, or one on PATH; None where Playwright has one of its own.

    Raises ConfigError where there is none.
    """
    if configured is not None:
        found = shutil.which(configured)
        if found is None:
            raise ConfigError(f"browser executable {configured}: not found, or not executable")
        return found
    for name in ON_PATH:
        if found := shutil.which(name):
            return found
    cache = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or os.path.expanduser("~/.cache/ms-playwright")
    if os.path.isdir(cache) and any(name.startswith("chromium") for name in os.listdir(cache)):
        return None
    raise ConfigError(
        "no Chromium was found; install it with `apt-get install chromium-headless-shell` (or `chromium`), or with "
        "`playwright install chromium-headless-shell`"
    )


class Lease:
    """A context that belongs to one episode until it is released."""

    def __init__(
        self, browser: _Browser, context: BrowserContext, page: Page, proxy: EgressProxy, settings: WebSettings
    ) -> None:
        self.context = context
        self.page = page
        self.proxy = proxy
        self.settings = settings
        self.lost = asyncio.Event()
        """Set when the browser is gone."""
        self._browser = browser

    @property
    def pid(self) -> int:
        """The browser's process."""
        return self._browser.pid

    async def release(self) -> None:
        """Give it back; works at any time and twice. Takes no longer than CLOSE_TIMEOUT and PROBE_TIMEOUT."""
        pool = self._browser.pool
        if await pool._take_back(self):
            pool._places.release()


class _Browser:
    """One browser of the pool."""

    def __init__(self, pool: BrowserPool, browser: Browser, root: CDPSession, pid: int) -> None:
        self.pool = pool
        self.browser = browser
        self.root = root
        self.pid = pid
        self.leases: set[Lease] = set()
        self.places = 0
        """Contexts that live or are being made."""
        self.served = 0
        self.is_open = True
        """Whether it takes new contexts."""


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
    ) -> None:
        """`max_served`, `max_memory_mb`: a browser that has served so many contexts or is larger is retired."""
        self.max_served = max_served
        self.max_memory_mb = max_memory_mb
        self._executable = executable
        self._contexts_per_browser = contexts_per_browser
        self._places = asyncio.Semaphore(max_contexts)
        self._starting = asyncio.Lock()
        self._driver: Playwright | None = None
        self._browsers: list[_Browser] = []
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._is_closed = False
        self._chores: set[asyncio.Task[None]] = set()
        self._launches: set[asyncio.Task[_Browser]] = set()

    def check(self) -> None:
        """Raise ConfigError where a browser, or what drives it, is not installed."""
        if importlib.util.find_spec("playwright") is None or importlib.util.find_spec("publicsuffixlist") is None:
            raise ConfigError("browsers need the extra: pip install 'rollout[web]'")
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

        Waits for a free place as long as it takes: the caller has the deadline.

        Raises WorldError where no browser can be had, ConfigError where there is none to start.
        """
        await self._places.acquire()
        try:
            return await self._lease(settings)
        except BaseException:
            self._places.release()
            raise

    async def replace(self, lease: Lease) -> Lease:
        """A new context for one that is lost or hangs, in the same place: nobody else can take it in between."""
        if not await self._take_back(lease):
            raise WorldError("a context that was given back cannot be replaced")
        try:
            return await self._lease(lease.settings)
        except BaseException:
            self._places.release()
            raise

    async def close(self) -> None:
        """End all browsers, whatever they do."""
        self._is_closed = True
        for browser in [*self._browsers]:
            await self._end(browser)
        under_way = self._launches | self._chores
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        driver, self._driver = self._driver, None
        if driver is not None:
            await _within(CLOSE_TIMEOUT, driver.stop())
        if self._scratch is not None:
            self._scratch.cleanup()

    # ---- making contexts ----------------------------------------------------------------------------------------

    async def _lease(self, settings: WebSettings) -> Lease:
        from playwright.async_api import Error

        problem: object = "it did not answer in time"
        for _ in range(3):
            if self._is_closed:
                raise WorldError("the pool of browsers is closed")
            browser = await self._pick()
            making = asyncio.create_task(self._make(browser, settings))
            try:
                async with asyncio.timeout(MAKE_TIMEOUT):
                    return await asyncio.shield(making)
            except (Error, TimeoutError) as error:
                problem = error if str(error) else problem
                log.warning("browser %d: no new context (%s); it is replaced", browser.pid, problem)
                self._condemn(browser)
                self._unmake_later(making)
            except asyncio.CancelledError:
                self._unmake_later(making)
                raise
            finally:
                browser.places -= 1
        raise WorldError(f"no browser could make a context: {problem}", transient=True)

    def _unmake_later(self, making: asyncio.Task[Lease]) -> None:
        """Nobody waits for this context any more, but Playwright makes it all the same: end it when it is there."""

        async def unmake() -> None:
            from playwright.async_api import Error

            with contextlib.suppress(Error):
                await self._take_back(await making)

        chore = asyncio.create_task(unmake())
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    async def _make(self, browser: _Browser, settings: WebSettings) -> Lease:
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
            lease = Lease(browser, context, await context.new_page(), proxy, settings)
        except BaseException:
            await proxy.close()
            raise
        browser.leases.add(lease)
        browser.places += 1
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
                # A start goes on though nobody waits for it any more: the browser serves whoever comes next.
                launch = asyncio.create_task(self._launch())
                self._launches.add(launch)
                launch.add_done_callback(self._launches.discard)
                browser = await asyncio.shield(launch)
            browser.places += 1
            return browser

    async def _launch(self) -> _Browser:
        from playwright.async_api import Error

        path = find_chromium(self._executable)
        problem: object = f"not within {LAUNCH_TIMEOUT:g} s"
        for _ in range(2):
            try:
                async with asyncio.timeout(LAUNCH_TIMEOUT):
                    return await self._start(path)
            except (Error, TimeoutError, OSError) as error:
                problem = error if str(error) else problem
                # The driver may be what is broken: the next try has a new one.
                driver, self._driver = self._driver, None
                if driver is not None and not self._browsers:
                    await _within(CLOSE_TIMEOUT, driver.stop())
        raise WorldError(f"the browser {path or 'of Playwright'} does not start: {problem}", transient=True)

    async def _start(self, path: str | None) -> _Browser:
        if self._driver is None:
            from playwright.async_api import async_playwright

            self._driver = await async_playwright().start()
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="rollout-web-", ignore_cleanup_errors=True)
        launched = await self._driver.chromium.launch(
            executable_path=path,
            args=[*SWITCHES],
            # Nothing of ours: pages run there.
            env={"PATH": os.environ.get("PATH", ""), "HOME": self._scratch.name, "LANG": "C.UTF-8"},
            downloads_path=self._scratch.name,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
        root = await launched.new_browser_cdp_session()
        processes = (await root.send("SystemInfo.getProcessInfo"))["processInfo"]
        browser = _Browser(self, launched, root, next(p["id"] for p in processes if p["type"] == "browser"))
        launched.on("disconnected", lambda _: self._forget(browser))
        self._browsers.append(browser)
        return browser

    # ---- taking back --------------------------------------------------------------------------------------------

    async def _take_back(self, lease: Lease) -> bool:
        """End a context. True where it was not ended before: its place is then the caller's to give away."""
        browser = lease._browser
        if lease not in browser.leases:
            return False
        browser.leases.discard(lease)
        try:
            await lease.proxy.close()
            if not lease.lost.is_set() and not await _within(CLOSE_TIMEOUT, lease.context.close()):
                log.warning("browser %d: a context does not close; the browser is replaced", browser.pid)
                self._condemn(browser)
        except BaseException:
            self._places.release()
            raise
        finally:
            browser.places -= 1
        if browser.is_open and browser.served % WEIGH_EVERY == 0:
            await self._weigh(browser)
        if not browser.is_open and not browser.places and browser in self._browsers:
            await self._end(browser)
        return True

    async def _weigh(self, browser: _Browser) -> None:
        """Retire a browser that has grown; replace one that does not answer."""
        answer: list[int] = []

        async def ask() -> None:
            processes = (await browser.root.send("SystemInfo.getProcessInfo"))["processInfo"]
            answer.extend(process["id"] for process in processes)

        if not await _within(PROBE_TIMEOUT, ask()):
            self._condemn(browser)
        elif sum(map(_private_memory, answer)) > self.max_memory_mb << 20:
            browser.is_open = False

    def _condemn(self, browser: _Browser) -> None:
        """Kill a browser that does not do its work. Its leases are lost."""
        if browser in self._browsers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(browser.pid, signal.SIGKILL)
            self._forget(browser)

    def _forget(self, browser: _Browser) -> None:
        """The browser is gone."""
        browser.is_open = False
        if browser in self._browsers:
            self._browsers.remove(browser)
        for lease in browser.leases:
            lease.lost.set()

    async def _end(self, browser: _Browser) -> None:
        """Close a browser, by force where it does not close by itself."""
        if browser in self._browsers:
            if not await _within(CLOSE_TIMEOUT, browser.browser.close()):
                self._condemn(browser)
            self._forget(browser)


async def _within(seconds: float, work: object) -> bool:
    """Whether something of Playwright's was done in time and without an error."""
    from playwright.async_api import Error

    try:
        async with asyncio.timeout(seconds):
            await work  # type: ignore[misc]
    except TimeoutError:
        return False
    except Error:
        return True  # it is gone already
    return True


def _private_memory(pid: int) -> int:
    """Bytes that a process does not share, 0 where it is gone or this system does not tell."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            resident, shared = map(int, file.read().split()[1:3])
    except (OSError, ValueError):
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
