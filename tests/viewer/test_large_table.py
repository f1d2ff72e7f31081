"""The table of a large run in a real browser: it asks for what is in view, and keeps no more than what is near."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from rollout.environments.web.chromium import find_chromium

pytest.importorskip("playwright", reason="needs the extra rollout-engine[web]")
pytest.importorskip("starlette", reason="needs the extra rollout-engine[view]")

from playwright.async_api import async_playwright, expect

from rollout.core.errors import ConfigError
from rollout.viewer.serve import serving
from tests.viewer.browser.driving import PATIENCE
from tests.viewer.writing import WrittenRun, answer

pytestmark = pytest.mark.web
ROWS = 2_500


async def test_the_browser_asks_for_rows_in_view_and_forgets_those_far_away() -> None:
    try:
        chromium = find_chromium()
    except ConfigError as error:
        pytest.skip(str(error))
    expect.set_options(timeout=PATIENCE)
    written = WrittenRun()
    for number in range(ROWS):
        written.add(f"t{number:04}", [answer("x")], opening=f"opening {number}")
    asked: list[int] = []
    async with serving([Path("run")], port=0) as address, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium)
        page = await browser.new_page()

        def note(url: str) -> None:
            if urlsplit(url).path.endswith("/trajectories"):
                asked.append(int(parse_qs(urlsplit(url).query)["offset"][0]))

        page.on("request", lambda request: note(request.url))
        await page.goto(f"{address}#/run/run?sort=id&desc=0")
        await expect(page.get_by_text("t0000", exact=True)).to_be_visible()
        await expect(page.get_by_role("status").filter(has_text="2,500")).to_be_visible()
        await page.get_by_role("grid", name="Trajectories").focus()
        asked.clear()
        await page.keyboard.press("End")
        await expect(page.get_by_text(f"t{ROWS - 1}", exact=True)).to_be_visible()
        assert asked == [2400], "nothing in between is asked for"
        await page.keyboard.press("Home")
        await expect(page.get_by_text("t0000", exact=True)).to_be_visible()
        assert asked == [2400, 0], "the first rows were forgotten"
        assert await page.get_by_role("row").count() < 100
        await browser.close()
