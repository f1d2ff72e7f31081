"""What an episode in a browser costs: through a browser world, by hand with Playwright, and in BrowserGym.

All play the same episodes of MiniWoB++ in one run: the same pages from the same server, the same seeds, the same
window, the same steps, and the page's own reward must be 1. An episode is a context of its own, the start page, and 1
to 7 steps; the start page and the page after each step are observed with a screenshot and the elements on it.

By hand is Playwright's own API as one would write it: `page.goto`, `locator.click`, `locator.fill`, `page.screenshot`
and an `evaluate` that lists elements. That has no egress rule, draws no numbers, waits for nothing but the load event
and handles no dialogs. BrowserGym is installed from PyPI into an environment of its own in the user's cache and is
used as it comes: one process for each live context, two browsers for each reset, its own pauses; one more row has it
without them.

Each row runs in processes of its own. CPU is that of these and of all below them: drivers, browsers, renderers, those
that have ended included; the server of the pages is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

import psutil
import uvloop
from aiohttp import web

from benchmarks.web_child import say, wait_for_word
from benchmarks.web_tasks import PLANS, WINDOW, Step, episodes
from rollout.core.errors import ConfigError
from rollout.core.wheels import cache_folder
from rollout.environments.suites.miniwob.package import MiniwobPackage
from rollout.environments.web.browsers import BrowserPool
from rollout.environments.web.chromium import find_chromium

ROOT = Path(__file__).parents[1]
BROWSERGYM = "0.14.3"
LIVE = (1, 4, 16)
STALL = 1200.0
"""Seconds after which a row is given up."""
# Begins the episode when the page is loaded, as BrowserGym does, and tells its reward in the title.
BEGIN = """<script>addEventListener('load', () => setTimeout(() => {
  const seed = Number(new URLSearchParams(location.search).get('seed'));
  const end = core.endEpisode;
  core.endEpisode = (reward, ...rest) => { document.title = `reward ${reward}`; end(reward, ...rest); };
  core.countdownTimer = () => {};
  core.EPISODE_MAX_TIME = 1000000;
  Math.seedrandom(seed);
  core.startEpisodeReal();
  document.title = `goal: ${core.getUtterance()}`;
}));</script>"""
LIST_ELEMENTS = """() => [...document.querySelectorAll('a[href],button,input,select,textarea')].map((element) => {
  const box = element.getBoundingClientRect();
  return {tag: element.tagName, name: element.ariaLabel || element.innerText || element.placeholder || '',
    box: [box.left, box.top, box.width, box.height], visible: box.bottom > 0 && box.top < innerHeight};
}).filter((element) => element.visible)"""


class Times:
    """How long resets and steps took, in seconds."""

    def __init__(self) -> None:
        self.resets: list[float] = []
        self.steps: list[float] = []

    @contextlib.contextmanager
    def reset(self):
        started = time.perf_counter()
        yield
        self.resets.append(time.perf_counter() - started)

    @contextlib.contextmanager
    def step(self):
        started = time.perf_counter()
        yield
        self.steps.append(time.perf_counter() - started)


Play = Callable[[str, int, Times], AsyncIterator[None]]
"""Plays an episode; pauses once, behind the reset."""


# ---- the ways --------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def by_hand(base: str, live: int) -> AsyncIterator[Play]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium())

        async def play(kind: str, seed: int, times: Times) -> AsyncIterator[None]:
            async def observe() -> None:
                assert await page.screenshot()
                assert await page.evaluate(LIST_ELEMENTS)

            async def act(step: Step) -> None:
                if step.action == "click":
                    await page.get_by_role(step.role, name=step.name, exact=True).first.click()
                elif step.action == "type":
                    await page.locator("input[type=text],input[type=password]").nth(step.place).fill(step.text)
                else:
                    await page.locator("select").select_option(step.text)

            with times.reset():
                context = await browser.new_context(viewport=WINDOW)
                page = await context.new_page()
                await page.goto(f"{base}/miniwob/{kind}.html?seed={seed}")
                await page.wait_for_function("document.title.startsWith('goal: ')")
                goal = (await page.title()).removeprefix("goal: ")
                await observe()
            yield
            for step in PLANS[kind](goal):
                with times.step():
                    await act(step)
                    await observe()
            assert await page.title() == "reward 1", f"{kind}/{seed}: {goal}: {await page.title()}"
            await context.close()

        yield play
        await browser.close()


@contextlib.asynccontextmanager
async def by_world(base: str, live: int) -> AsyncIterator[Play]:
    from rollout.config.browsing import WebSettings
    from rollout.core.task import Task
    from rollout.core.world import Invocation
    from rollout.environments.web.world import BrowserWorld

    settings = WebSettings(**WINDOW, private_hosts=(base.removeprefix("http://"),))
    async with BrowserPool(max_contexts=live) as pool:

        async def play(kind: str, seed: int, times: Times) -> AsyncIterator[None]:
            with times.reset():
                world = BrowserWorld(pool, settings)
                task = Task(f"{kind}/{seed}", info={"start_url": f"{base}/miniwob/{kind}.html?seed={seed}"})
                opening = await world.open(task, 1)
            yield
            assert opening.observation is not None
            seen = opening.observation.content or ""
            goal = re.findall(r"Title: goal: (.*)", seen)[0]
            for step in PLANS[kind](goal):
                with times.step():
                    name = re.escape(f'"{step.name}"') if step.name else ""
                    number = int(re.findall(rf"\[(\d+)\] {step.role}\b ?{name}", seen)[step.place])
                    given = {"type": {"text": step.text}, "select": {"option": step.text}}.get(step.action, {})
                    (result,) = await world.call([Invocation("call", step.action, {"element": number} | given)])
                    seen = result.content
                    assert result.images, seen
            assert "Title: reward 1\n" in seen, f"{kind}/{seed}: {goal}: {seen}"
            await world.close()

        yield play


WAYS = {"by hand": by_hand, "browser world": by_world}


async def follow(way: str, live: int, base: str, todo: list[tuple[str, int]]) -> None:
    """What a process of a row does; see `web_child`."""
    loop = asyncio.get_running_loop()
    async with WAYS[way](base, live) as play:
        warm = [play(*episode, Times()) for episode in todo[:live]]
        await asyncio.gather(*(anext(episode) for episode in warm))
        say(held=live)
        await loop.run_in_executor(None, wait_for_word)
        await asyncio.gather(*(anext(episode, None) for episode in warm))
        say(ready=1)
        await loop.run_in_executor(None, wait_for_word)
        times = Times()
        rest = iter(todo[live:])

        async def work() -> None:
            for episode in rest:
                async for _ in play(*episode, times):
                    pass

        await asyncio.gather(*(work() for _ in range(live)))
        say(resets=times.resets, steps=times.steps)


# ---- measuring -------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One line of the table."""

    rate: float
    cpu: float
    reset: float
    step: float
    memory: float
    failed: int
    """CPU and times in ms, memory of everything while all contexts are live in MB; episodes that were not solved."""


