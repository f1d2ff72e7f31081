"""Each action, in each way to observe, in a real browser."""

from __future__ import annotations

import struct

import pytest
import pytest_asyncio

from rollout.config.browsing import WebSettings
from rollout.core.calls import CallReader
from rollout.core.messages import ToolCall
from rollout.core.world import Invocation
from rollout.environments.web.actions import toolset_of
from tests.environments.web.conftest import Browsing, Driver
from tests.environments.web.site import Site

MODES = ("coordinates", "set_of_marks", "text", "accessibility_tree")
WITHOUT_IMAGES = ("text", "accessibility_tree")
pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(params=MODES, loop_scope="session")
async def shop(request: pytest.FixtureRequest, browsing: Browsing, site: Site) -> Driver:
    return await browsing.driver(mode=request.param).open(site.url("/"))


async def test_opening_shows_the_start_page_as_the_mode_has_it(shop: Driver, site: Site) -> None:
    observation = shop.opening.observation
    assert observation is not None
    assert observation.role == "user"
    assert f"URL: {site.url('/')}" in shop.text
    assert "Title: Shop" in shop.text
    mode = shop.world._settings.mode
    assert ("Small shop" in shop.text) == (mode != "coordinates")
    assert ('button "Buy now"' in shop.text) == (mode != "coordinates")
    assert "hunter2" not in shop.text
    images = shop.opening.images
    assert [image.name for image in images] == list(observation.images)
    if mode in WITHOUT_IMAGES:
        assert images == ()
    else:
        width, height = struct.unpack(">II", images[0].data[16:24])
        assert images[0].data[:8] == b"\x89PNG\r\n\x1a\n"
        assert (width, height) == (1280, 720)


async def test_click_presses_a_button(shop: Driver) -> None:
    result = await shop.do("click", **await shop.place("Buy now", "text=Buy now"))
    assert not result.is_error
    assert "Title: bought" in result.content
    assert len(result.images) == (0 if shop.world._settings.mode in WITHOUT_IMAGES else 1)


async def test_click_follows_a_link_and_goback_returns(shop: Driver, site: Site) -> None:
    result = await shop.do("click", **await shop.place("Second page", "text=Second page"))
    assert f"URL: {site.url('/second')}\nTitle: Second" in result.content
    result = await shop.do("goback")
    assert f"URL: {site.url('/')}\nTitle: Shop" in result.content
    result = await shop.do("goback")
    assert result.is_error
    assert "there is no page before this one" in result.content


async def test_type_replaces_what_a_field_holds_and_submits(shop: Driver) -> None:
    place = await shop.place("Search", "input[name=q]")
    await shop.do("type", **place, text="green tea")
    await shop.do("type", **place, text="black")
    assert await shop.page.input_value("input[name=q]") == "black"
    await shop.do("type", **place, text=" coffee", append=True)
    assert await shop.page.input_value("input[name=q]") == "black coffee"
    await shop.do("type", **place, text="")
    assert await shop.page.input_value("input[name=q]") == ""
    result = await shop.do("type", **place, text="räksmörgås 茶", submit=True)
    assert "Title: Results" in result.content
    assert await shop.page.inner_text("p") == "Found: räksmörgås 茶"


async def test_type_is_noticed_by_pages_that_listen_to_keys(shop: Driver) -> None:
    result = await shop.do("type", **await shop.place("Remarks", "textarea"), text="two\nlines")
    assert "Title: keys: two lines" in result.content


async def test_type_sets_a_date(shop: Driver) -> None:
    place = await shop.place("Delivery", "input[type=date]")
    assert "Title: on 2025-03-01" in (await shop.do("type", **place, text="2025-03-01")).content
    result = await shop.do("type", **place, text="tomorrow")
    assert result.is_error
    assert "2025-01-31" in result.content


async def test_type_where_nothing_can_be_typed_says_so(shop: Driver) -> None:
    result = await shop.do("type", **await shop.place("Second page", "text=Small shop"), text="x")
    assert result.is_error
    assert "type into" in result.content


async def test_hover_opens_what_opens_under_the_mouse(shop: Driver) -> None:
    assert not await shop.page.is_visible("text=Hidden offers")
    result = await shop.do("hover", **await shop.place("Menu", "#menu"))
    assert not result.is_error
    assert await shop.page.is_visible("text=Hidden offers")


