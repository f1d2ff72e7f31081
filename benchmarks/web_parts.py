"""CPU of a context, a reset and a step in a browser, through a browser world and by hand with Playwright.

    python -m benchmarks.web_parts

A context is made and closed again. A reset is a context with its start page, observed. A step is a click that changes
a line of the page, observed. The page is a quiet one of 40 links at 1280 by 720, and an observation is a screenshot
with the elements. The two ways take turns within one run, so that load from other work meets both. CPU is that of this
process, the driver, and the browser with its renderers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import psutil
from aiohttp import web

from benchmarks.web import LIST_ELEMENTS
from rollout.config.browsing import WebSettings
from rollout.core.task import Task
from rollout.core.world import Invocation
from rollout.environments.web.browsers import BrowserPool
from rollout.environments.web.chromium import find_chromium
from rollout.environments.web.world import BrowserWorld

WINDOW = {"width": 1280, "height": 720}
PARTS = ("context", "reset", "step")
PAGE = (
    "<!doctype html><title>Quiet</title><button onclick='told.textContent = ++clicks'>Go on</button><p id=told>0</p>"
    "<script>let clicks = 0</script>"
) + "".join(f"<p><a href=/{n}>Offer {n}</a> at {n}.90 EUR, delivered in two days" for n in range(40))
Ways = dict[str, Callable[[int], Awaitable[None]]]
"""For each part, what does it so many times."""


@contextlib.asynccontextmanager
async def by_world(url: str) -> AsyncIterator[Ways]:
    settings = WebSettings(**WINDOW, mode="set_of_marks", private_hosts=(url.split("/")[2],))
    task = Task("quiet", info={"start_url": url})
    async with BrowserPool(max_contexts=2, spare_contexts=0) as pool:
        open_world = BrowserWorld(pool, settings)
        await open_world.open(task, 1)

        async def context(times: int) -> None:
            for _ in range(times):
                await (await pool.lease(settings)).release()

        async def reset(times: int) -> None:
            for _ in range(times):
                world = BrowserWorld(pool, settings)
                await world.open(task, 1)
                await world.close()

        async def step(times: int) -> None:
            for _ in range(times):
                (result,) = await open_world.call([Invocation("c", "click", {"element": 1})])
                assert result.images, result.content

        yield dict(zip(PARTS, (context, reset, step), strict=True))
        await open_world.close()


@contextlib.asynccontextmanager
async def by_hand(url: str) -> AsyncIterator[Ways]:
    from playwright.async_api import Page, async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium())

        async def observe(page: Page) -> None:
            assert await page.screenshot()
            assert await page.evaluate(LIST_ELEMENTS)

        async def context(times: int) -> None:
            for _ in range(times):
                made = await browser.new_context(viewport=WINDOW)
                await made.new_page()
                await made.close()

        async def reset(times: int) -> None:
            for _ in range(times):
                made = await browser.new_context(viewport=WINDOW)
                page = await made.new_page()
                await page.goto(url)
                await observe(page)
                await made.close()

        open_page = await (await browser.new_context(viewport=WINDOW)).new_page()
        await open_page.goto(url)

        async def step(times: int) -> None:
            for _ in range(times):
                await open_page.get_by_role("button", name="Go on").click()
                await observe(open_page)

        yield dict(zip(PARTS, (context, reset, step), strict=True))
        await browser.close()


def spent() -> float:
    """CPU seconds of this process and of all below it, those that have ended included."""
    root = psutil.Process()
    seconds = sum(root.cpu_times()[:2])
    for process in root.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            seconds += sum(process.cpu_times()[:4])
    return seconds


@contextlib.asynccontextmanager
async def serve_page() -> AsyncIterator[str]:
    """A quiet page, from memory."""
    app = web.Application()

    async def show(request: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    app.router.add_get("/{path:.*}", show)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


async def run(rounds: int, times: int) -> None:
    """Print a line for each part: the medians over the rounds."""
    async with serve_page() as url, by_world(url) as world, by_hand(url) as hand:
        print(f"{'':10}{'world: CPU ms':>14}{'ms':>7}{'by hand: CPU ms':>18}{'ms':>7}{'CPU ratio':>12}")
        for part in PARTS:
            cpu: dict[str, list[float]] = {"world": [], "hand": []}
            wall: dict[str, list[float]] = {"world": [], "hand": []}
            for number in range(rounds + 1):
                for name, ways in (("world", world), ("hand", hand)):
                    begun, before = time.perf_counter(), spent()
                    await ways[part](times)
                    if number:  # the first round warms up
                        cpu[name].append((spent() - before) / times * 1e3)
                        wall[name].append((time.perf_counter() - begun) / times * 1e3)
            ours, theirs = statistics.median(cpu["world"]), statistics.median(cpu["hand"])
            took = {name: statistics.median(each) for name, each in wall.items()}
            print(
                f"{part:10}{ours:14.0f}{took['world']:7.0f}{theirs:18.0f}{took['hand']:7.0f}{ours / theirs:11.2f}×",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--times", type=int, default=8, help="in each round")
    given = parser.parse_args()
    asyncio.run(run(given.rounds, given.times))


if __name__ == "__main__":
    main()