class Process:
    """One process of a row."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, command: list[str], env: dict[str, str], complaints: IO[bytes]) -> Process:
        pipe = subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=complaints, env=env, cwd=ROOT, limit=1 << 24
            )
        )

    async def heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise EOFError
        return json.loads(line)

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def end(self) -> None:
        await self._process.wait()

    def stop(self) -> None:
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def tree(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self._process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


async def measure(commands: list[list[str]], env: dict[str, str], count: int) -> Row:
    """Run a row's processes together; `count`: the episodes that they play while they are measured."""
    before = _ended_cpu()
    processes: list[Process] = []
    with tempfile.TemporaryFile() as complaints:
        try:
            async with asyncio.timeout(STALL):
                for command in commands:
                    processes.append(await Process.start(command, env, complaints))
                await asyncio.gather(*(process.heard() for process in processes))
                memory = sum(_memory(one) for process in processes for one in process.tree())
                for process in processes:
                    process.go_on()
                await asyncio.gather(*(process.heard() for process in processes))
                warm = sum(_cpu(one) for process in processes for one in process.tree())
                started = time.perf_counter()
                for process in processes:
                    process.go_on()
                told = await asyncio.gather(*(process.heard() for process in processes))
                seconds = time.perf_counter() - started
                await asyncio.gather(*(process.end() for process in processes))
        except (EOFError, TimeoutError) as error:
            complaints.seek(0)
            said = complaints.read().decode(errors="replace").strip().splitlines()
            errors = [line for line in said if re.match(r"[\w.]*Error\b", line)] or said
            raise RuntimeError((errors or [f"not done within {STALL:g} s"])[-1]) from error
        finally:
            for process in processes:
                process.stop()
            await asyncio.gather(*(process.end() for process in processes))
            await asyncio.to_thread(_await_orphans)
    failed = sum(one.get("failed", 0) for one in told)
    return Row(
        rate=(count - failed) / seconds,
        cpu=(_ended_cpu() - before - warm) / count * 1e3,
        reset=statistics.median(took for one in told for took in one["resets"]) * 1e3,
        step=statistics.median(took for one in told for took in one["steps"]) * 1e3,
        memory=memory / (1 << 20),
        failed=failed,
    )


