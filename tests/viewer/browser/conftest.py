"""A real browser before the real server. A module that uses `page` has a fixture `runs`: the folder that is shown.

Packages of extras are imported when they are used: modules are skipped where they are missing, and this file is read
before them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from rollout.core.errors import ConfigError
from rollout.environments.web.chromium import find_chromium

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(runs: Path) -> AsyncIterator[str]:
    """The address that the server prints."""
    from rollout.viewer.serve import serving

    async with serving([runs], port=0, prefix="/some/where") as address:
        yield address


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Chromium; without it, what needs it is skipped."""
    from playwright.async_api import async_playwright, expect

    from tests.viewer.browser.driving import PATIENCE

    expect.set_options(timeout=PATIENCE)
    try:
        path = find_chromium()
    except ConfigError as error:
        pytest.skip(str(error))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A window of a laptop, with no cookies."""
    from tests.viewer.browser.driving import LAPTOP, WATCH

    context = await browser.new_context(viewport=LAPTOP)
    await context.add_init_script(WATCH)
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(context: BrowserContext, address: str) -> AsyncIterator[Page]:
    """The page, with its token. Nothing may go wrong in it unseen."""
    from playwright.async_api import expect

    page = await context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    await page.goto(address)
    await expect(page.locator("h1")).to_contain_text("run")
    yield page
    assert errors == []
    assert await page.evaluate("window.__violations") == []
