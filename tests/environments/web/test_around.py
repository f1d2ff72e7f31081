"""What pages do beside their own pixels: dialogs, tabs, downloads, file choosers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollout.core.world import Invocation
from tests.environments.web.conftest import Browsing
from tests.environments.web.site import PAGES, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_dialogs_are_accepted_and_told(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/dialogs"))
    result = await driver.do("click", element=1)
    assert "Title: trueAnn" in result.content
    assert "dialog (alert) said 'hello' and was accepted" in result.content
    assert "dialog (confirm) said 'sure?'" in result.content
    assert "dialog (prompt) said 'name?' and was accepted with 'Ann'" in result.content
    assert "dialog (" not in (await driver.do("wait", seconds=0.01)).content


async def test_a_script_that_alerts_without_end_is_stopped(browsing: Browsing, site: Site) -> None:
    # Eleven dialogs one after the other: on a busy machine each is a while.
    driver = await browsing.driver(mode="text", step_timeout=120).open(site.url("/alert-loop"))
    result = await driver.do("click", element=1)
    assert not result.is_error
    assert "still here" in result.content
    assert "more than 10 dialogs" in result.content
    result = await driver.do("click", element=2)
    assert "Title: After" in result.content
    assert "dialog" not in result.content, "the page's dialogs are muted from then on"


async def test_a_page_that_alerts_again_and_again_can_be_left(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(mode="text").open(site.url("/alert-timer"))
    told = driver.text + (await driver.do("wait", seconds=2)).content
    assert "more than 10 dialogs" in told
    assert "dialog (" not in (await driver.do("wait", seconds=0.3)).content
    assert "Title: Second" in (await driver.do("navigate", url=site.url("/second"))).content


async def test_a_new_tab_becomes_the_active_one_and_goback_closes_it(browsing: Browsing, site: Site) -> None:
    for name in ("Open", "In a new tab"):
        driver = await browsing.driver().open(site.url("/popup"))
        result = await driver.do("click", element=driver.number(name))
        assert "Title: Second" in result.content
        assert "Tabs: 1. Opener; 2. Second (this one)" in result.content
        assert "new tab opened" in result.content
        result = await driver.do("click", element=driver.number("Home"))
        assert "Title: Shop" in result.content
        await driver.do("goback")
        result = await driver.do("goback")
        assert "Title: Opener" in result.content
        assert "Tabs:" not in result.content


async def test_a_new_tab_is_waited_for_however_late_the_browser_announces_it(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from playwright._impl.browser_context import BrowserContext

    announce = BrowserContext._on_page

    def announce_late(context: BrowserContext, page: Any) -> None:
        asyncio.get_running_loop().call_later(0.7, announce, context, page)

    for name in ("Open", "In a new tab"):
        driver = await browsing.driver().open(site.url("/popup"))
        with monkeypatch.context() as patched:
            patched.setattr(BrowserContext, "_on_page", announce_late)
            result = await driver.do("click", element=driver.number(name))
        assert "Title: Second" in result.content
        assert "new tab opened" in result.content


async def test_tabs_have_a_limit(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/popup"))
    result = await driver.do("click", element=driver.number("Many"))
    assert "there are 8 already" in result.content
    assert "8. Second (this one)" in result.content
    assert "9. " not in result.content


async def test_a_tab_that_closes_itself_is_told(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/popup"))
    await driver.do("click", element=driver.number("Open"))
    await driver.do("navigate", url=site.url("/closes"))
    result = await driver.do("click", element=1)
    assert "Title: Opener" in result.content


async def test_a_download_is_told_and_not_kept(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/download"))
    result = await driver.do("click", element=1)
    assert "Title: Download" in result.content
    assert "'report.pdf'" in result.content
    result = await driver.do("navigate", url=site.url("/file"))
    assert "'report.pdf'" in result.content


async def test_a_file_chooser_is_declined_and_told(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/upload"))
    result = await driver.do("click", element=1)
    assert "asked for a file" in result.content
    assert not result.is_error


async def test_episodes_share_nothing(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool(contexts_per_browser=2)
    first = await browsing.driver(pool).open(site.url("/remember"))
    assert await first.shows("Title: had |||0|0|0|")
    await first.do("navigate", url=site.url("/remember"))
    assert await first.shows("Title: had visited=1|1|1|1|1|1|visited")
    beside = await browsing.driver(pool).open(site.url("/remember"))
    assert await beside.shows("Title: had |||0|0|0|")
    await first.world.close()
    after = await browsing.driver(pool).open(site.url("/remember"))
    assert await after.shows("Title: had |||0|0|0|")


async def test_what_the_first_of_two_calls_causes_is_told_with_the_last(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/dialogs"))
    first, last = await driver.world.call(
        [Invocation("a", "click", {"element": 1}), Invocation("b", "wait", {"seconds": 0.01})]
    )
    assert first.content.startswith("Done.")
    assert "dialog (alert) said 'hello' and was accepted" in last.content
    await driver.do("navigate", url=site.url("/gate"))
    through = Invocation("c", "click", {"element": driver.number("Through")})
    _, last = await driver.world.call([through, Invocation("d", "wait", {"seconds": 0.01})])
    assert "The site answered with the status 403" in last.content


async def test_reading_the_state_keeps_what_there_is_to_tell(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/second"))
    await driver.page.evaluate("alert('late')")
    key = await driver.world.state_key()
    assert "dialog (alert) said 'late'" in (await driver.do("wait", seconds=0.01)).content
    assert await driver.world.state_key() == key


async def test_a_popup_that_the_browser_does_not_open_is_not_waited_for(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = "<!doctype html><button onclick=\"window.open('data:text/html,x'); document.title = 'tried'\">Open</button>"
    monkeypatch.setitem(PAGES, "/refused-popup", page)
    driver = await browsing.driver(settle_timeout=30, step_timeout=10).open(site.url("/refused-popup"))
    assert "Title: tried" in (await driver.do("click", element=1)).content
