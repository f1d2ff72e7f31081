"""What an episode in a browser costs through a browser world, and by hand with Playwright on the same pages.

An episode is a context of its own, the start page, a search that loads another page, a click and a choice; the start
page and each step are observed with a screenshot and the list of elements. By hand it is done as one would write it:
`page.goto`, `locator.fill`, `locator.click`, `page.screenshot` and an `evaluate` that lists elements. That version has
no egress rule, draws no numbers, waits for nothing but the load event and handles no dialogs. Each row runs in a
process of its own; CPU is that of the process and all below it: driver, browser, renderers.

    python -m benchmarks.web
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import psutil
from aiohttp import web

EPISODES = 32
LIVE = (1, 4, 16)
GOODS = "".join(
    f"<li class=card><h3>Thing {n}</h3><p>A fine thing, number {n}, for all who need things.</p>"
    f"<a href=/thing/{n}>More about thing {n}</a> "
    f"<button onclick=\"document.title='in cart: {n}'\">Add {n}</button></li>"
    for n in range(40)
)
PAGE = f"""<!doctype html><title>Shop</title><style>.card{{display:inline-block;width:280px;border:1px solid #ccc;
margin:4px;padding:4px}}</style><h1>Shop</h1>
<form action=/search><label>Search <input name=q></label><button>Go</button>
</form><label>Sort <select id=sort><option>Price<option>Name</select></label><ul>{GOODS}</ul>"""
LIST_ELEMENTS = """() => [...document.querySelectorAll('a[href],button,input,select,textarea')].map((element) => {
  const box = element.getBoundingClientRect();
  return {tag: element.tagName, name: element.ariaLabel || element.innerText || element.placeholder || '',
    box: [box.left, box.top, box.width, box.height], visible: box.bottom > 0 && box.top < innerHeight};
}).filter((element) => element.visible)"""

Episode = Callable[[str, list[float], list[float]], Awaitable[None]]


@contextlib.asynccontextmanager
async def by_hand():
    from playwright.async_api import async_playwright

    from rollout.worlds.web.browsers import find_chromium

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium())

        async def episode(url: str, resets: list[float], steps: list[float]) -> None:
            started = time.perf_counter()
            context = await browser.new_context(viewport={"width": 1280, "height": 720})
            page = await context.new_page()

            async def observe() -> None:
                await page.screenshot()
                await page.evaluate(LIST_ELEMENTS)

            async def fill() -> None:
                await page.locator("input").fill("thing")
                await page.locator("input").press("Enter")
                await page.wait_for_url("**/search*")

            async def choose() -> None:
                await page.locator("select").select_option("Name")

            await page.goto(url)
            await observe()
            resets.append(time.perf_counter() - started)
            for act in (fill, page.locator("li button").first.click, choose):
                started = time.perf_counter()
                await act()
                await observe()
                steps.append(time.perf_counter() - started)
            assert await page.title() == "in cart: 0"
            await context.close()

        yield episode
        await browser.close()


@contextlib.asynccontextmanager
async def by_world():
    from rollout.config.browsing import WebSettings
    from rollout.tasks.task import Task
    from rollout.worlds.web.browsers import BrowserPool
    from rollout.worlds.web.world import BrowserWorld
    from rollout.worlds.world import Invocation

    async with BrowserPool() as pool:

        async def episode(url: str, resets: list[float], steps: list[float]) -> None:
            started = time.perf_counter()
            world = BrowserWorld(pool, WebSettings())
            host = url.split("/")[2]
            await world.open(Task("bench", info={"start_url": url, "private_hosts": [host]}), 1)
            resets.append(time.perf_counter() - started)
            for name, arguments in (
                ("type", {"element": 1, "text": "thing", "submit": True}),
                ("click", {"element": 5}),
                ("select", {"element": 3, "option": "Name"}),
            ):
                started = time.perf_counter()
                (result,) = await world.call([Invocation("call", name, arguments)])
                steps.append(time.perf_counter() - started)
                assert not result.is_error, result.content
                assert result.images
            assert "Title: in cart: 0" in result.content
            await world.close()

        yield episode


WAYS = {"by hand": by_hand, "browser world": by_world}


def cpu_seconds() -> float:
    """Of this process and all below it, those that have ended included."""
    me = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in [me, *me.children(recursive=True)])


async def measure(way: str, live: int, url: str) -> dict[str, float]:
    async with WAYS[way]() as episode:
        await asyncio.gather(*(episode(url, [], []) for _ in range(min(live, 4))))
        resets: list[float] = []
        steps: list[float] = []
        todo = iter(range(EPISODES))

        async def work() -> None:
            for _ in todo:
                await episode(url, resets, steps)

        cpu, started = cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(work() for _ in range(live)))
        seconds, cpu = time.perf_counter() - started, cpu_seconds() - cpu
        return {
            "episodes": EPISODES / seconds,
            "cpu": cpu / EPISODES * 1e3,
            "reset": statistics.median(resets) * 1e3,
            "step": statistics.median(steps) * 1e3,
        }


async def serve() -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    print(f"{'':28}{'episodes/s':>12}{'CPU ms/episode':>16}{'reset ms':>10}{'step ms':>10}")
    for live in LIVE:
        rows = {}
        for way in WAYS:
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "benchmarks.web", way, str(live), url, stdout=subprocess.PIPE
            )
            rows[way] = row = json.loads((await child.communicate())[0])
            label = f"{way}, {live} live"
            print(f"{label:28}{row['episodes']:12.2f}{row['cpu']:16.0f}{row['reset']:10.0f}{row['step']:10.0f}")
        ratio = rows["browser world"]["cpu"] / rows["by hand"]["cpu"]
        print(f"{live} live: {ratio:.2f}× the CPU of the work by hand")
    await runner.cleanup()


def main() -> None:
    if len(sys.argv) == 4:
        way, live, url = sys.argv[1:]
        print(json.dumps(asyncio.run(measure(way, int(live), url))))
    else:
        asyncio.run(serve())


if __name__ == "__main__":
    main()
