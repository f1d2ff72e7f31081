"""Typing, scrolling, dragging, tabs and files, on pages that react to each."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from rollout.config.browsing import WebSettings
from rollout.core.calls import CallReader
from rollout.core.errors import ConfigError
from rollout.core.messages import ToolCall
from rollout.core.world import Invocation
from rollout.environments.web.actions import ACTIONS, toolset_of
from rollout.environments.web.keys import key_name
from tests.environments.web.conftest import Browsing
from tests.environments.web.site import PAGES, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

CODE = (
    "<!doctype html><title>Code</title>"
    + "".join(f"<input maxlength=1 size=1 aria-label='Digit {n}'>" for n in range(1, 7))
    + """<script>
for (const box of document.querySelectorAll('input'))
  box.addEventListener('input', () => box.nextElementSibling?.focus?.());
</script>"""
)
LATE_CODE = CODE.replace(
    "() => box.nextElementSibling?.focus?.()", "() => setTimeout(() => box.nextElementSibling?.focus?.(), 15)"
)
LATER_CODE = CODE.replace(
    "'input', () => box.nextElementSibling?.focus?.()",
    "'keyup', () => setTimeout(() => box.nextElementSibling?.focus?.(), 100)",
)
RICH = """<!doctype html><title>Rich</title>
<div contenteditable role=textbox aria-label=Letter><p>Dear all</p></div>
<div contenteditable=plaintext-only aria-label=Note>old</div>"""
TERMS = """<!doctype html><title>Terms</title><div style="height:150px;overflow:auto">
<p style="height:600px">clauses</p></div><button disabled>Accept</button><script>
const terms = document.querySelector('div');
terms.onscroll = () => { if (terms.scrollTop > 400) document.querySelector('button').disabled = false; };</script>"""
SHUT = """<!doctype html><title>Shut</title><button onclick="panel.style.height = ''">Open</button>
<div id=panel style="height:0;overflow:hidden"><a href="#inside">Inside</a></div>"""
MENU = """<!doctype html><title>Menu</title><p id=text style="width:200px;height:60px;background:#eee">one two</p>
<script>text.oncontextmenu = (event) => { event.preventDefault(); document.title = 'menu'; };
text.onclick = (event) => { document.title = `click ${event.detail}`; };</script>"""
KEYS = """<!doctype html><title>Keys</title><input id=heard aria-label=Heard><input id=plain aria-label=Plain>
<script>const keys = []; document.getElementById('heard').onkeydown = (event) => {
  keys.push(event.key); document.title = keys.join(''); };</script>"""
DELEGATED = """<!doctype html><title>Delegated</title><div id=root><form><input aria-label=Search></form></div><script>
let count = 0;
root.addEventListener('input', () => document.title = `heard ${++count}`);
root.addEventListener('submit', (event) => { event.preventDefault(); document.title = 'submitted'; });</script>"""
CONTAINER = """<!doctype html><title>Container</title>
<div id=box style="height:200px;overflow:auto" tabindex=0 aria-label=Box>
<div style="height:3000px">inside</div></div><div style="height:3000px"></div>"""
DRAG = """<!doctype html><title>Drag</title><div id=card draggable=true tabindex=0 role=button
style="width:100px;height:50px;background:#cdf">Card</div><div id=list tabindex=0 role=button aria-label=Done
style="width:200px;height:200px;margin-top:100px;background:#eee"></div><script>
card.ondragstart = (event) => event.dataTransfer.setData('text', 'card');
list.ondragover = (event) => event.preventDefault();
list.ondrop = (event) => { list.append(card); document.title = 'dropped ' + event.dataTransfer.getData('text'); };
</script>"""
UPLOAD = """<!doctype html><title>Upload</title><input type=file aria-label="Your file">
<button onclick="document.querySelector('input').click()">Choose</button><button>Nothing</button><script>
document.querySelector('input').onchange = async (event) => {
  const [file] = event.target.files; document.title = `${file.name} ${file.type} ${await file.text()}`; };</script>"""
FILES = [
    {"name": "cv.txt", "text": "hello"},
    {"name": "photo.png", "base64": base64.b64encode(b"picture").decode()},
]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    def serve(html: str) -> str:
        monkeypatch.setitem(PAGES, "/input", html)
        return "/input"

    return serve


@pytest.mark.parametrize("html", [CODE, LATE_CODE, LATER_CODE])
async def test_a_code_typed_into_one_digit_boxes_fills_them_all(
    browsing: Browsing, site: Site, page: Any, html: str
) -> None:
    driver = await browsing.driver().open(site.url(page(html)))
    await driver.do("type", element=driver.number("Digit 1"), text="123456")
    values = "[...document.querySelectorAll('input')].map((box) => box.value).join('')"
    assert await driver.page.evaluate(values) == "123456"


async def test_lines_typed_into_an_editor_stay_in_order(browsing: Browsing, site: Site, page: Any) -> None:
    driver = await browsing.driver(mode="text").open(site.url(page(RICH)))
    await driver.do("type", element=driver.number("Letter"), text="one\ntwo")
    await driver.do("type", element=driver.number("Letter"), text=" and more", append=True)
    text = await driver.page.evaluate("document.querySelector('div').innerText")
    assert text.replace("\xa0", " ").strip() == "one\ntwo and more"


@pytest.mark.parametrize("mode", ["set_of_marks", "text", "accessibility_tree"])
async def test_an_editor_of_plain_text_is_a_field(browsing: Browsing, site: Site, page: Any, mode: str) -> None:
    driver = await browsing.driver(mode=mode).open(site.url(page(RICH)))
    assert 'textbox "Note" (= "new")' in (await driver.do("type", element=driver.number("Note"), text="new")).content


@pytest.mark.parametrize("mode", ["set_of_marks", "text", "accessibility_tree"])
async def test_a_box_of_text_that_scrolls_has_a_number(browsing: Browsing, site: Site, page: Any, mode: str) -> None:
    driver = await browsing.driver(mode=mode).open(site.url(page(TERMS)))
    assert "[1] scrollable" in driver.text
    assert "clauses" in driver.text
    for _ in range(5):
        await driver.do("scroll", element=1, direction="down")
    assert 'button "Accept" (disabled)' not in driver.text


async def test_what_is_clipped_away_cannot_be_seen(browsing: Browsing, site: Site, page: Any) -> None:
    driver = await browsing.driver(mode="text").open(site.url(page(SHUT)))
    result = await driver.do("click", element=driver.number("Inside"))
    assert "cannot be seen now; open or scroll to what holds it" in result.content
    await driver.do("click", element=driver.number("Open"))
    assert "#inside" in (await driver.do("click", element=driver.number("Inside"))).content


@pytest.mark.parametrize("mode", ["set_of_marks", "coordinates"])
async def test_a_frame_of_another_origin_scrolls_before_the_page(
    browsing: Browsing, site: Site, page: Any, mode: str
) -> None:
    other = site.url("/tall-frame").replace("127.0.0.1", "localhost")
    frame = f'<!doctype html><iframe src="{other}" width=400 height=300></iframe><p style="height:2000px">below</p>'
    PAGES["/tall-frame"] = "<button>First</button><p style='height:600px'>middle</p><button>Last</button>"
    try:
        hosts = [site.host, site.host.replace("127.0.0.1", "localhost")]
        driver = await browsing.driver(mode=mode).open(site.url(page(frame)), private_hosts=hosts)
        place = {"element": driver.number("First")} if mode == "set_of_marks" else {"x": 100, "y": 100}
        await driver.do("scroll", **place, direction="down")
        inner = driver.page.frames[1]
        assert await inner.evaluate("scrollY") > 200
        assert await driver.page.evaluate("scrollY") == 0
        place = {"x": 100, "y": 100} if mode == "coordinates" else {}
        for _ in range(3):
            result = await driver.do("scroll", **place, direction="down")
        assert "nothing more to scroll" not in result.content
        assert await driver.page.evaluate("scrollY") > 0
    finally:
        del PAGES["/tall-frame"]


async def test_a_field_that_listens_gets_every_key(browsing: Browsing, site: Site, page: Any) -> None:
    driver = await browsing.driver().open(site.url(page(KEYS)))
    assert "Title: tea" in (await driver.do("type", element=driver.number("Heard"), text="tea")).content
    result = await driver.do("type", element=driver.number("Plain"), text="a long text at once")
    assert 'textbox "Plain" (= "a long text at once")' in result.content


async def test_a_page_that_listens_further_out_gets_every_input(browsing: Browsing, site: Site, page: Any) -> None:
    driver = await browsing.driver().open(site.url(page(DELEGATED)))
    place = {"element": driver.number("Search")}
    assert "Title: heard 5" in (await driver.do("type", **place, text="green")).content
    result = await driver.do("type", **place, text="two\nlines")
    assert 'textbox "Search" (= "two lines")' in result.content
    assert "submitted" not in result.content


async def test_typing_without_a_place_goes_to_the_cursor(browsing: Browsing, site: Site, page: Any) -> None:
    driver = await browsing.driver().open(site.url(page(KEYS)))
    refused = await driver.do("type", text="tea")
    assert refused.is_error
    assert "no field has the focus" in refused.content
    await driver.do("click", element=driver.number("Plain"))
    await driver.do("type", text="green ")
    assert '"Plain" (= "green tea")' in (await driver.do("type", text="tea")).content
    await driver.do("press", key="ctrl+a")
    assert '"Plain" (= "mug")' in (await driver.do("type", text="mug")).content
    await driver.do("click", element=driver.number("Plain"), triple=True)
    assert '"Plain" (= "pot")' in (await driver.do("type", text="pot")).content


async def test_other_buttons_of_the_mouse_and_more_clicks(browsing: Browsing, site: Site, page: Any) -> None:
    driver = await browsing.driver(mode="coordinates").open(site.url(page(MENU)))
    assert "Title: menu" in (await driver.do("click", x=50, y=50, button="right")).content
    assert "Title: click 3" in (await driver.do("click", x=50, y=50, triple=True)).content


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("Return", "Enter"),
        ("enter", "Enter"),
        ("ctrl+c", "Control+c"),
        ("Control_L+a", "Control+a"),
        ("CMD + A", "ControlOrMeta+A"),
        ("page_down", "PageDown"),
        ("Page Down", "PageDown"),
        ("alt+left", "Alt+ArrowLeft"),
        ("ctrl++", "Control++"),
        ("f5", "F5"),
        ("esc", "Escape"),
        ("+", "+"),
        ("é", "é"),
        ("Control+A", "Control+A"),
        ("Nowhere", "Nowhere"),
    ],
)
async def test_keys_have_the_names_that_models_give_them(given: str, name: str) -> None:
    assert key_name(given) == name


async def test_a_drag_may_begin_where_the_mouse_is(browsing: Browsing, site: Site, page: Any) -> None:
    driver = await browsing.driver(mode="coordinates").open(site.url(page(DRAG)))
    assert "both x and y are needed" in (await driver.do("drag", to_x=100, to_y=250)).content
    await driver.do("hover", x=50, y=30)
    assert "Title: dropped card" in (await driver.do("drag", to_x=100, to_y=250)).content


async def test_a_container_is_scrolled_by_its_own_height(browsing: Browsing, site: Site, page: Any) -> None:
    driver = await browsing.driver().open(site.url(page(CONTAINER)))
    await driver.do("scroll", element=driver.number("Box"), direction="down")
    assert await driver.page.evaluate("[scrollY, box.scrollTop]") == [0, 170]


@pytest.mark.parametrize("mode", ["coordinates", "set_of_marks"])
async def test_a_card_is_dragged_onto_a_list(browsing: Browsing, site: Site, page: Any, mode: str) -> None:
    driver = await browsing.driver(mode=mode).open(site.url(page(DRAG)))
    if mode == "coordinates":
        result = await driver.do("drag", x=50, y=30, to_x=100, to_y=250)
    else:
        result = await driver.do("drag", element=driver.number("Card"), to_element=driver.number("Done"))
    assert "Title: dropped card" in result.content


async def test_tabs_are_switched_and_closed(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/popup"))
    result = await driver.do("close_tab")
    assert result.is_error
    assert "only tab" in result.content
    assert "2. Second (this one)" in (await driver.do("click", element=driver.number("Open"))).content
    result = await driver.do("switch_tab", tab=1)
    assert "Title: Opener" in result.content
    assert "1. Opener (this one)" in result.content
    result = await driver.do("switch_tab", tab=3)
    assert result.is_error
    assert "there are 1 to 2" in result.content
    result = await driver.do("close_tab", tab=2)
    assert "Title: Opener" in result.content
    assert "Tabs:" not in result.content


@pytest.mark.parametrize("target", ["Your file", "Choose"])
async def test_a_file_that_the_task_declares_is_uploaded(
    browsing: Browsing, site: Site, page: Any, target: str
) -> None:
    driver = await browsing.driver().open(site.url(page(UPLOAD)), files=FILES)
    assert "Note: Files that can be uploaded: cv.txt, photo.png" in driver.text
    await driver.do("upload", element=driver.number(target), file="cv.txt")
    assert await driver.shows("Title: cv.txt text/plain hello")
    await driver.do("upload", element=driver.number(target), file="photo.png")
    assert await driver.shows("Title: photo.png image/png picture")


async def test_no_file_of_the_machine_is_uploaded(browsing: Browsing, site: Site, page: Any) -> None:
    driver = await browsing.driver().open(site.url(page(UPLOAD)), files=FILES)
    result = await driver.do("upload", element=driver.number("Your file"), file="/etc/hostname")
    assert result.is_error
    assert "there are: cv.txt, photo.png" in result.content
    result = await driver.do("upload", element=driver.number("Nothing"), file="cv.txt")
    assert result.is_error
    assert "asked for no file" in result.content
    for wrong in ([{"name": "a", "path": "/etc/hostname"}], [{"name": "../a", "text": ""}], [{"name": "a"}], "cv.txt"):
        with pytest.raises(ConfigError, match=r"task t: files: "):
            await browsing.driver().open(site.url("/"), files=wrong)


async def test_a_number_may_be_written_as_a_string() -> None:
    reader = CallReader(toolset_of(WebSettings()))
    read = reader.read(ToolCall("1", "click", '{"element": "12"}'))
    assert isinstance(read, Invocation)
    assert read.arguments == {"element": 12}
    assert not isinstance(reader.read(ToolCall("2", "click", '{"element": "twelve"}')), Invocation)
    assert not isinstance(reader.read(ToolCall("3", "click", '{"element": "0"}')), Invocation)


async def test_every_action_is_a_tool_of_some_mode() -> None:
    modes = [toolset_of(WebSettings(mode=mode)).by_name for mode in ("coordinates", "set_of_marks")]
    assert modes[0].keys() | modes[1].keys() == ACTIONS
    assert {"drag", "switch_tab", "close_tab", "upload"} <= modes[0].keys()
