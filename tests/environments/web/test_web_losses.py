"""A lost browser never becomes a score: the episode goes on in the same state, or fails and is tried again."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from rollout.config.schema import Config
from rollout.core.errors import ReplayMismatch, WorldError
from rollout.core.messages import ToolResult
from rollout.core.task import Task
from rollout.environments.web.scoring.pages import CheckScorer
from rollout.environments.web.world import BrowserWorld
from rollout.pipelines.run import open_run
from rollout.testing import StubServer
from rollout.trajectories.stop import StopReason
from tests.conftest import read_lines, write_tasks
from tests.environments.web.conftest import QUICK, Browsing, Driver
from tests.environments.web.login_site import LoginSite
from tests.environments.web.site import Site
from tests.trajectories.lines import trajectory

pytestmark = pytest.mark.asyncio(loop_scope="session")
CHECKS = [
    {"kind": "dom", "selector": ".item", "count": 1, "url": "/basket?check"},
    {"kind": "dom", "selector": "h1", "text": "Basket"},
]
NETWORK = "--utility-sub-type=network.mojom.NetworkService"


@pytest_asyncio.fixture(loop_scope="session")
async def login_site() -> AsyncIterator[LoginSite]:
    async with LoginSite() as site:
        yield site


class Attempt:
    """The steps of a logged-in task, with a blow at one moment of it."""

    def __init__(self, driver: Driver, site: LoginSite) -> None:
        self._driver = driver
        self._site = site
        self._task = Task("t", info={"start_url": site.url("/account"), "private_hosts": [site.host], "checks": CHECKS})

    async def run(self, moment: str = "", blow: Callable[[int], None] | None = None) -> tuple[list[str], float | None]:
        """What the agent saw, and the score. `moment`: the name of the step before which the blow comes, or a path of
        the site, with whose first request it comes."""
        waiting = [moment] if blow is not None else []

        def strike(at: str) -> None:
            if waiting == [at] and blow is not None:
                waiting.clear()
                assert world._lease is not None
                blow(world._lease.pid)

        self._site.on_request = strike
        driver, world = self._driver, self._driver.world
        await driver.open(self._site.url("/account"))
        seen = [driver.text]

        async def do(step: str, name: str, **arguments: Any) -> ToolResult:
            strike(step)
            result = await driver.do(name, **arguments)
            seen.append(result.content)
            return result

        await do("type", "type", element=driver.number("Name"), text="Ann")
        await do("sign in", "click", element=driver.number("Enter"))
        asyncio.get_running_loop().call_later(0.1, strike, "in wait")
        await do("wait", "wait", seconds=0.3)
        await do("navigate", "navigate", url=self._site.url("/basket"))
        await do("add", "click", element=driver.number("Add a mug"))
        await do("answer", "answer", text="done")
        strike("score")
        score = await CheckScorer().score(self._task, trajectory(reason=StopReason.ANSWERED), world)
        assert not waiting, f"{moment} never came"
        assert score is not None
        return seen, score.value


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def kill_part(argument: str) -> Callable[[int], None]:
    def strike(pid: int) -> None:
        for process in psutil.Process(pid).children(recursive=True):
            if argument in process.cmdline():
                process.kill()

    return strike


MOMENTS: list[tuple[str, Callable[[int], None]]] = [
    *((step, kill) for step in ("sign in", "navigate", "answer", "score")),
    *((path, kill) for path in ("/account", "/login", "in wait", "/basket", "/add", "/basket?check")),
    *((step, kill_part(NETWORK)) for step in ("in wait", "add", "score")),
    *((step, kill_part("--type=renderer")) for step in ("in wait", "add")),
]


@pytest.mark.timeout(300)
async def test_browser_killed_at_any_moment_gives_the_same_result(browsing: Browsing, login_site: LoginSite) -> None:
    pool = browsing.pool(spare_contexts=1)

    async def run(*at: Any) -> tuple[list[str], float | None]:
        driver = browsing.driver(pool, mode="text")
        try:
            return await Attempt(driver, login_site).run(*at)
        finally:
            await driver.world.close()

    calm = await run()
    assert calm[1] == 1.0
    for moment, blow in MOMENTS:
        assert await run(moment, blow) == calm, moment


async def test_page_that_shows_something_else_after_a_loss_ends_the_attempt(browsing: Browsing) -> None:
    visits = itertools.count()
    async with LoginSite(lambda: f"<button>visit {next(visits)}</button>") as site:
        driver = await browsing.driver(browsing.pool()).open(site.url("/account"))
        assert driver.world._lease is not None
        kill(driver.world._lease.pid)
        with pytest.raises(ReplayMismatch, match="start page is another"):
            await driver.do("wait", seconds=0.01)


async def test_irreversible_call_is_not_made_again(browsing: Browsing, login_site: LoginSite) -> None:
    world = BrowserWorld(browsing.pool(), QUICK, irreversible=["click"])
    driver = await Driver(world).open(login_site.url("/account"))
    await driver.do("wait", seconds=0.01)
    assert world._lease is not None
    kill(world._lease.pid)
    with pytest.raises(WorldError, match="click is irreversible"):
        await driver.do("click", element=driver.number("Enter"))
    await world.close()


async def test_page_that_hangs_by_itself_keeps_its_cookies(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(step_timeout=3.0).open(site.url("/hang"))
    await driver.page.evaluate("document.cookie = 'kept=1'")
    assert driver.world._lease is not None
    context = driver.world._lease.context
    result = await driver.do("click", element=1)
    assert result.error_kind == "timeout"
    assert "did not respond within 3 s, and its script was stopped" in result.content
    assert driver.world._lease.context is context
    assert await driver.page.evaluate("document.cookie") == "kept=1"
    assert "Title: Second" in (await driver.do("navigate", url=site.url("/second"))).content


async def test_attempt_whose_world_cannot_be_brought_back_is_tried_again(login_site: LoginSite) -> None:
    """Its start page changes with each visit, so that no replay of it can succeed."""
    visits = itertools.count()
    async with LoginSite(lambda: f"<button>visit {next(visits)}</button>") as site:
        for kills, status in ((1, "completed"), (2, "failed")):
            left = [None] * kills

            def strike(path: str, left: list[None] = left) -> None:
                if path == "/login" and left:
                    left.pop()
                    _kill_browsers()

            site.on_request = strike
            line = await _run(site, Path(f"run{kills}"))
            assert not left
            assert line["metadata"]["status"] == status
            assert line["metadata"]["scored"] == (status == "completed")
            assert (status == "completed") == line["success"]
        assert "lost" in line["metadata"]["error"]["text"]


async def _run(site: LoginSite, folder: Path) -> dict[str, Any]:
    calls = [
        {"name": "type", "arguments": {"element": 1, "text": "Ann", "submit": True}},
        {"name": "navigate", "arguments": {"url": site.url("/basket")}},
        {"name": "click", "arguments": {"element": 1}},
        {"name": "answer", "arguments": {"text": "done"}},
    ]
    rules = [{"when": {"answers": place}, "reply": {"tool_calls": [call]}} for place, call in enumerate(calls)]
    info = {"website": site.url("/account"), "private_hosts": ["127.0.0.1"], "checks": CHECKS}
    task = {"id": "t", "messages": [{"role": "user", "content": "Buy a mug."}], "task_info": info}
    async with StubServer({"rules": rules}) as stub:
        config = {
            "models": {"agent": {"api_base": stub.url}},
            "datasets": {
                "web": {
                    "path": write_tasks(Path("tasks.jsonl"), task),
                    "output_path": folder / "out.jsonl",
                    "agent": "agent",
                    "web": QUICK.model_dump(mode="json"),
                }
            },
        }
        async with open_run(Config.model_validate(config), folder, resume=True) as opened:
            await opened.engine.run()
    (line,) = read_lines(folder / "out.jsonl") + read_lines(folder / "failed.jsonl")
    return line


def _kill_browsers() -> None:
    for process in psutil.Process().children(recursive=True):
        if "headless" in process.name() and "--type=" not in " ".join(process.cmdline()):
            process.kill()
