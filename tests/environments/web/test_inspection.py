"""Looking into pages when the work is over, and the statuses that documents come with."""

from __future__ import annotations

from typing import Any

import pytest

from rollout.core.errors import WorldError
from rollout.environments.web import inspection
from rollout.environments.web.inspection import Finding, Probe
from tests.environments.web.conftest import Browsing, Driver
from tests.environments.web.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def ask(driver: Driver, url: str | None = None, **probe: str) -> Finding:
    (found,) = await driver.world.inspect([Probe(**probe)], url)
    return found


@pytest.mark.parametrize(
    ("script", "value"),
    [
        ("basket.total", 21.5),
        ("return basket.items.length", 2),
        ("const n = basket.items; return {n, first: n[0]} // done", {"n": ["mug", "pot"], "first": "mug"}),
        ("() => basket.total > 20", True),
        ("async () => { await 1; return null }", None),
        ("await Promise.resolve('late')", "late"),
        ("fetch('/second').then((reply) => reply.status)", 200),
        ("document.title", "Basket"),
        ("({a: [1, 'ü']})", {"a": [1, "ü"]}),
    ],
)
async def test_script_sees_the_pages_own_world(browsing: Browsing, site: Site, script: str, value: Any) -> None:
    driver = await browsing.driver().open(site.url("/basket"))
    found = await ask(driver, script=script)
    assert found.problem is None
    assert found.value == value


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("nothing.there", "ReferenceError"),
        ("return (", "SyntaxError"),
        ("throw new Error('so it is')", "so it is"),
        ("basket.total = 3; undefined", "returned nothing"),
        ("() => {}", "returned nothing"),
        ("'x'.repeat(200000)", "200002 characters"),
        ("const a = {}; a.a = a; return a", "circular"),
        ("10n", "BigInt"),
        ("location = '/second'; return new Promise(() => {})", ""),
    ],
)
async def test_broken_script_has_a_problem_and_no_value(
    browsing: Browsing, site: Site, script: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "SCRIPT_TIMEOUT", 1.0)
    driver = await browsing.driver().open(site.url("/basket"))
    found = await ask(driver, script=script)
    assert found.problem is not None
    assert problem in found.problem
    assert found.value is None
    assert "Title: Second" in (await driver.do("navigate", url=site.url("/second"))).content, "the page lives on"


@pytest.mark.parametrize("script", ["while (true) {}", "new Promise(() => {})"])
async def test_script_without_end_is_ended(
    browsing: Browsing, site: Site, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "SCRIPT_TIMEOUT", 0.5)
    driver = await browsing.driver().open(site.url("/basket"))
    for url in (None, "/second"):
        found = await ask(driver, url, script=script)
        assert found.problem is not None
    assert (await ask(driver, script="basket.total")).value == 21.5


