"""The shipped sites in a real browser: what their scripts do, as an agent meets it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from rollout.environments.web.sites import Sites, load_sites
from tests.environments.web.conftest import Browsing, Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")
Visit = Callable[..., Awaitable[Driver]]


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def served() -> AsyncIterator[Sites]:
    sites = load_sites(["shop", "wiki", "booking", "tracker"])
    yield sites
    await sites.close()


@pytest_asyncio.fixture(loop_scope="session")
async def visit(served: Sites, browsing: Browsing) -> Visit:
    async def visit(name: str, path: str = "/", mode: str = "set_of_marks") -> Driver:
        host, port = (await served.routes())[f"{name}.test"]
        return await browsing.driver(mode=mode).open(f"http://{host}:{port}{path}")

    return visit


async def test_tabs_of_a_product_show_one_panel_at_a_time(visit: Visit) -> None:
    shop = await visit("shop", "/p/TP-101", mode="text")
    assert "Dishwasher" not in shop.text
    await shop.do("click", element=shop.number("Details"))
    assert "Dishwasher | Yes" in shop.text
    await shop.do("click", element=shop.number("Reviews (3)"))
    assert "Pours without a drip" in shop.text
    assert "Dishwasher" not in shop.text


async def test_the_steps_of_a_quantity_stay_within_bounds(visit: Visit) -> None:
    shop = await visit("shop", "/p/TE-304")
    await shop.do("click", element=shop.number("Less"))
    assert '"Quantity" (= "1")' in shop.text
    for _ in range(2):
        await shop.do("click", element=shop.number("More"))
    assert '"Quantity" (= "3")' in shop.text
    await shop.do("click", element=shop.number("Add to cart"))
    assert "Title: Your cart" in shop.text
    assert '"Quantity of Garden Mint" (= "3")' in shop.text


async def test_a_modal_covers_the_page_until_it_is_closed(visit: Visit) -> None:
    shop = await visit("shop", "/p/TE-304")
    await shop.do("click", element=shop.number("Delivery & returns"))
    assert 'button "Close"' in shop.text
    assert 'button "Add to cart"' not in shop.text
    await shop.do("click", element=shop.number("Close"))
    assert 'button "Add to cart"' in shop.text


async def test_a_guide_opens_in_a_new_tab(visit: Visit) -> None:
    shop = await visit("shop", "/p/TE-304")
    await shop.do("scroll", direction="down", pages=5)
    await shop.do("click", element=shop.number("Care guide"))
    assert "Title: Care guide" in shop.text
    assert "Tabs: 1." in shop.text
    await shop.do("goback")
    assert "Title: Garden Mint" in shop.text


async def test_faults_of_a_form_are_told_on_the_page(visit: Visit) -> None:
    shop = await visit("shop", "/p/TE-304", mode="text")
    await shop.do("click", element=shop.number("Add to cart"))
    await shop.do("click", element=shop.number("Go to checkout"))
    await shop.do("type", element=shop.number("Full name"), text="Nora Quill")
    await shop.do("click", element=shop.number("Place order"))
    assert "The postcode must have 5 digits." in shop.text
    assert 'textbox "Full name" (= "Nora Quill")' in shop.text
    assert "first and last name" not in shop.text


async def test_the_wiki_suggests_articles_while_one_types(visit: Visit) -> None:
    wiki = await visit("wiki")
    await wiki.do("type", element=wiki.number("Search"), text="tern")
    assert 'link "Tern Light"' in wiki.text
    await wiki.do("click", element=wiki.number("Tern Skerries"))
    assert "Title: Tern Skerries" in wiki.text


async def test_a_table_is_sorted_by_the_heading_that_is_clicked(visit: Visit) -> None:
    wiki = await visit("wiki", "/wiki/List_of_lighthouses")
    column = "[...document.querySelectorAll('.paper tbody tr')].map(row => row.children[2].textContent)"
    await wiki.do("click", element=wiki.number("Built"))
    assert await wiki.page.evaluate(column) == ["1856", "1871", "1888", "1894", "1902"]
    await wiki.do("click", element=wiki.number("Built"))
    assert await wiki.page.evaluate(column) == ["1902", "1894", "1888", "1871", "1856"]


async def test_the_cookie_banner_stays_away_once_it_is_dismissed(visit: Visit) -> None:
    booking = await visit("booking")
    assert 'button "Only necessary"' in booking.text
    await booking.do("click", element=booking.number("Only necessary"))
    await booking.do("click", element=booking.number("My bookings"))
    assert "Only necessary" not in booking.text


async def test_an_accordion_hides_its_texts(visit: Visit) -> None:
    booking = await visit("booking", "/help", mode="text")
    assert "60 days" not in booking.text
    await booking.do("click", element=booking.number("Is there lost property?"))
    assert "60 days" in booking.text


async def test_cancelling_asks_first(visit: Visit) -> None:
    booking = await visit("booking", "/bookings/SM-7300", mode="text")
    result = await booking.do("click", element=booking.number("Cancel booking"))
    assert "A dialog (confirm) said 'Cancel SM-7300? $272 will be paid back.'" in result.content
    assert "SM-7300 was cancelled." in booking.text


async def test_a_choice_on_the_board_takes_effect_at_once(visit: Visit) -> None:
    tracker = await visit("tracker")
    assert "Title: Sign in" in tracker.text
    await tracker.do("type", element=tracker.number("Email"), text="maya@lumen.test")
    await tracker.do("type", element=tracker.number("Password"), text="wrong", submit=True)
    assert "Title: Sign in" in tracker.text
    await tracker.do("type", element=tracker.number("Password"), text="harbor-42", submit=True)
    assert "LUM-114" in tracker.text
    await tracker.do("select", element=tracker.number("Milestone"), option="3.0 Heron")
    assert "LUM-103 Dark mode" in tracker.text
    assert "LUM-114" not in tracker.text


@pytest.mark.parametrize(
    "path", ["shop/", "shop/c/teapots", "wiki/wiki/Tidewater_Ferries", "booking/", "tracker/login"]
)
async def test_pages_fit_the_window_and_no_script_fails(visit: Visit, path: str) -> None:
    name, _, rest = path.partition("/")
    driver = await visit(name)
    faults: list[str] = []
    driver.page.on("pageerror", lambda error: faults.append(str(error)))
    driver.page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    await driver.do("navigate", url=f"{driver.page.url.removesuffix('login')}{rest}")
    assert await driver.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert faults == []
