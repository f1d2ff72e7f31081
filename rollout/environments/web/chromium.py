"""Finding Chromium, and starting it.

All browsers hang on Playwright's driver process by a pipe, and the driver on us, so that none outlives us.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from rollout.core.errors import ConfigError, WorldError

if TYPE_CHECKING:
    from playwright.async_api import Browser, CDPSession, Playwright

log = logging.getLogger(__name__)

ON_PATH = ("chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--disable-site-isolation-trials",  # one renderer a context; contexts never share one
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # no way around the proxy
    "--disable-quic",
)
STATEFUL = ("network.mojom", "storage.mojom")
"""Types of the service processes that hold what pages store. Others come and go."""
LAUNCH_TIMEOUT = 120.0
CLOSE_TIMEOUT = 5.0


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


class Launcher:
    """Starts browsers, and what drives them."""

    def __init__(self, executable: str | None) -> None:
        self._executable = executable
        self._driver: Playwright | None = None
        self._broken: list[Playwright] = []
        """Drivers that start no browser any more, but on which others still hang."""
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    async def launch(self, has_browsers: bool) -> tuple[Browser, CDPSession, int]:
        """A new browser, a session with it as a whole, and its process. `has_browsers`: whether others still run.

        Raises WorldError where it does not start, ConfigError where there is none to start.
        """
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
                if driver is not None and has_browsers:
                    self._broken.append(driver)
                elif driver is not None:
                    await within(CLOSE_TIMEOUT, driver.stop())
        raise WorldError(f"the browser {path or 'of Playwright'} does not start: {problem}", transient=True)

    async def close(self) -> None:
        """End the drivers, and whatever still hangs on them."""
        drivers = [*self._broken, *([self._driver] if self._driver is not None else [])]
        self._broken, self._driver = [], None
        if drivers:
            _pass_over_late_aborts(asyncio.get_running_loop())
        for driver in drivers:
            await within(CLOSE_TIMEOUT, driver.stop())
        if self._scratch is not None:
            self._scratch.cleanup()

    async def _start(self, path: str | None) -> tuple[Browser, CDPSession, int]:
        if self._driver is None:
            from playwright.async_api import async_playwright

            self._driver = await async_playwright().start()
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="rollout-web-", ignore_cleanup_errors=True)
        browser = await self._driver.chromium.launch(
            executable_path=path,
            args=[*SWITCHES],
            # Nothing of ours: pages run there.
            env={"PATH": os.environ.get("PATH", ""), "HOME": self._scratch.name, "LANG": "C.UTF-8"},
            downloads_path=self._scratch.name,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
        try:
            root = await browser.new_browser_cdp_session()
            processes = (await root.send("SystemInfo.getProcessInfo"))["processInfo"]
            return browser, root, next(p["id"] for p in processes if p["type"] == "browser")
        except BaseException:
            await within(CLOSE_TIMEOUT, browser.close())
            raise


def _pass_over_late_aborts(loop: asyncio.AbstractEventLoop) -> None:
    """Show no tracebacks of Playwright's for calls that are cancelled when its driver has ended.

    A call that never came back, because its browser had hung, is cancelled with the event loop at the latest.
    Playwright then writes an abort to a driver that is gone, from a callback whose error cannot be caught.
    """
    before = loop.get_exception_handler()

    def take(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if _is_of_playwright(context.get("exception")):
            log.debug("Playwright, after its end: %s", context["exception"])
        elif before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(take)


def _is_of_playwright(error: BaseException | None) -> bool:
    trace = error.__traceback__ if isinstance(error, OSError | RuntimeError) else None
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(trace)]
    return any(module.startswith("playwright.") for module in modules)


async def within(seconds: float, work: Awaitable[object]) -> bool:
    """Whether something of Playwright's was done in time, or is gone already."""
    from playwright.async_api import Error

    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return False
    except Error:
        return True
    return True


class ProcessWatch:
    """Calls back when the service process that holds the storage of pages ends.

    Chromium starts a new one and goes on, but the cookies of every context were in the old one. The kernel tells
    (a pidfd), so it costs a step nothing; on systems without pidfds such a loss goes unnoticed.
    """

    def __init__(self, call_back: Callable[[], None]) -> None:
        self._call_back = call_back
        self._files: list[int] = []

    async def start(self, root: CDPSession) -> None:
        """Watch the processes that run now, where none is watched yet: a browser starts them when they are needed."""
        if self._files or not hasattr(os, "pidfd_open"):
            return
        processes = (await root.send("SystemInfo.getProcessInfo"))["processInfo"]
        for process in processes:
            if process["type"].startswith(STATEFUL):
                with contextlib.suppress(OSError):
                    file = os.pidfd_open(process["id"])
                    self._files.append(file)
                    asyncio.get_running_loop().add_reader(file, self._ended)

    def close(self) -> None:
        files, self._files = self._files, []
        for file in files:
            asyncio.get_running_loop().remove_reader(file)
            os.close(file)

    def _ended(self) -> None:
        self.close()
        self._call_back()


async def memory_of(root: CDPSession) -> int:
    """Bytes that a browser's processes hold and do not share."""
    processes = (await root.send("SystemInfo.getProcessInfo"))["processInfo"]
    return sum(_private_memory(process["id"]) for process in processes)


def _private_memory(pid: int) -> int:
    """Bytes that a process does not share, 0 where it is gone or this system does not tell."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            resident, shared = map(int, file.read().split()[1:3])
    except (OSError, ValueError):
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
