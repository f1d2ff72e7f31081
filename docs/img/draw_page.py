"""Takes pictures of the page of `rollout view`: each view, light and dark, on a laptop and on a phone.

python docs/img/draw_page.py /tmp/pictures --runs /tmp/runs
python docs/img/draw_page.py docs/img/page --for-docs --runs /tmp/runs

The runs are made with the built-in models where the folder of `--runs` has none yet. It needs the extras `view` and
`web`, and Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from playwright.async_api import Browser, Page, async_playwright

import rollout
from rollout.environments.web.chromium import find_chromium
from rollout.viewer.serve import serving

ROOT = Path(__file__).parents[2]
ROLLOUT = [sys.executable, "-c", "from rollout.cli import main; main()"]
DOMAIN = "AirlineReservations_HotelReservations"
SIZES = {"laptop": (1280, 800), "phone": (390, 844), "docs": (1200, 720)}
FOR_DOCS = ("table", "trajectory", "film", "tree", "compare", "correct")
QUALITY = 50
SETTLED = """
new Promise((settle) => {
  let seen = 0;
  const look = () => {
    seen = document.querySelector(".is-loading, .is-waiting, .is-stale") ? 0 : seen + 1;
    seen > 20 ? settle(true) : requestAnimationFrame(look);
  };
  look();
})
"""
"""Nothing has been loading for 20 frames."""
Act = Callable[[Page], Awaitable[Any]]


class View(NamedTuple):
    """One picture: an address, and what to do there first."""

    name: str
    address: str
    act: Act | None = None


def make_runs(folder: Path) -> None:
    """Two runs of the same tasks, one of trees, one of web pages."""
    config, web = str(ROOT / "configs" / "default.yml"), str(ROOT / "configs" / "web.yml")
    compare = str(ROOT / "configs" / "compare.yml")
    commands = {
        "travel": ["run", config, "-d", DOMAIN, "--output", "travel", "--samples", "4"],
        "travel-careful": ["run", config, "-d", DOMAIN, "-o", "travel-careful", "--samples", "4", "--set", "seed=11",
                           "--set", "datasets.*.agent.params.wrong_argument=0.01"],
        "trees/mcts": ["compare", compare, "--strategies", "mcts", "--limit", "3", "-d", DOMAIN, "-o", "trees"],
        "web": ["run", web, "--output", "web", "--limit", "6"],
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for name, arguments in commands.items():
        if not (folder / name / "run.json").is_file():
            subprocess.run([*ROLLOUT, *arguments, "--no-colors"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    mark_runs(folder)


def mark_runs(folder: Path) -> None:
    """What people have said of some attempts, as after a first hour of reading."""
    run = rollout.load_run(folder / "travel")
    if len(run.marks):
        return
    unsolved, solved = run.trajectories.where(success=False), run.trajectories.where(success=True)
    for each in unsolved[:2]:
        run.marks.add(each, "bad", message=3, author="ada")
    run.marks.add(unsolved[1], "label", text="wrong date", author="ada")
    run.marks.add(unsolved[0], "note", text="It never asked which of the two flights is meant.", author="ada")
    run.marks.add(solved[0], "good", author="grace")


def called(trajectory: rollout.Trajectory) -> set[str]:
    """The tools that an attempt called."""
    return {call.name for message in trajectory.messages for call in message.tool_calls or ()}


def beginning(trajectory: rollout.Trajectory) -> int:
    """How long the first results are: short ones leave room for what comes after them."""
    return sum(len(message.content or "") for message in trajectory.messages[:8] if message.role == "tool")


def views_of(folder: Path) -> Iterator[View]:
    """Every view, with trajectories that show something."""
    travel = rollout.load_run(folder / "travel")
    unsolved = travel.trajectories.where(success=False)
    shown = min((each for each in unsolved if "tool" in each.metadata["tool_errors"]), key=beginning)
    place = f"#/run/travel/t/{quote(shown.dataset)}/{quote(shown.id)}"
    answers = [number for number, message in enumerate(shown.messages) if message.role == "assistant"]
    booked = next(each for each in travel.trajectories if "ar_book_flight" in called(each))
    tree = max(rollout.load_run(folder / "trees" / "mcts").trajectories, key=lambda each: len(each.messages))
    web = max(rollout.load_run(folder / "web").trajectories, key=lambda each: len(each.messages))
    film = f"#/run/web/t/{quote(web.dataset)}/{quote(web.id)}"
    acted = [number for number, message in enumerate(web.messages) if message.role == "assistant"]

    async def correct(page: Page) -> None:
        await page.keyboard.press("c")
        await page.locator("dialog .form").wait_for()

    async def replay(page: Page) -> None:
        await page.get_by_role("button", name="Replay the calls").click()
        await page.locator(".changes").first.wait_for()

    async def grow(page: Page) -> None:
        await page.keyboard.press("o")
        await page.locator("dialog .form").wait_for()

    async def play(page: Page) -> None:
        await page.get_by_role("button", name="Begin").click()
        await page.locator(".act select").select_option(index=1)

    yield View("runs", "#/")
    yield View("run", "#/run/travel?tab=plots")
    yield View("errors", "#/run/travel?tab=errors")
    yield View("table", "#/run/travel")
    yield View("search", "#/run/travel?q=refund&success=0")
    yield View("trajectory", place)
    yield View("step", f"{place}?at={answers[1]}")
    yield View("sent", f"{place}?at={answers[1]}&sent={answers[1]}")
    yield View("setup", f"{place}?panel=setup")
    yield View("data", f"#/run/travel/t/{quote(booked.dataset)}/{quote(booked.id)}?panel=data", replay)
    yield View("tree", f"#/run/trees-mcts/tree/{quote(tree.dataset)}/{quote(tree.task_id)}?leaf={quote(tree.id)}")
    yield View("film", f"{film}?panel=pictures&at={acted[0]}")
    yield View("compare", "#/compare?run=travel&run=travel-careful")
    yield View("queue", "#/run/travel/queue?kind=unmarked&n=20")
    begin = f"#/run/travel/play?dataset={quote(shown.dataset)}&task={quote(shown.task_id)}"
    yield View("play-begin", begin)
    yield View("play", begin, play)
    yield View("correct", f"{place}?at={answers[1]}", correct)
    yield View("grow", f"{place}?at={answers[1]}", grow)


@asynccontextmanager
async def opened(browser: Browser, address: str, size: str, scheme: Any) -> AsyncIterator[Page]:
    """A page of this size, with the token of the address."""
    width, height = SIZES[size]
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = await context.new_page()
    await page.goto(address)
    await page.locator("main").first.wait_for()
    yield page
    await context.close()


async def show(page: Page, view: View) -> None:
    """Go to a view and wait until everything that it asks for is there."""
    await page.evaluate("(address) => { location.hash = address; }", view.address)
    await page.locator("main").first.wait_for(timeout=60_000)
    await page.wait_for_function(SETTLED, timeout=60_000)
    if view.act is not None:
        await view.act(page)


async def take(page: Page, kind: str) -> bytes:
    """What is shown now, as `png` or `webp`."""
    cdp = await page.context.new_cdp_session(page)
    how = {"format": kind, **({"quality": QUALITY} if kind == "webp" else {})}
    picture = await cdp.send("Page.captureScreenshot", how)
    await cdp.detach()
    return base64.b64decode(picture["data"])


async def draw(options: argparse.Namespace) -> None:
    """Take all pictures."""
    os.environ["LOGNAME"] = "ada"
    folder: Path = options.runs
    make_runs(folder)
    options.out.mkdir(parents=True, exist_ok=True)
    names = FOR_DOCS if options.for_docs else options.only
    views = [view for view in views_of(folder) if not names or view.name in names]
    async with serving([folder], port=0) as address, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium())
        for size in ("docs",) if options.for_docs else ("laptop", "phone"):
            for scheme in ("light",) if options.for_docs else ("light", "dark"):
                async with opened(browser, address, size, scheme) as page:
                    for view in views:
                        await show(page, view)
                        name = f"{view.name}.webp" if options.for_docs else f"{view.name}-{size}-{scheme}.png"
                        (options.out / name).write_bytes(await take(page, name.rpartition(".")[2]))
                        if view.act is not None:
                            await page.keyboard.press("Escape")
        await browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder for the pictures")
    parser.add_argument("--runs", type=Path, required=True, help="the folder of the runs; made where it is empty")
    parser.add_argument("--only", action="append", default=[], metavar="VIEW", help="only this view; may be repeated")
    parser.add_argument("--for-docs", action="store_true", help="those of the documentation, as WebP")
    asyncio.run(draw(parser.parse_args()))


if __name__ == "__main__":
    main()
