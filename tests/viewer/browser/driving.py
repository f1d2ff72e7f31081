"""Driving the page: what tests in a browser do again and again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.async_api import Page, expect

ROLLOUT = [sys.executable, "-c", "from rollout.cli import main; main()"]
ROOT = Path(__file__).parents[3]
LAPTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
WATCH = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.__violations.push(event.violatedDirective));
"""
PATIENCE = 60_000
"""Milliseconds that anything on the page is waited for: not a limit on how long it may take."""
UNFOLD = "() => document.querySelectorAll('details').forEach((each) => { each.open = true; })"
"""Opens everything that is folded."""


def run_rollout(*arguments: str, folder: Path) -> None:
    """Run a command of `rollout`."""
    subprocess.run([*ROLLOUT, *arguments, "--no-colors"], cwd=folder, check=True, capture_output=True)


async def show(page: Page, address: str) -> None:
    """Go to a view."""
    await page.evaluate("(address) => { location.hash = address; }", address)


async def is_settled(page: Page) -> None:
    """Wait until everything that was asked for is there, or an error."""
    await expect(page.locator("main, .notice:not(.is-loading)").first).to_be_visible()
    await expect(page.locator(".is-loading, .is-waiting, .is-stale")).to_have_count(0)


async def first_trajectory(page: Page, run: str = "first") -> dict[str, Any]:
    """The row of the trajectory of a run with the most steps."""
    answer = await page.evaluate(
        "(run) => fetch(`api/runs/${run}/trajectories?sort=steps`).then((each) => each.json())", run
    )
    row: dict[str, Any] = answer["rows"][0]
    return row


async def open_trajectory(page: Page, extra: str = "", run: str = "first") -> dict[str, Any]:
    """Open that trajectory."""
    row = await first_trajectory(page, run)
    await show(page, f"#/run/{run}/t/{row['dataset']}/{row['id']}{extra}")
    await expect(page.locator("h1")).to_contain_text(row["id"])
    return row
