"""Screenshots with numbered elements, before and after a change, side by side.

    python -m benchmarks.marks --before REVISION --into docs/img

renders ten difficult pages (`benchmarks.mark_pages`) with the code of that revision and with the code as it is, and
writes sheets of five pages each, `marks-1.webp` and `marks-2.webp`: before on the left, after on the right.
`python -m benchmarks.marks --render FOLDER` renders only, with whatever `rollout` can be imported.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from aiohttp import web
from playwright.async_api import async_playwright

from benchmarks.mark_pages import pages
from rollout.config.browsing import WebSettings
from rollout.core.task import Task
from rollout.environments.web.browsers import BrowserPool
from rollout.environments.web.chromium import find_chromium
from rollout.environments.web.world import BrowserWorld

HERE = Path(__file__).resolve().parent.parent
SIZE = {"width": 640, "height": 300}
SHOWN = ("shop", "table", "form", "frames", "moving", "links", "toolbar", "scripts", "dialog", "calendar")


async def render(folder: Path) -> None:
    """Write the first observation of each page: its screenshot and its text."""
    made: dict[str, str] = {}

    async def serve(request: web.Request) -> web.Response:
        return web.Response(text=made.get(request.path.strip("/"), ""), content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    made.update(pages(f"http://localhost:{port}"))
    folder.mkdir(parents=True, exist_ok=True)
    hosts = [f"127.0.0.1:{port}", f"localhost:{port}"]
    try:
        async with BrowserPool() as pool:
            for name in SHOWN:
                world = BrowserWorld(pool, WebSettings(**SIZE))
                info = {"start_url": f"http://{hosts[0]}/{name}", "private_hosts": hosts}
                opening = await world.open(Task(name, info=info), 1)
                (folder / f"{name}.png").write_bytes(opening.images[0].data)
                assert opening.observation is not None
                (folder / f"{name}.txt").write_text(opening.observation.content or "")
                await world.close()
    finally:
        await runner.cleanup()


async def sheet(before: Path, after: Path, into: Path, quality: int) -> None:
    """Put the pictures of two folders side by side."""
    into.mkdir(parents=True, exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium())
        page = await browser.new_page(viewport={"width": 2 * SIZE["width"] + 8, "height": 5 * SIZE["height"]})
        cdp = await page.context.new_cdp_session(page)
        for number in (1, 2):
            rows = "".join(
                f"<img src=data:image/png;base64,{base64.b64encode((folder / f'{name}.png').read_bytes()).decode()}>"
                for name in SHOWN[5 * number - 5 : 5 * number]
                for folder in (before, after)
            )
            await page.set_content(
                f"<style>body{{margin:0;display:grid;grid-template-columns:auto auto;gap:0 8px}}</style>{rows}"
            )
            picture = await cdp.send("Page.captureScreenshot", {"format": "webp", "quality": quality})
            (into / f"marks-{number}.webp").write_bytes(base64.b64decode(picture["data"]))
        await browser.close()


def render_revision(revision: str, folder: Path) -> None:
    """`render` with the package as it was in a revision."""
    with tempfile.TemporaryDirectory() as checkout:
        archive = subprocess.run(["git", "archive", revision, "rollout"], cwd=HERE, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", checkout], input=archive.stdout, check=True)
        (Path(checkout) / "benchmarks").symlink_to(HERE / "benchmarks")
        command = [sys.executable, "-m", "benchmarks.marks", "--render", str(folder.resolve())]
        subprocess.run(command, cwd=checkout, env=os.environ | {"PYTHONPATH": checkout}, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default="HEAD", help="the revision on the left")
    parser.add_argument("--into", type=Path, default=HERE / "docs" / "img")
    parser.add_argument("--render", type=Path, help="render into this folder and stop")
    parser.add_argument("--quality", type=int, default=30)
    given = parser.parse_args()
    if given.render:
        asyncio.run(render(given.render))
        return
    with tempfile.TemporaryDirectory() as work:
        before, after = Path(work) / "before", Path(work) / "after"
        render_revision(given.before, before)
        asyncio.run(render(after))
        asyncio.run(sheet(before, after, given.into, given.quality))


if __name__ == "__main__":
    main()
