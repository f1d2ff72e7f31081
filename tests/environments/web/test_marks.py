"""Numbers on screenshots: they lie on their elements, leave text readable, and reach every element."""

from __future__ import annotations

import io

import numpy
import pytest
from numpy.typing import NDArray
from PIL import Image

from rollout.core.messages import ToolResult
from rollout.core.world import Opening
from tests.environments.web.conftest import Browsing
from tests.environments.web.site import PAGES, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

LISTS = ("set_of_marks", "text")
# Text in a colour that nothing else has.
DENSE = (
    "<!doctype html><title>Dense</title>"
    "<style>body{font:13px/1.3 sans-serif;margin:4px} *{color:#00f!important}</style>"
    + (
        "".join(
            f"<div style='display:inline-block;width:150px;margin:3px'><a href=/{n}>Trail tent {n}</a><br>{n}9.95 EUR "
            f"<s>99.00</s><br><button>Add</button> <a href=/c{n}>Compare</a></div>"
            for n in range(24)
        )
    )
)
PACKED = (
    "<!doctype html><title>Packed</title><style>body{font:13px/14px sans-serif;margin:4px;width:600px} "
    "a{color:#00f!important;text-decoration:none}</style>"
) + " ".join(f"<a href=/{n}>Topic {n}</a>" for n in range(300))
SHIFTING = """<!doctype html><title>Shifting</title><button style="width:90px;height:30px">First</button><script>
new MutationObserver((records, watcher) => {
  if (![...records].some((record) => [...record.addedNodes].some((node) => node.popover))) return;
  watcher.disconnect();
  document.body.insertAdjacentHTML('afterbegin', '<div style="height:200px"><button>Banner</button></div>');
}).observe(document.documentElement, {childList: true});
</script>"""
MOVING = """<!doctype html><title>Moving</title><style>
@keyframes glide {from {left: 0} to {left: 600px}} #css {animation: glide .9s linear infinite alternate}
button {position: absolute; width: 80px; height: 60px; border: 0; background: #0f0}
</style><button id=css style="top: 100px"></button>"""
# Moves its button whenever numbers are drawn, in the document or where no observer of the document sees it.
JUMPING = """<!doctype html><title>Jumping</title><div id=host></div><script>
const root = IN_SHADOW ? host.attachShadow({mode: 'open'}) : host;
root.innerHTML = '<button style="position:absolute;top:100px;left:0;width:80px;height:60px;border:0;background:#0f0">';
const button = root.querySelector('button');
new MutationObserver((records) => {
  if (![...records].some((record) => [...record.addedNodes].some((node) => node.popover))) return;
  button.style.left = (button.offsetLeft + 170) % 500 + 'px';
}).observe(document.documentElement, {childList: true});
</script>"""
LINKS = "<!doctype html><title>Links</title>" + " ".join(
    f"<a href=# onclick=\"document.title = 'went to {n}'\">Topic {n}</a>" for n in range(1, 401)
)
CATALOGUE = """<!doctype html><title>Catalogue</title><h2>Tents</h2>
<div>Fox 2, two persons <b>89.95 EUR</b> <button>Add Fox</button></div>
<div>Bear 4 <b>129.00 EUR</b> <button>Add Bear</button></div><p style="margin-top:2000px">Far away</p>
<div style="height:30px;overflow:auto">shown<p style="margin-top:300px">scrolled away</p></div>"""


def _pixels(shown: Opening | ToolResult) -> NDArray[numpy.int64]:
    return numpy.asarray(Image.open(io.BytesIO(shown.images[0].data)).convert("RGB")).astype(int)


def _span(mask: NDArray[numpy.bool_]) -> tuple[int, int]:
    """The first and the last column with a pixel."""
    columns = numpy.flatnonzero(mask.any(axis=0))
    return int(columns[0]), int(columns[-1])


async def test_labels_leave_the_text_of_a_dense_page_readable(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PAGES, "/dense", DENSE)

    async def ink(mode: str) -> int:
        driver = await browsing.driver(mode=mode).open(site.url("/dense"))
        pixels = _pixels(driver.opening)
        return int(((pixels[..., 2] > 200) & (pixels[..., 0] < 100) & (pixels[..., 1] < 100)).sum())

    assert await ink("set_of_marks") > 0.97 * await ink("coordinates")


async def test_labels_leave_rows_of_links_readable(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PAGES, "/packed", PACKED)

    async def ink(mode: str) -> int:
        driver = await browsing.driver(mode=mode, max_elements=150).open(site.url("/packed"))
        pixels = _pixels(driver.opening)[: 14 * 14]
        return int(((pixels[..., 2] > 200) & (pixels[..., 0] < 100) & (pixels[..., 1] < 100)).sum())

    assert await ink("set_of_marks") > 0.85 * await ink("coordinates")


