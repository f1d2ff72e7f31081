"""Browsers for the tests. Where there is no Chromium, what needs one is skipped with the reason."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from rollout.config.browsing import WebSettings
from rollout.core.errors import ConfigError
from rollout.core.messages import ToolResult
from rollout.core.task import Task
from rollout.core.world import Invocation, Opening
from rollout.environments.web.browsers import BrowserPool
from rollout.environments.web.chromium import find_chromium
from rollout.environments.web.sites import Sites
from rollout.environments.web.world import BrowserWorld
from tests.environments.web.site import Site

QUICK = WebSettings(load_timeout=3, settle_timeout=1.5, step_timeout=8)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("web")


@pytest.fixture(autouse=True)
def _needs_chromium() -> None:
    pytest.importorskip("playwright", reason="needs the extra rollout-engine[web]")
    try:
        find_chromium()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[Site]:
    async with Site() as site:
        yield site


class Driver:
    """A world with short names for what tests do to it."""

    def __init__(self, world: BrowserWorld) -> None:
        self.world = world
        self.opening: Opening
        self.text = ""
        self._ids = itertools.count()

    async def open(self, url: str, **info: Any) -> Driver:
        host = url.split("/")[2]
        self.opening = await self.world.open(Task("t", info={"start_url": url, "private_hosts": [host]} | info), 1)
        assert self.opening.observation is not None
        self.text = self.opening.observation.content or ""
        return self

    async def do(self, name: str, **arguments: Any) -> ToolResult:
        (result,) = await self.world.call([Invocation(f"call{next(self._ids)}", name, arguments)])
        if not result.is_error or "URL:" in result.content:
            self.text = result.content
        return result

    async def shows(self, text: str) -> bool:
        """Whether the page says so, now or after a while: some work without changing anything that can be seen."""
        for _ in range(50):
            if text in self.text:
                return True
            await self.do("wait", seconds=0.1)
        return False

    @property
    def page(self) -> Any:
        """The page as Playwright knows it, to look at what no observation tells."""
        assert self.world._session is not None
        return self.world._session.active.page

    async def place(self, name: str, css: str) -> dict[str, Any]:
        """Where an element is, in the words of the mode."""
        if self.world._settings.mode != "coordinates":
            return {"element": self.number(name)}
        box = await self.page.locator(css).first.bounding_box()
        return {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}

    def number(self, name: str) -> int:
        """The number of the element with this name in the last observation."""
        for line in self.text.replace(" [", "\n[").splitlines():
            if line.startswith("[") and f'"{name}"' in line:
                return int(line[1 : line.index("]")])
        raise AssertionError(f"no element {name!r} in:\n{self.text}")


class Browsing:
    """Makes worlds that the test's end closes. The pool is shared by tests, but where a test asks for its own."""

    def __init__(self, shared: BrowserPool) -> None:
        self.shared = shared
        self._pools: list[BrowserPool] = []
        self._drivers: list[Driver] = []

    def pool(self, **options: Any) -> BrowserPool:
        self._pools.append(BrowserPool(**{"spare_contexts": 0} | options))
        return self._pools[-1]

    def driver(self, pool: BrowserPool | None = None, sites: Sites | None = None, **settings: Any) -> Driver:
        return self.take(BrowserWorld(pool or self.shared, QUICK.model_copy(update=settings), sites))

    def take(self, world: BrowserWorld) -> Driver:
        """A driver for a world of the test's own making."""
        driver = Driver(world)
        self._drivers.append(driver)
        return driver

    async def close(self) -> None:
        for driver in self._drivers:
            await driver.world.close()
        for pool in self._pools:
            await pool.close()


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def _shared_pool() -> AsyncIterator[BrowserPool]:
    async with BrowserPool() as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="session")
async def browsing(_shared_pool: BrowserPool) -> AsyncIterator[Browsing]:
    browsing = Browsing(_shared_pool)
    yield browsing
    await browsing.close()