async def test_select_chooses_by_label(shop: Driver) -> None:
    place = await shop.place("Size", "#size")
    assert "Title: size m" in (await shop.do("select", **place, option="Medium")).content
    result = await shop.do("select", **place, option="Tiny")
    assert result.is_error
    assert "Small | Medium | Huge" in result.content
    assert "disabled" in (await shop.do("select", **place, option="Huge")).content
    result = await shop.do("click", **place)
    assert result.is_error
    assert "use select with one of: Small" in result.content
    result = await shop.do("select", **await shop.place("Buy now", "text=Buy now"), option="Small")
    assert "is not a list" in result.content


async def test_press_reaches_the_page(shop: Driver) -> None:
    assert "Title: escaped" in (await shop.do("press", key="Escape")).content
    await shop.do("type", **await shop.place("Search", "input[name=q]"), text="caf")
    assert not (await shop.do("press", key="é")).is_error, "also where it is not on an American keyboard"
    assert await shop.page.input_value("input[name=q]") == "café"
    result = await shop.do("press", key="Hyper")
    assert result.is_error
    assert "Enter, Tab" in result.content


async def test_scroll_moves_the_page_and_says_when_there_is_no_more(shop: Driver) -> None:
    result = await shop.do("scroll", direction="down")
    assert await shop.page.evaluate("scrollY") == 612
    assert "612 px of the page above" in result.content
    result = await shop.do("scroll", direction="down", pages=10)
    result = await shop.do("scroll", direction="down")
    assert "nothing more to scroll down" in result.content
    if shop.world._settings.mode != "coordinates":
        assert shop.number("Far below")
    await shop.do("scroll", direction="up", pages=10)
    assert await shop.page.evaluate("scrollY") == 0