def _await_orphans() -> None:
    """Whoever is left over has become ours: its CPU is told when it has ended. Who does not end is helped."""
    deadline = time.monotonic() + 10
    with contextlib.suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:
                    for process in psutil.Process().children(recursive=True):
                        process.kill()
                time.sleep(0.02)


def _ended_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _cpu(process: psutil.Process) -> float:
    """Of a process and those below it that have ended, in seconds."""
    try:
        return sum(process.cpu_times()[:4])
    except psutil.NoSuchProcess:
        return 0.0


def _memory(process: psutil.Process) -> int:
    """Bytes, what is shared in fair parts."""
    try:
        return process.memory_full_info().pss
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0


def become_reaper() -> None:
    """Processes whose parent ends become ours, so that their CPU is not lost."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


# ---- BrowserGym, and the pages ---------------------------------------------------------------------------------------


def install_browsergym() -> tuple[Path, dict[str, str]]:
    """Its interpreter, and where it finds Chromium. Raises ConfigError where it cannot be had."""
    folder = cache_folder() / f"browsergym-{BROWSERGYM}"
    python = folder / "bin" / "python"
    wanted = [f"browsergym-core=={BROWSERGYM}", f"browsergym-miniwob=={BROWSERGYM}"]
    if not (folder / "done").exists():
        print(f"installing BrowserGym {BROWSERGYM} into {folder} …", file=sys.stderr)
        steps = ([sys.executable, "-m", "venv", "--clear", str(folder)], [str(python), "-m", "pip", "install", *wanted])
        for command in steps:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise ConfigError(f"it could not be installed: {reason}")
        (folder / "done").touch()
    return python, _its_chromium(folder, python)


def _its_chromium(folder: Path, python: Path) -> dict[str, str]:
    """Its Playwright starts what it finds in a folder of its own; there it finds the same Chromium as all others."""
    path = find_chromium()
    if path is None:
        raise ConfigError("it needs a Chromium on PATH; Playwright's own is of another version than it knows")
    ask = "import playwright; print(playwright.__path__[0])"
    package = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    known = json.loads((Path(package) / "driver" / "package" / "browsers.json").read_text())["browsers"]
    revision = next(browser["revision"] for browser in known if browser["name"] == "chromium")
    place = folder / "browsers" / f"chromium-{revision}" / "chrome-linux" / "chrome"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.write_text(f'#!/bin/sh\nexec "{path}" "$@"\n')
    place.chmod(0o755)
    return {"PLAYWRIGHT_BROWSERS_PATH": str(folder / "browsers"), "PLAYWRIGHT_SKIP_VALIDATE_HOST_REQUIREMENTS": "1"}


@contextlib.asynccontextmanager
async def serve_pages() -> AsyncIterator[str]:
    """MiniWoB++'s pages, from memory. A page that is asked for with a seed begins by itself."""
    try:
        folder = MiniwobPackage().folder
    except ConfigError as error:
        raise SystemExit(str(error)) from None
    files = {f"/{path.relative_to(folder)}": path for path in folder.rglob("*") if path.is_file()}
    kept: dict[str, bytes] = {}
    kinds = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".png": "image/png"}

    async def show(request: web.Request) -> web.Response:
        path = request.path
        if path not in files:
            raise web.HTTPNotFound
        body = kept.get(path) or kept.setdefault(path, files[path].read_bytes())
        if "seed" in request.query:
            body = body.replace(b"</head>", BEGIN.encode() + b"</head>", 1)
        return web.Response(body=body, content_type=kinds.get(files[path].suffix, "application/octet-stream"))

    app = web.Application()
    app.router.add_get("/{path:.*}", show)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


# ---- the table -------------------------------------------------------------------------------------------------------


