"""The film strip of a trajectory on web pages: pictures, what was done on them, what the model read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the extra rollout-engine[web]")
pytest.importorskip("starlette", reason="needs the extra rollout-engine[view]")

from playwright.async_api import Page, expect

from tests.viewer.browser.driving import ROOT, show

pytestmark = [pytest.mark.web, pytest.mark.asyncio(loop_scope="module")]
TRAJECTORY = "shop-matcha-bowl-price"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(ROOT / "tests" / "fixtures" / "runs" / "web" / "run", folder / "web")
    return folder


async def test_pictures_are_walked_through_with_arrow_keys(page: Page) -> None:
    rows = await page.evaluate("fetch('api/runs/web/trajectories').then((each) => each.json())")
    row = next(each for each in rows["rows"] if each["id"] == TRAJECTORY)
    await show(page, f"#/run/web/t/{row['dataset']}/{row['id']}?panel=pictures")
    await expect(page.locator(".picture img")).to_be_visible()
    assert await page.locator(".picture img").evaluate("(image) => image.naturalWidth") > 100
    await expect(page.locator(".film-action")).to_contain_text("type")
    await expect(page.locator(".film-action")).to_contain_text("matcha bowl")
    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="after the action")).to_have_attribute("aria-pressed", "true")
    await expect(page.locator(".film-url")).to_contain_text("shop.test")
    await page.keyboard.press("ArrowRight")
    await expect(page.locator(".film-strip [aria-current]")).to_contain_text("2 ")
    await page.keyboard.press("ArrowLeft")
    await expect(page.locator(".film-strip [aria-current]")).to_contain_text("1 type")
