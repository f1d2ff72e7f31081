"""Many contexts on a small machine: turns, memory, and contexts that were made ahead."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from typing import Any

import psutil
import pytest

from rollout.config.browsing import WebSettings
from rollout.core.errors import WorldError
from rollout.core.messages import ToolResult
from rollout.environments.web import browsers
from rollout.environments.web.browsers import BrowserPool
from rollout.environments.web.proxy import EgressProxy
from rollout.environments.web.world import BrowserWorld
from tests.environments.web.conftest import QUICK, Browsing
from tests.environments.web.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("limit", [1, 3])
async def test_no_more_steps_at_once_than_turns(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    active, most = 0, 0
    act = BrowserWorld._act

    async def counted(world: BrowserWorld, *arguments: Any) -> ToolResult:
        nonlocal active, most
        active += 1
        most = max(most, active)
        try:
            return await act(world, *arguments)
        finally:
            active -= 1

    monkeypatch.setattr(BrowserWorld, "_act", counted)
    pool = browsing.pool(max_active=limit)
    drivers = await asyncio.gather(*(browsing.driver(pool).open(site.url("/second")) for _ in range(6)))
    for _ in range(2):
        results = await asyncio.gather(*(driver.do("press", key="Tab") for driver in drivers))
        assert not any(result.is_error for result in results)
    assert most == limit


async def test_a_hung_step_gives_its_turn_back_and_no_waiting_counts_as_time(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(max_active=1)
    hung = await browsing.driver(pool, step_timeout=6.0).open(site.url("/hang"))
    quick = await browsing.driver(pool, step_timeout=3.0).open(site.url("/second"))
    hanging = asyncio.create_task(hung.do("click", element=1))
    await asyncio.sleep(0)
    # It waits for longer than its own timeout, and is none the worse for it.
    result = await quick.do("press", key="Tab")
    assert not result.is_error
    assert (await hanging).error_kind == "timeout"


async def test_a_cancelled_step_gives_its_turn_back(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(max_active=1)
    hung = await browsing.driver(pool, step_timeout=600.0).open(site.url("/hang"))
    other = await browsing.driver(pool).open(site.url("/second"))
    hanging = asyncio.create_task(hung.do("click", element=1))
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(other.do("press", key="Tab")) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    hanging.cancel()
    assert not (await waiting[1]).is_error


async def test_an_agent_that_waits_needs_no_turn(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(max_active=1)
    idle = await browsing.driver(pool, max_wait=600.0).open(site.url("/second"))
    busy = await browsing.driver(pool).open(site.url("/second"))
    waiting = asyncio.create_task(idle.do("wait", seconds=600))
    for _ in range(2):
        assert not (await busy.do("press", key="Tab")).is_error
    assert not waiting.done()
    waiting.cancel()


async def test_episodes_wait_for_memory_and_go_on_when_one_ends(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(min_free_mb=10**9)
    first = await browsing.driver(pool).open(site.url("/second"))
    waiting = [asyncio.create_task(browsing.driver(pool).open(site.url("/second"))) for _ in range(2)]
    assert not (await first.do("press", key="Tab")).is_error
    assert not any(task.done() for task in waiting)
    waiting[0].cancel()
    await first.world.close()
    assert "Title: Second" in (await waiting[1]).text


async def _spare(pool: BrowserPool) -> Any:
    async with asyncio.timeout(300):
        while not pool._spares:
            await asyncio.sleep(0.01)
    return pool._spares[0]


async def test_a_context_made_ahead_is_unused_and_of_the_same_shape(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(spare_contexts=1)
    first = await browsing.driver(pool).open(site.url("/remember"))
    await first.do("wait", seconds=0.1)
    spare = await _spare(pool)
    other = await browsing.driver(pool, width=700, height=500).open(site.url("/second"))
    assert other.world._lease is not spare
    assert await other.page.evaluate("[innerWidth, innerHeight]") == [700, 500]
    # Settings that a context is not made by make no difference to it.
    second = await browsing.driver(pool, mode="text", load_timeout=4).open(site.url("/remember"))
    assert second.world._lease is spare
    assert await second.shows("Title: had |||0|0|0|")
    assert await second.page.evaluate("[innerWidth, innerHeight]") == [QUICK.width, QUICK.height]
    third = await browsing.driver(pool).open(site.url("/remember"))
    assert third.world._lease is not spare
    assert await third.shows("Title: had |||0|0|0|")


async def test_a_spare_context_of_a_dead_browser_is_not_given_out(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(spare_contexts=1)
    first = await browsing.driver(pool).open(site.url("/second"))
    spare = await _spare(pool)
    os.kill(spare.pid, signal.SIGKILL)
    await spare.lost.wait()
    second = await browsing.driver(pool).open(site.url("/second"))
    assert "Title: Second" in second.text
    assert second.world._lease is not spare
    assert (await first.do("navigate", url=site.url("/"))).content


async def test_a_retired_browser_ends_with_its_spare_context(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(spare_contexts=1, max_served=2)
    first = await browsing.driver(pool).open(site.url("/second"))
    spare = await _spare(pool)
    await first.world.close()
    assert not psutil.pid_exists(spare.pid) or psutil.Process(spare.pid).status() == psutil.STATUS_ZOMBIE
    assert "Title: Second" in (await browsing.driver(pool).open(site.url("/second"))).text


async def test_spare_contexts_need_no_place_and_go_when_memory_is_short(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(spare_contexts=2, max_contexts=1)
    lease = await pool.lease(WebSettings())
    async with pool.turn():
        pass
    spare = await _spare(pool)
    pool._memory._min_free_mb = 10**9
    await lease.release()
    again = await pool.lease(WebSettings())
    assert again is not spare
    assert not pool._spares
    await again.release()


@pytest.mark.parametrize("work", ["_weigh", "_end"])
async def test_whoever_is_cancelled_giving_back_loses_no_place(
    browsing: Browsing, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    monkeypatch.setattr(browsers, "WEIGH_EVERY", 1)
    pool = browsing.pool(max_contexts=1, max_served=1 if work == "_end" else 9)
    lease = await pool.lease(WebSettings())
    under_way = asyncio.Event()
    tended = getattr(pool, work)

    async def tend(browser: Any) -> None:
        under_way.set()
        await tended(browser)

    monkeypatch.setattr(pool, work, tend)
    giving_back = asyncio.create_task(lease.release())
    await under_way.wait()
    giving_back.cancel()
    async with asyncio.timeout(300):
        again = await pool.lease(WebSettings())
    await again.release()


async def test_a_spare_context_of_a_browser_that_ends_is_not_given_out(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = browsing.pool(spare_contexts=1, max_served=2)
    first = await browsing.driver(pool).open(site.url("/second"))
    spare = await _spare(pool)
    ending, is_let = asyncio.Event(), asyncio.Event()
    close = spare._browser.browser.close

    async def close_late() -> None:
        ending.set()
        await is_let.wait()
        await close()

    monkeypatch.setattr(spare._browser.browser, "close", close_late)
    closing = asyncio.create_task(first.world.close())
    await ending.wait()
    second = await browsing.driver(pool).open(site.url("/second"))
    is_let.set()
    await closing
    assert second.world._lease is not spare
    assert second.world._losses == 0


async def test_a_machine_without_free_files_costs_no_browser(
    browsing: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = browsing.pool()
    lease = await pool.lease(WebSettings())

    async def no_more_files(proxy: EgressProxy) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(EgressProxy, "start", no_more_files)
        with pytest.raises(WorldError, match="Too many open files") as refused:
            await pool.lease(WebSettings())
    assert refused.value.transient
    assert not lease.lost.is_set()
    again = await pool.lease(WebSettings())
    assert again.pid == lease.pid


HUNG = """
import asyncio, os, signal, uvloop
from rollout.environments.web.chromium import Launcher

async def main():
    launcher = Launcher(None)
    browser, _, pid = await launcher.launch(False)
    os.kill(pid, signal.SIGSTOP)
    call = asyncio.create_task(browser.new_context())
    await asyncio.sleep(0)
    await launcher.close()
    os.kill(pid, signal.SIGKILL)
    print("pending", not call.done())

uvloop.run(main())
"""


async def test_a_call_that_a_hung_browser_never_answered_shows_no_traceback_at_the_end() -> None:
    pytest.importorskip("uvloop")
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HUNG, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, complaints = await asyncio.wait_for(program.communicate(), 300)
    assert said == b"pending True\n"
    assert b"Traceback" not in complaints
