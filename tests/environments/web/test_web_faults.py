"""Browsers and pages that die, hang or never come: the episode goes on or ends, and the others do not notice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from rollout.core.errors import ConfigError, WorldError
from rollout.core.task import Task
from rollout.core.world import Invocation
from rollout.environments.web.browsers import BrowserPool
from rollout.environments.web.chromium import Launcher, find_chromium
from rollout.environments.web.world import BrowserWorld
from tests.environments.web.conftest import QUICK, Browsing
from tests.environments.web.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")
IMPATIENT = {"step_timeout": 4.0, "load_timeout": 1.5}


async def test_a_browser_killed_in_a_step_is_replaced_and_other_episodes_do_not_notice(
    browsing: Browsing, site: Site
) -> None:
    pool = browsing.pool(contexts_per_browser=1)
    driver = await browsing.driver(pool).open(site.url("/second"))
    other = await browsing.driver(pool).open(site.url("/"))
    assert driver.world._lease is not None
    step = asyncio.create_task(driver.do("navigate", url=site.url("/late")))
    os.kill(driver.world._lease.pid, signal.SIGKILL)
    assert "Title: Late" in (await step).content
    assert "Title: bought" in (await other.do("click", element=other.number("Buy now"))).content

    os.kill(driver.world._lease.pid, signal.SIGKILL)
    site.slow.set()
    result = await driver.do("click", element=1)
    assert not result.is_error
    assert "Title: came late" in result.content
    assert result.images


async def test_a_dead_driver_is_replaced_with_all_its_browsers(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(contexts_per_browser=1)
    drivers = [await browsing.driver(pool).open(site.url("/second")) for _ in range(3)]
    assert drivers[0].world._lease is not None
    parent = psutil.Process(drivers[0].world._lease.pid).parent()
    assert parent is not None
    parent.kill()
    results = await asyncio.gather(*(driver.do("navigate", url=site.url("/late")) for driver in drivers))
    assert all("Title: Late" in result.content for result in results)


async def test_a_browser_that_is_killed_again_and_again_ends_the_episode(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(browsing.pool()).open(site.url("/second"))

    async def kill_and_click() -> None:
        assert driver.world._lease is not None
        os.kill(driver.world._lease.pid, signal.SIGKILL)
        await driver.do("click", element=1)

    for _ in range(3):
        await kill_and_click()
    with pytest.raises(WorldError, match="lost 4 times") as caught:
        await kill_and_click()
    assert caught.value.transient
    with pytest.raises(WorldError):
        await driver.do("click", element=1)


async def test_a_page_that_hangs_costs_its_own_episode_only(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool()
    driver = await browsing.driver(pool, **IMPATIENT).open(site.url("/hang"))
    other = await browsing.driver(pool, **IMPATIENT).open(site.url("/"))
    assert driver.world._lease is not None
    assert other.world._lease is not None
    pid = other.world._lease.pid
    assert driver.world._lease.pid == pid
    hanging = asyncio.create_task(driver.do("click", element=1))
    for text in ("one", "two", "three"):
        await other.do("type", element=other.number("Search"), text=text)
    assert not hanging.done()
    result = await hanging
    assert result.error_kind == "timeout"
    assert "did not respond within 4 s" in result.content
    assert "Title: Hang" in result.content
    assert "Title: bought" in (await other.do("click", element=other.number("Buy now"))).content
    assert other.world._lease.pid == pid


async def test_a_browser_that_hangs_is_replaced(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(contexts_per_browser=1)
    driver = await browsing.driver(pool, **IMPATIENT).open(site.url("/second"))
    assert driver.world._lease is not None
    pid = driver.world._lease.pid
    os.kill(pid, signal.SIGSTOP)
    result = await driver.do("click", element=1)
    assert not result.is_error
    assert "Title: Shop" in result.content
    assert driver.world._lease.pid != pid
    assert not _is_alive(pid)


async def test_a_crashed_renderer_is_replaced(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(browsing.pool()).open(site.url("/second"))
    assert driver.world._lease is not None
    browser = psutil.Process(driver.world._lease.pid)
    for process in browser.children(recursive=True):
        if "--type=renderer" in process.cmdline():
            process.kill()
    result = await driver.do("click", element=1)
    assert not result.is_error
    assert "Title: Shop" in result.content
    assert driver.world._lease.pid == browser.pid


async def test_pages_that_do_not_come_are_errors_that_say_so(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(browsing.pool(), **IMPATIENT).open(site.url("/"))
    result = await driver.do("navigate", url=site.url("/never"))
    assert result.is_error
    assert "did not answer within 1.5 s" in result.content
    result = await driver.do("navigate", url=site.url("/half"))
    assert not result.is_error
    assert "still loading" in result.content
    assert driver.number("Half a page")
    result = await driver.do("navigate", url="http://no-such-host.invalid/")
    assert result.is_error
    await driver.do("navigate", url=site.url("/second"))
    await site.stop()
    result = await driver.do("navigate", url=site.url("/"))
    assert result.is_error
    assert "cannot be reached" in result.content


async def test_a_start_page_that_does_not_come_fails_the_opening(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(max_contexts=1)
    for path in ("/never", "/"):
        world = BrowserWorld(pool, QUICK.model_copy(update=IMPATIENT))
        with pytest.raises(WorldError, match="start page") as caught:
            await world.open(Task("t", info={"start_url": site.url(path), "private_hosts": [site.host]}), 1)
        assert caught.value.transient
        await world.close()
        await site.stop()


async def test_a_page_of_five_megabytes_is_shown_in_part(browsing: Browsing, site: Site) -> None:
    for mode in ("set_of_marks", "text"):
        pool = browsing.pool()
        driver = await browsing.driver(pool, mode=mode, step_timeout=60, load_timeout=20).open(site.url("/big"))
        assert "link 0" in driver.text
        assert len(driver.text) < 20_000
        assert "Title: Second" in (await driver.do("click", element=1)).content
        await pool.close()


async def test_places_are_limited_and_come_back(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(max_contexts=2, contexts_per_browser=1, max_served=1)
    first, second = [await browsing.driver(pool).open(site.url("/second")) for _ in range(2)]
    waiting = asyncio.create_task(browsing.driver(pool).open(site.url("/second")))
    await first.do("wait", seconds=0.1)
    assert not waiting.done()
    assert first.world._lease is not None
    pid = first.world._lease.pid
    await first.world.close()
    await first.world.close()
    third = await waiting
    assert "Title: Second" in third.text
    assert not _is_alive(pid)
    assert second.world._lease is not None
    assert third.world._lease is not None
    assert second.world._lease.pid != third.world._lease.pid


async def test_a_cancelled_opening_gives_its_place_back(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(max_contexts=1)
    for _ in range(3):
        world = BrowserWorld(pool, QUICK)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await world.open(Task("t", info={"start_url": site.url("/never"), "private_hosts": [site.host]}), 1)
        await world.close()
    driver = await browsing.driver(pool).open(site.url("/second"))
    assert "Title: Second" in driver.text
    assert driver.world._lease is not None
    browser = driver.world._lease.context.browser
    assert browser is not None
    await _until(lambda: len(browser.contexts) == 1)


async def test_a_closed_pool_leaves_no_process(browsing: Browsing, site: Site) -> None:
    before = _descendants(os.getpid())
    pool = BrowserPool(contexts_per_browser=1)
    worlds = [BrowserWorld(pool, QUICK) for _ in range(2)]
    for world in worlds:
        await world.open(Task("t", info={"start_url": site.url("/second"), "private_hosts": [site.host]}), 1)
    assert _descendants(os.getpid()) - before
    await pool.close()
    for world in worlds:
        await world.close()
    await _until(lambda: not (_descendants(os.getpid()) - before))


async def test_a_browser_that_cannot_be_asked_is_ended_and_so_is_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    from playwright.async_api import Browser, Error

    before = _descendants(os.getpid())
    launcher = Launcher(None)
    await launcher.launch(False)
    (driver,) = [process.pid for process in psutil.Process().children() if process.pid not in before]
    answers = iter([False, True])
    ask = Browser.new_browser_cdp_session

    async def ask_or_fail(browser: Browser) -> Any:
        if next(answers):
            return await ask(browser)
        raise Error("no session")

    monkeypatch.setattr(Browser, "new_browser_cdp_session", ask_or_fail)
    chromiums = len(psutil.Process(driver).children())
    await launcher.launch(True)
    assert len(psutil.Process(driver).children()) == chromiums, "the one that could not be asked is gone"
    await launcher.close()
    await _until(lambda: not any(map(_is_alive, _descendants(os.getpid()) - before)))


async def test_no_browser_outlives_us(tmp_path: Path) -> None:
    script = tmp_path / "hold.py"
    script.write_text(
        "import asyncio\n"
        "from rollout.config.browsing import WebSettings\n"
        "from rollout.environments.web.browsers import BrowserPool\n"
        "async def main():\n"
        "    lease = await BrowserPool().lease(WebSettings())\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    root = str(Path(__file__).parents[3])
    holder = await asyncio.create_subprocess_exec(
        sys.executable, str(script), stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": root}
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"ready\n"
    left = _descendants(holder.pid)
    assert len(left) > 2
    holder.kill()
    await holder.wait()
    await _until(lambda: not any(map(_is_alive, left)))


async def test_a_missing_browser_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="/nowhere/chromium"):
        find_chromium("/nowhere/chromium")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="apt-get install chromium-headless-shell"):
        find_chromium()


async def test_tasks_without_a_start_page_are_refused(browsing: Browsing) -> None:
    world = BrowserWorld(browsing.pool(), QUICK)
    for info in ({}, {"start_url": "not an address"}):
        with pytest.raises(ConfigError, match="task t"):
            await world.open(Task("t", info=info), 1)
    with pytest.raises(WorldError, match="not open"):
        await world.call([Invocation("a", "click", {"element": 1})])
    await world.close()


def _descendants(pid: int) -> set[int]:
    return {process.pid for process in psutil.Process(pid).children(recursive=True)}


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def _until(holds: Any) -> None:
    async with asyncio.timeout(300):
        while not holds():
            await asyncio.sleep(0.05)