async def test_elements_are_found_with_what_a_reader_sees(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/basket"))

    async def texts(selector: str) -> list[str]:
        return [element["text"] for element in (await ask(driver, selector=selector)).value["elements"]]

    assert await texts("li.item") == ["Blue mug", "Tea pot"]
    assert await texts(".secret") == [""], "nobody sees it"
    assert await texts("title") == ["Basket"]
    assert await texts("option:checked") == ["Medium"]
    assert await texts("form") == []
    found = (await ask(driver, selector="#note")).value
    assert (found["count"], found["elements"][0]["value"]) == (1, "ring twice")
    assert (await ask(driver, selector="#size")).value["elements"][0]["value"] == "m"
    assert "not a CSS selector" in ((await ask(driver, selector="li[")).problem or "")


async def test_many_elements_are_counted_and_not_all_told(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "MAX_FOUND", 5)
    driver = await browsing.driver().open(site.url("/basket"))
    await ask(driver, script="document.body.innerHTML = '<i>x</i>'.repeat(300); return 1")
    found = (await ask(driver, selector="i")).value
    assert (found["count"], len(found["elements"])) == (300, 5)
    monkeypatch.setattr(inspection, "MAX_TEXT", 3)
    found = (await ask(driver, selector="body")).value
    assert (found["elements"][0]["text"], found["elements"][0]["isCut"]) == ("xxx", True)


async def test_page_apart_shares_the_context_and_nothing_of_it_reaches_the_agent(
    browsing: Browsing, site: Site
) -> None:
    driver = await browsing.driver(mode="text").open(site.url("/popup"))
    await driver.do("click", element=driver.number("Open"))
    before = await driver.do("wait", seconds=0.01)
    first = await ask(driver, "/basket", script="[localStorage.seen, localStorage.again = 5]")
    assert (first.url, first.value) == (site.url("/basket"), ["1", 5])
    again = await ask(driver, site.url("/basket"), script="localStorage.again")
    assert again.value == "5", "the same context"
    assert (await ask(driver, "/loud", selector="p")).value["count"] == 1
    assert (await ask(driver, "/status?code=404", script="document.title")).value == "Status 404"
    assert (await ask(driver)).url == site.url("/second")
    after = await driver.do("wait", seconds=0.01)
    assert after.content == before.content, "the same tabs, the same history, no notes"
    assert len(driver.page.context.pages) == 2


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("/status?code=500", "its status is 500"),
        ("/status?code=429", "its status is 429"),
        ("/never", "cannot be inspected"),
        ("http://elsewhere.example/", "not a host that this task may reach"),
    ],
)
async def test_page_that_cannot_be_inspected_is_an_error(browsing: Browsing, site: Site, url: str, why: str) -> None:
    driver = await browsing.driver().open(site.url("/second"))
    with pytest.raises(WorldError, match=why):
        await ask(driver, url, selector="p")
    assert (await ask(driver, script="1 + 1")).value == 2
    assert len(driver.page.context.pages) == 1


async def test_what_the_agent_leaves_is_looked_at_when_it_is_settled(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/late"))
    site.slow.set()
    await driver.page.evaluate("document.querySelector('button').click()")
    assert (await ask(driver, script="document.title")).value == "came late"


async def test_closed_world_cannot_be_inspected(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/second"))
    await driver.world.close()
    with pytest.raises(WorldError, match="not open"):
        await ask(driver, script="1")


# ---- statuses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "status"), [("Through", 403), ("Try", 429), ("In a new tab", 401), ("Around", 503), ("Open door", None)]
)
async def test_every_document_of_the_page_tells_its_status(
    browsing: Browsing, site: Site, name: str, status: int | None
) -> None:
    driver = await browsing.driver().open(site.url("/gate"))
    assert "answered with the status" not in driver.text, "a frame's document is not the page's"
    result = await driver.do("click", element=driver.number(name))
    assert f"Title: Status {status or 200}" in result.content
    assert (f"Note: The site answered with the status {status} " in result.content) is (status is not None)
    later = await driver.do("wait", seconds=0.01)
    assert "answered with the status" not in later.content, "it is told once"


async def test_refusal_without_a_page_is_told_too(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(mode="text").open(site.url("/gate"))
    result = await driver.do("click", element=driver.number("Emptiness"))
    assert "Note: The site answered with the status 403 Forbidden.\n\n(the page shows no text)" in result.content


async def test_statuses_are_told_by_opening_navigating_and_going_back(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/status?code=403"))
    assert driver.text.count("answered with the status 403 Forbidden.") == 1
    result = await driver.do("navigate", url=site.url("/status?code=500"))
    assert result.content.count("answered with the status 500 Internal Server Error.") == 1
    result = await driver.do("navigate", url=site.url("/gate"))
    assert "answered with" not in result.content
    await driver.do("click", element=driver.number("Fetch"))
    assert "Title: fetched" in driver.text
    assert "answered with" not in driver.text, "what a script fetches is not the page"
