"""The mode `accessibility_tree`, and `full_text`, in a real browser."""

from __future__ import annotations

import pytest

from tests.environments.web.conftest import Browsing, Driver
from tests.environments.web.site import PAGES, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = """<!doctype html><title>Catalogue</title><header><a href=/>Home</a></header>
<nav aria-label=Main><ul><li><a href=/second>Tents</a></li></ul></nav>
<main><h1>Two <em>tents</em></h1><div><div><p>Both are <b>waterproof</b>.</p></div></div><section></section>
<table><tr><th>Name</th><th>Price</th></tr><tr><td>Fox</td><td>89.95</td></tr>
<tr><td>Bear</td><td><button onclick="this.closest('tr').remove()">Remove</button></td></tr></table>
<ul><li>Light</li><li>Dry</li></ul><label>Search <input value=fox></label>
<span aria-hidden=true>decoration</span><p hidden>secret</p>
<button onclick="document.querySelector('h1').insertAdjacentHTML('afterend', '<button>New</button>')">Add</button>
</main>"""
LONG = "<!doctype html><title>Long</title>" + "".join(f"<p>Paragraph {n} of the text.</p>" for n in range(800))


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch, site: Site) -> str:
    monkeypatch.setitem(PAGES, "/catalogue", PAGE)
    return site.url("/catalogue")


async def _open(browsing: Browsing, url: str) -> Driver:
    return await browsing.driver(mode="accessibility_tree").open(url)


async def test_the_tree_tells_roles_names_and_text_and_nothing_empty(browsing: Browsing, catalogue: str) -> None:
    driver = await _open(browsing, catalogue)
    assert not driver.opening.images
    assert driver.text.partition("\n\n")[2].splitlines() == [
        "banner",
        ' [1] link "Home"',
        'navigation "Main"',
        " list",
        "  listitem",
        '   [2] link "Tents"',
        "main",
        ' heading "Two tents" (level 1)',
        ' StaticText "Both are waterproof."',
        " table",
        '  row "Name | Price"',
        '  row "Fox | 89.95"',
        '  row "Bear | Remove"',
        '   [3] button "Remove"',
        " list",
        '  listitem "Light"',
        '  listitem "Dry"',
        ' [4] textbox "Search" (= "fox")',
        ' [5] button "Add"',
    ]


async def test_an_element_keeps_its_number_while_it_stays(browsing: Browsing, catalogue: str, site: Site) -> None:
    driver = await _open(browsing, catalogue)
    add, remove = driver.number("Add"), driver.number("Remove")
    await driver.do("click", element=add)
    assert driver.number("Add") == add
    assert driver.number("Remove") == remove
    new = driver.number("New")
    assert new > max(add, remove), "although it stands before them"
    await driver.do("click", element=remove)
    assert driver.number("New") == new
    result = await driver.do("click", element=remove)
    assert result.is_error
    assert "no longer on the page" in result.content
    await driver.do("type", element=driver.number("Search"), text="bear")
    assert '[4] textbox "Search" (= "bear")' in driver.text
    assert "Title: Second" in (await driver.do("click", element=driver.number("Tents"))).content
    assert driver.number("Home") == 1, "a new document begins again"


async def test_frames_of_other_origins_are_part_of_it_with_numbers_that_stay(browsing: Browsing, site: Site) -> None:
    async with Site() as other:
        driver = browsing.driver(mode="accessibility_tree")
        await driver.open(site.url(f"/outer?to={other.url('/')}"), private_hosts=[site.host, other.host])
        buy = driver.number("Buy now")
        await driver.do("click", element=buy)
        assert await driver.page.frames[1].inner_text("#out") == "bought"
        assert driver.number("Buy now") == buy
        await driver.do("type", element=driver.number("Search"), text="tea")
        assert await driver.page.frames[1].input_value("input[name=q]") == "tea"


async def test_a_tree_that_is_cut_goes_on_with_more(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver(mode="accessibility_tree", max_text=150).open(site.url("/"))
    assert "Far below" not in driver.text
    texts = [driver.text]
    while "call more" in texts[-1]:
        texts.append((await driver.do("more")).content)
    assert 2 < len(texts) < 12
    assert '"Far below"' in texts[-1]
    assert "Title: Second" in (await driver.do("click", element=driver.number("Far below"))).content


@pytest.mark.parametrize("mode", ["coordinates", "set_of_marks", "text", "accessibility_tree"])
async def test_full_text_reads_beyond_the_window(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setitem(PAGES, "/long", LONG)
    driver = await browsing.driver(mode=mode, max_text=10_000).open(site.url("/long"))
    first = await driver.do("full_text")
    assert f"Text of {site.url('/long')}, part 1 of 3:" in first.content
    assert "Paragraph 0 of" in first.content
    last = await driver.do("full_text", part=3)
    assert "Paragraph 799 of" in last.content
    assert not last.images
    assert (await driver.do("full_text", part=4)).is_error
    assert await driver.page.evaluate("scrollY") == 0


async def test_full_text_leaves_the_numbers_of_the_observation(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/"))
    number = driver.number("Buy now")
    read = await driver.do("full_text")
    assert "Far below" in read.content
    assert "Title: bought" in (await driver.do("click", element=number)).content