async def test_a_page_that_shifts_while_it_is_numbered_is_taken_again(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PAGES, "/shifting", SHIFTING)
    driver = await browsing.driver().open(site.url("/shifting"))
    assert driver.number("Banner") < driver.number("First")
    data = driver.opening.data
    assert data is not None
    box = await driver.page.locator("text=First").bounding_box()
    assert data["elements"][-1]["box"][1] == round(box["y"])


async def test_a_box_lies_on_its_element_while_that_moves(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PAGES, "/moving", MOVING)
    driver = await browsing.driver().open(site.url("/moving"))
    pixels = _pixels(driver.opening)
    button = (pixels[..., 1] > 200) & (pixels[..., 0] < 60) & (pixels[..., 2] < 60)
    frame = (pixels == (0xD1, 0x11, 0x49)).all(axis=2)
    frame[:95] = False  # its label
    (left, right), (begin, end) = _span(button), _span(frame)
    assert abs(left - begin) <= 3
    assert abs(right - end) <= 3
    assert await driver.page.evaluate("document.getAnimations().every((one) => one.playState === 'running')")


@pytest.mark.parametrize("in_shadow", ["false", "true"])
async def test_a_box_lies_on_an_element_that_moves_when_it_is_numbered(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch, in_shadow: str
) -> None:
    monkeypatch.setitem(PAGES, "/jumping", JUMPING.replace("IN_SHADOW", in_shadow))
    driver = await browsing.driver().open(site.url("/jumping"))
    pixels = _pixels(driver.opening)
    button = (pixels[..., 1] > 200) & (pixels[..., 0] < 60) & (pixels[..., 2] < 60)
    frame = (pixels == (0xD1, 0x11, 0x49)).all(axis=2)
    frame[:95] = False  # its label
    (left, right), (begin, end) = _span(button), _span(frame)
    assert abs(left - begin) <= 3
    assert abs(right - end) <= 3


@pytest.mark.parametrize("mode", LISTS)
async def test_elements_beyond_the_first_part_are_listed_and_used(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setitem(PAGES, "/links", LINKS)
    driver = await browsing.driver(mode=mode, max_elements=150).open(site.url("/links"))
    assert driver.number("Topic 150") == 150
    assert "call more" in driver.text
    result = await driver.do("click", element=200)
    assert result.is_error
    assert "has the elements 1 to 150" in result.content
    listed = await driver.do("more")
    assert '"Topic 151"' in listed.content
    assert '"Topic 150"' not in listed.content
    assert driver.number("Topic 200") == 200
    calls = [{"element": 7}, {"element": 200}]
    for arguments in calls:
        # Both parts hold until the next observation; an error leaves them as they are.
        assert (await driver.do("select", **arguments, option="x")).is_error
    assert "Title: went to 200" in (await driver.do("click", element=200)).content


@pytest.mark.parametrize("mode", LISTS)
async def test_numbers_of_an_earlier_part_still_mean_the_same(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setitem(PAGES, "/links", LINKS)
    driver = await browsing.driver(mode=mode, max_elements=30).open(site.url("/links"))
    await driver.do("more")
    await driver.page.evaluate("document.querySelector('a').remove()")
    await driver.do("more")
    assert driver.number("Topic 61") == 61
    assert "Title: went to 7" in (await driver.do("click", element=7)).content


async def test_more_where_all_is_shown_says_so(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/"))
    result = await driver.do("more")
    assert result.is_error
    assert "all there is" in result.content


async def test_text_near_elements_stands_in_the_list(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PAGES, "/catalogue", CATALOGUE)
    driver = await browsing.driver().open(site.url("/catalogue"))
    lines = driver.text.splitlines()
    fox = lines.index('[1] button "Add Fox"')
    assert lines[fox - 2 :] == [
        "Tents",
        "Fox 2, two persons 89.95 EUR",
        '[1] button "Add Fox"',
        "Bear 4 129.00 EUR",
        '[2] button "Add Bear"',
    ]


async def test_text_under_a_dialog_or_scrolled_away_is_not_in_the_list(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PAGES, "/catalogue", CATALOGUE.replace("margin-top:2000px", "margin-top:20px"))
    driver = await browsing.driver().open(site.url("/catalogue"))
    assert "shown" in driver.text
    assert "scrolled away" not in driver.text
    veil = '<div style="position:fixed;inset:0;background:#fff">Cookies</div>'
    await driver.page.evaluate("(veil) => document.body.insertAdjacentHTML('beforeend', veil)", veil)
    result = await driver.do("wait", seconds=0.1)
    assert "Cookies" in result.content
    assert "Fox 2" not in result.content