async def test_scroll_at_a_place_moves_what_lies_there(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(mode="coordinates").open(site.url("/scrolling"))
    await driver.do("scroll", direction="down", x=100, y=100)
    assert await driver.page.evaluate("[scrollY, document.querySelector('div').scrollTop]") == [0, 170]


async def test_wait_shows_what_came_meanwhile(shop: Driver) -> None:
    await shop.page.evaluate("setTimeout(() => document.title = 'later', 300)")
    assert "Title: later" in (await shop.do("wait", seconds=0.6)).content


async def test_navigate_opens_an_address_and_refuses_what_is_none(shop: Driver, site: Site) -> None:
    assert "Title: Second" in (await shop.do("navigate", url=site.url("/second"))).content
    for wrong in (
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,hi",
        "two words",
        "http://",
        "about:blank",
    ):
        result = await shop.do("navigate", url=wrong)
        assert result.is_error, wrong
        assert "is not an address" in result.content
    assert shop.page.url == site.url("/second")
    result = await shop.do("navigate", url=site.url("/missing"))
    assert "Title: 404" in result.content
    assert "status 404 Not Found" in result.content


async def test_answer_ends_the_work(shop: Driver) -> None:
    assert not (await shop.do("answer", text="42")).is_error
    assert shop.world.answer == "42"
    assert (await shop.do("answer", text="43")).is_error
    assert shop.world.answer == "42"
    result = await shop.do("press", key="Escape")
    assert result.is_error
    assert "work is over" in result.content


async def test_a_click_that_loads_something_is_observed_when_it_came(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/late"))
    assert driver.world._session is not None
    driver.page.on("request", lambda _: site.slow.set())
    assert "Title: came late" in (await driver.do("click", element=1)).content


async def test_elements_that_cannot_be_acted_on_say_what_to_do(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/vanish"))
    result = await driver.do("click", element=9)
    assert result.is_error
    assert "has the elements 1 to 2" in result.content
    first, second = await driver.world.call(
        [Invocation("a", "click", {"element": 1}), Invocation("b", "click", {"element": 1})]
    )
    assert (first.call_id, first.is_error) == ("a", False)
    assert second.is_error
    assert "no longer on the page" in second.content
    await driver.do("navigate", url=site.url("/"))
    assert "disabled" in (await driver.do("click", element=driver.number("Sold out"))).content


async def test_calls_of_one_message_use_the_numbers_that_the_model_saw(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/"))
    calls = [
        Invocation("a", "click", {"element": driver.number("Gift wrap")}),
        Invocation("b", "type", {"element": driver.number("Search"), "text": "tea", "submit": True}),
    ]
    first, second = await driver.world.call(calls)
    assert not first.images
    assert "Found: tea" in await driver.page.inner_text("body")
    assert second.images


async def test_a_covered_element_is_not_clicked_through(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(mode="text").open(site.url("/covered"))
    under = driver.number("Under")
    await driver.do("click", element=driver.number("Veil"))
    result = await driver.do("click", element=under)
    assert result.is_error
    assert "Cookies" in result.content
    await driver.do("click", element=driver.number("Accept"))
    assert "Title: pressed" in (await driver.do("click", element=driver.number("Under"))).content


async def test_elements_in_frames_and_shadow_trees_can_be_clicked(browsing: Browsing, site: Site) -> None:
    for mode in ("set_of_marks", "text"):
        driver = await browsing.driver(mode=mode).open(site.url("/frames"))
        assert "Title: inner" in (await driver.do("click", element=driver.number("In the frame"))).content
        assert "Title: shadow" in (await driver.do("click", element=driver.number("In the shadow"))).content


@pytest.mark.parametrize("mode", MODES)
async def test_elements_in_frames_of_other_origins_can_be_used(browsing: Browsing, site: Site, mode: str) -> None:
    async with Site() as other:
        driver = browsing.driver(mode=mode)
        await driver.open(site.url(f"/outer?to={other.url('/')}"), private_hosts=[site.host, other.host])
        frame = driver.page.frames[1]

        async def place(name: str, css: str) -> dict[str, float]:
            if mode != "coordinates":
                return {"element": driver.number(name)}
            box = await frame.locator(css).first.bounding_box()
            assert box is not None
            return {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}

        await driver.do("click", **await place("Buy now", "text=Buy now"))
        assert await frame.inner_text("#out") == "bought"
        for text in ("first", "second"):
            result = await driver.do("type", **await place("Search", "input[name=q]"), text=text)
            assert not result.is_error, result.content
        assert await frame.input_value("input[name=q]") == "second"
        if mode != "coordinates":
            await driver.do("select", element=driver.number("Size"), option="Medium")
            assert await frame.inner_text("#out") == "size m"
            key = await driver.world.state_key()
            await driver.do("click", element=driver.number("Gift wrap"))
            assert await driver.world.state_key() != key
        await driver.do("type", **await place("Search", "input[name=q]"), text="tea", submit=True)
        assert await frame.inner_text("p") == "Found: tea"


async def test_far_elements_are_scrolled_to(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(mode="text").open(site.url("/"))
    assert "Title: Second" in (await driver.do("click", element=driver.number("Far below"))).content


async def test_coordinates_may_be_given_in_thousandths(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(mode="coordinates", coordinate_range=1000).open(site.url("/"))
    place = await driver.place("Buy now", "text=Buy now")
    result = await driver.do("click", x=place["x"] / 1.28, y=place["y"] / 0.72)
    assert "Title: bought" in result.content


async def test_marks_leave_no_trace_in_the_page(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/"))
    assert await driver.page.locator("[popover]").count() == 0
    assert await driver.page.evaluate("typeof rollout") == "undefined"


async def test_equal_pages_have_equal_state_keys(browsing: Browsing, site: Site) -> None:
    pool = browsing.pool()
    one = await browsing.driver(pool).open(site.url("/"))
    other = await browsing.driver(pool).open(site.url("/"))
    key = await one.world.state_key()
    assert key == await other.world.state_key()
    await one.do("type", element=one.number("Search"), text="x")
    typed = await one.world.state_key()
    assert typed != key
    await other.do("type", element=other.number("Search"), text="x")
    assert typed == await other.world.state_key()
    await other.do("answer", text="done")
    assert typed != await other.world.state_key()


@pytest.mark.parametrize("mode", MODES)
async def test_tools_take_places_of_their_mode_only(mode: str) -> None:
    reader = CallReader(toolset_of(WebSettings(mode=mode)))  # type: ignore[arg-type]
    by_point = reader.read(ToolCall("1", "click", '{"x": 3, "y": 4}'))
    by_number = reader.read(ToolCall("2", "click", '{"element": 3}'))
    assert isinstance(by_point, Invocation) == (mode == "coordinates")
    assert isinstance(by_number, Invocation) == (mode != "coordinates")
    assert not isinstance(reader.read(ToolCall("3", "wait", '{"seconds": 600}')), Invocation)
    assert not isinstance(reader.read(ToolCall("4", "click", '{"x": 3000, "y": 4}')), Invocation)