async def compare(ways: list[str], live: tuple[int, ...], count: int, count_gym: int, is_quick: bool) -> None:
    become_reaper()
    cores = len(os.sched_getaffinity(0))
    gym: tuple[Path, dict[str, str]] | None = None
    if any(way.startswith("BrowserGym") for way in ways):
        try:
            gym = await asyncio.to_thread(install_browsergym)
        except (ConfigError, OSError, subprocess.SubprocessError) as error:
            print(f"BrowserGym is left out: {error}")
    rows: dict[tuple[str, int], Row] = {}
    async with serve_pages() as base:
        print(
            f"{cores} cores, load {os.getloadavg()[0]:.1f}; {count} episodes a row, {count_gym} of BrowserGym's\n"
            f"{'':34}{'episodes/s':>11}{'reset ms':>10}{'step ms':>9}{'CPU ms/episode':>16}{'MB':>7}"
        )

        async def add(way: str, number: int, commands: list[list[str]], env: dict[str, str], played: int) -> None:
            label = f"{way}, {number} live"
            try:
                row = await measure(commands, os.environ | env, played)
            except RuntimeError as error:
                print(f"{label:34}{error}", flush=True)
                return
            rows[way, number] = row
            print(
                f"{label:34}{row.rate:11.2f}{row.reset:10.0f}{row.step:9.0f}{row.cpu:16.0f}{row.memory:7.0f}",
                flush=True,
            )

        for number in live:
            for way in WAYS:
                if way in ways:
                    todo = json.dumps(episodes(count + number))
                    await add(
                        way,
                        number,
                        [[sys.executable, "-m", "benchmarks.web", "--play", way, str(number), base, todo]],
                        {},
                        count,
                    )
        if gym is not None:
            python, env = gym
            for way, flags in (("BrowserGym", []), ("BrowserGym, no waits", ["--no-waits"])):
                for number in (cores,) if flags or is_quick else sorted({*live, cores}):
                    if way in ways:
                        share = -(-count_gym // number)
                        todo = episodes(number * (share + 1))
                        shares = [json.dumps(todo[place::number]) for place in range(number)]
                        commands = [
                            [str(python), "-m", "benchmarks.web_browsergym", base, mine, *flags] for mine in shares
                        ]
                        await add(way, number, commands, env, share * number)
    _conclude(rows, live, cores)


def _conclude(rows: dict[tuple[str, int], Row], live: tuple[int, ...], cores: int) -> None:
    for number in live:
        hand, world = rows.get(("by hand", number)), rows.get(("browser world", number))
        if hand and world:
            print(f"{number} live: {world.cpu / hand.cpu:.2f}× the CPU of the work by hand")
    for way in WAYS:
        one, most = rows.get((way, live[0])), rows.get((way, live[-1]))
        if one and most and live[-1] > live[0]:
            each = (most.memory - one.memory) / (live[-1] - live[0])
            print(f"{way}: {each:.0f} MB for each further context")
    ours = [row.rate for (way, _), row in rows.items() if way == "browser world"]
    for way in ("BrowserGym", "BrowserGym, no waits"):
        gym, most = rows.get((way, cores)), rows.get(("browser world", live[-1]))
        if gym and most:
            print(
                f"{way}, one process a core: we have {max(ours) / gym.rate:.1f}× its episodes/s; "
                f"{gym.cpu / most.cpu:.1f}× our CPU, {gym.memory / cores:.0f} MB a context"
            )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer episodes and rows: about two minutes")
    parser.add_argument("--episodes", type=int, default=60, help="of each row (default 60)")
    parser.add_argument(
        "--live", type=int, nargs="+", default=list(LIVE), help="contexts at once, a row each (default 1 4 16)"
    )
    parser.add_argument(
        "--ways", nargs="+", choices=["hand", "world", "browsergym"], default=["hand", "world", "browsergym"]
    )
    parser.add_argument("--play", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play:
        way, live, base, todo = given.play
        # On the loop that runs have.
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(follow(way, int(live), base, [tuple(one) for one in json.loads(todo)]))
        return
    named = {
        "hand": ["by hand"],
        "world": ["browser world"],
        "browsergym": ["BrowserGym"] if given.quick else ["BrowserGym", "BrowserGym, no waits"],
    }
    ways = [way for name in given.ways for way in named[name]]
    live = (1, 8) if given.quick else tuple(given.live)
    count = 20 if given.quick else given.episodes
    asyncio.run(compare(ways, live, count, 4 if given.quick else max(4, count // 3), given.quick))


if __name__ == "__main__":
    main()
