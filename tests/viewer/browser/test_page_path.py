"""The two minutes in the browser of Getting started, as a newcomer plays them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the extra rollout-engine[web]")
pytest.importorskip("starlette", reason="needs the extra rollout-engine[view]")

from playwright.async_api import Page, expect

import rollout
from tests.viewer.browser.driving import ROOT, run_rollout

pytestmark = [pytest.mark.web, pytest.mark.asyncio(loop_scope="module")]
PAGE = (ROOT / "docs" / "getting-started" / "index.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^\d\. .*", PAGE.partition("## Two minutes in the browser")[2].partition("\n## ")[0], re.MULTILINE)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newcomer")
    run_rollout("run", "default", "--dataset", "StudentAcademicPortal", folder=folder)
    return folder / "runs"


async def test_the_two_minutes_of_getting_started_go_as_they_are_told(page: Page, runs: Path) -> None:
    assert len(STEPS) == 7
    await page.get_by_role("link", name="default", exact=True).click()
    await page.get_by_role("button", name=re.compile("^not solved")).click()
    await expect(page).to_have_url(re.compile("success=0"))

    await page.keyboard.press("/")
    await page.keyboard.type("error")
    await expect(page.locator(".table mark").first).to_have_text(re.compile("error", re.IGNORECASE))
    await page.locator(".row-link").first.click()
    await expect(page.locator(".step.is-current")).to_be_visible()

    current = page.locator(".step.is-current")
    await expect(page.locator(".turn-steps .step[data-message]").first).to_be_visible()
    while not re.match("Step", await current.get_attribute("aria-label") or ""):
        before = await current.get_attribute("data-message")
        await page.keyboard.press("j")
        await expect(current).not_to_have_attribute("data-message", before or "")
    await page.keyboard.press("s")
    await expect(page.get_by_role("dialog")).to_contain_text("Sent at step")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)

    await page.locator(".scores summary").first.click()
    await expect(page.locator(".evidence").first).to_be_visible()

    await page.keyboard.press("b")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    await dialog.get_by_role("button", name="Save").click()
    await expect(current.locator(".is-mark-bad")).to_be_visible()

    await page.keyboard.press("c")
    await expect(dialog).to_contain_text("Correct step")
    await page.keyboard.type("Let me look that up.")
    for button in reversed(await dialog.get_by_role("button", name="Remove").all()):
        await button.click()
    await dialog.get_by_role("button", name="Save the correction").click()
    await expect(page.locator("h1")).to_contain_text("~+1")
    await page.keyboard.press("o")
    await expect(dialog).to_contain_text("Grow on after step")
    await dialog.get_by_role("button", name="Grow 1 branch").click()
    await expect(page.locator(".siblings").get_by_title(re.compile(r"~\+2"))).to_be_visible()

    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard")).to_contain_text("Next trajectory")
    run = rollout.load_run(runs / "default")
    assert [mark.kind for mark in run.marks] == ["bad"]
    assert run.people.finished == 2
