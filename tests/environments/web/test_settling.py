"""When a page is observed: after what an action has set going, and not after what never ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any
from unittest.mock import Mock

import pytest
import pytest_asyncio
from aiohttp import web

from rollout.core.messages import ToolResult
from rollout.environments.web.settling import PendingRequests
from tests.environments.web.conftest import Browsing, Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")
UNSETTLED = "had not settled"
# The bound is far away, so that a busy machine does not reach it where the page comes to rest.
PATIENT: dict[str, Any] = {"settle_timeout": 20.0, "step_timeout": 60.0, "load_timeout": 20.0}
HASTY: dict[str, Any] = {"settle_timeout": 0.5, "step_timeout": 60.0}
PAGES = {
    "/search": """<label>Find <input id=q></label><ul id=found></ul><script>
let timer;
q.addEventListener('input', () => {
  clearTimeout(timer);
  timer = setTimeout(() => fetch('/suggest?q=' + q.value).then((r) => r.text()).then((t) => {
    found.innerHTML = t.split(',').map((each) => `<li><button>${each}</button></li>`).join('');
  }), 300);
});</script>""",
    "/late": """<main id=main>Loading…</main><script>
fetch('/suggest?q=late').then((r) => r.text()).then((t) => setTimeout(() => {
  main.innerHTML = `<button>${t}</button>`;
}, 500));</script>""",
    "/empty-at-first": """<div id=root></div><script type=module>
const channel = new MessageChannel();
let left = 400;
channel.port1.onmessage = () => performance.now() > left
  ? root.innerHTML = '<button>Here I am</button>' : channel.port2.postMessage(0);
channel.port2.postMessage(0);
</script>""",
    "/panel": """<style>#panel{opacity:0;visibility:hidden;transition:visibility .6s step-end, opacity .6s}
.open #panel{opacity:1;visibility:visible;transition:visibility .6s step-end, opacity .6s}</style>
<button onclick="document.body.classList.add('open')">Open</button><div id=panel><button>Inside</button></div>""",
    "/scroll": """<div id=list></div><script>
let count = 0, timer = null;
const more = () => { for (let i = 0; i < 30; i++) list.insertAdjacentHTML('beforeend',
  `<p style="height:60px"><button>Row ${++count}</button></p>`); timer = null; };
more();
addEventListener('scroll', () => {
  if (!timer && innerHeight + scrollY > document.body.scrollHeight - 200) timer = setTimeout(more, 700);
});</script>""",
    "/restless": """<style>@keyframes turn{to{transform:rotate(360deg)}}
#spin{width:20px;height:20px;background:red;animation:turn 1s linear infinite}</style><div id=spin></div>
<p id=clock></p><p id=ticks></p><button onclick="document.title = 'pressed'">Press</button><script>
setInterval(() => clock.textContent = performance.now(), 20);
setInterval(() => document.body.append(' '), 20);
setInterval(() => fetch('/suggest?q=poll'), 100);
(function tick() { ticks.dataset.at = performance.now(); setTimeout(tick, 150); })();
fetch('/never');
</script>""",
    "/by-script": """<div id=panel style="height:0;overflow:hidden"><button>Inside</button></div><button>Open</button>
<script>document.querySelector('body > button').onclick = () => {
  const start = performance.now();
  (function grow() {
    const part = Math.min(1, (performance.now() - start) / 600);
    panel.style.height = part < 1 ? part * 2 + 'px' : '60px';
    if (part < 1) requestAnimationFrame(grow);
  })();
};</script>""",
    "/turning": """<div id=wheel>Wheel</div><button>Press</button><script>
(function turn() { wheel.style.transform = `rotate(${performance.now() / 9}deg)`; requestAnimationFrame(turn); })();
</script>""",
    "/scheduled": """<button>Ask</button><p id=said></p><script>
const channel = new MessageChannel();
let until;
channel.port1.onmessage = () => {
  if (performance.now() > until) said.textContent = 'Rendered'; else channel.port2.postMessage(0);
};
document.querySelector('button').onclick = () => fetch('/suggest?q=x').then((r) => r.text()).then(() => {
  until = performance.now() + 90;
  channel.port2.postMessage(0);
});</script>""",
    "/numbered": """<button>Ask</button><script>
let drawn = 0;
new MutationObserver((records) => {
  drawn += records.filter((record) => [...record.addedNodes].some((node) => node.popover)).length;
}).observe(document.documentElement, {childList: true});
</script><script src="/suggest?q=x"></script>""",
    "/ticks": """<button>Count</button><p id=count></p><script>
document.querySelector('button').onclick = () => {
  let left = 3;
  const ticking = setInterval(() => { if (!--left) { clearInterval(ticking); count.textContent = 'Lift off'; } }, 150);
};</script>""",
    "/clock": """<button>Press</button><p id=clock></p><script>
setInterval(() => { clock.textContent = new Date().toISOString(); }, 900);
</script>""",
    "/open-root": "<x-panel data-mode=open></x-panel>",
    "/closed-root": "<x-panel data-mode=closed></x-panel><button id=outside>Open</button>",
    "/irregular": """<button>Press</button><p id=clock></p><script>
let wait = 0;
(function tick() { clock.textContent = performance.now();
  wait = (wait * 7 + 37) % 300; setTimeout(tick, 100 + wait); })();
</script>""",
    "/writes": """<button onclick="window.open('').document.write('<p>Written</p>')">Print view</button>
<button onclick="document.open(); document.write('<p>Written</p>')">Replace</button>""",
    "/slow-links": """<a href=/never>Now</a>
<button onclick="setTimeout(() => { location = '/never'; }, 200)">Soon</button>""",
    "/far": """<button onclick="setTimeout(() => document.title = 'much later', 5000)">Later</button>""",
    "/quiet": "<button onclick=\"document.title = 'pressed'\">Press</button>",
    "/looks": """<p id=out></p><script>
const watched = [setTimeout, setInterval, clearTimeout, clearInterval, Element.prototype.attachShadow];
const shown = [...watched, Function.prototype.toString].map((each) => each.toString());
const natural = ['setTimeout', 'setInterval', 'clearTimeout', 'clearInterval', 'attachShadow', 'toString']
  .map((name) => `function ${name}() { [native code] }`);
const own = Object.getOwnPropertyNames(window).filter((name) => /rollout|settling/i.test(name));
const frame = document.createElement('iframe');
document.body.append(frame);
const other = Object.getOwnPropertyNames(frame.contentWindow);
const added = Object.getOwnPropertyNames(window).filter((name) => !other.includes(name))
  .filter((name) => !['out', 'watched', 'shown', 'natural', 'own', 'frame', 'other', 'added', '0'].includes(name));
const id = setTimeout('done = 1', '50'), bad = [setTimeout.name, setTimeout.length, typeof id].join();
document.title = JSON.stringify([String(shown) === String(natural), own, added, bad]);
</script>""",
    "/frame": """<p>Outside</p><iframe srcdoc="
<button onclick=&quot;setTimeout(() => this.textContent = 'Changed', 400)&quot;>Change</button>"></iframe>""",
}

PANEL = """<script>customElements.define('x-panel', class extends HTMLElement {
  constructor() {
    super();
    const root = this.attachShadow({mode: this.dataset.mode});
    root.innerHTML = `<style>.panel{visibility:hidden;transition:visibility .6s step-end}
      .open{visibility:visible}</style><button>Open</button><div class=panel><button>Inside</button></div>`;
    const panel = root.querySelector('.panel');
    panel.addEventListener('transitionend', () => { document.title = 'opened'; });
    for (const button of [root.querySelector('button'), window.outside].filter(Boolean))
      button.onclick = () => panel.classList.add('open');
  }
});</script>"""
PAGES |= {path: PAGES[path] + PANEL for path in ("/open-root", "/closed-root")}


class BusySite:
    """Serves the pages above, and words to search for."""

    def __init__(self) -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        self._end = asyncio.Event()

    async def __aenter__(self) -> BusySite:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/never":
            await self._end.wait()
        if request.path == "/suggest":
            word = request.query["q"]
            return web.Response(text=f"{word} one,{word} two")
        page = PAGES.get(request.path, "")
        return web.Response(text=f"<!doctype html><title>Page</title><body>{page}", content_type="text/html")


@pytest_asyncio.fixture(loop_scope="session")
async def busy_site() -> AsyncIterator[BusySite]:
    async with BusySite() as site:
        yield site


async def opened(browsing: Browsing, site: BusySite, path: str, **settings: Any) -> Driver:
    return await browsing.driver(**settings or PATIENT).open(site.address + path)


def is_settled(result: ToolResult) -> bool:
    assert result.data is not None
    assert (UNSETTLED in result.content) == ("busy" in result.data)
    return "busy" not in result.data


async def test_debounced_search_shows_its_suggestions(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/search")
    for word in ("tea", "cup", "pot", "mug", "jar"):
        result = await driver.do("type", element=driver.number("Find"), text=word)
        assert f'"{word} two"' in result.content
        assert is_settled(result)


async def test_page_that_renders_late_is_shown_rendered(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/late")
    assert '"late one,late two"' in driver.text
    driver = await opened(browsing, busy_site, "/empty-at-first")
    assert '"Here I am"' in driver.text


async def test_transition_is_waited_for(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/panel")
    assert "Inside" not in driver.text
    result = await driver.do("click", element=driver.number("Open"))
    assert '"Inside"' in result.content
    assert is_settled(result)


async def test_what_a_script_animates_is_waited_for(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/by-script")
    result = await driver.do("click", element=driver.number("Open"))
    assert '"Inside"' in result.content
    assert is_settled(result)


async def test_what_a_script_turns_for_ever_does_not_hold_a_page_up(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/turning")
    assert is_settled(await driver.do("click", element=driver.number("Press")))
    assert driver.opening.data is not None
    assert "busy" not in driver.opening.data


@pytest.mark.parametrize("path", ["/open-root", "/closed-root"])
async def test_transition_in_a_shadow_root_is_waited_for(browsing: Browsing, busy_site: BusySite, path: str) -> None:
    driver = await opened(browsing, busy_site, path)
    result = await driver.do("click", element=driver.number("Open"))
    assert "Title: opened" in result.content
    assert is_settled(result)


async def test_first_ticks_of_an_interval_are_waited_for(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/ticks")
    result = await driver.do("click", element=driver.number("Count"))
    assert "Lift off" in result.content
    assert is_settled(result)


async def test_clock_does_not_hold_a_page_up(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/clock")
    assert driver.opening.data is not None
    assert "busy" not in driver.opening.data
    assert is_settled(await driver.do("click", element=driver.number("Press")))


async def test_clock_of_changing_delays_does_not_hold_a_page_up(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/irregular")
    for _ in range(3):
        assert is_settled(await driver.do("click", element=driver.number("Press")))


@pytest.mark.parametrize("name", ["Print view", "Replace"])
async def test_document_that_a_script_wrote_and_left_open_is_not_waited_for(
    browsing: Browsing, busy_site: BusySite, name: str
) -> None:
    driver = await opened(browsing, busy_site, "/writes", load_timeout=30, step_timeout=15)
    result = await driver.do("click", element=driver.number(name))
    assert "Written" in result.content
    assert "still loading" not in result.content


async def test_what_a_closed_tab_had_asked_for_is_not_waited_for() -> None:
    requests = PendingRequests()
    pages = [Mock(), Mock()]
    for page in pages:
        requests.add(Mock(resource_type="document", url="http://shop.test/", frame=Mock(page=page)))
    requests.discard_page(pages[0])
    assert requests.has_any
    requests.discard_page(pages[1])
    assert not requests.has_any


async def test_page_gets_a_moment_after_an_answer_that_came_while_it_was_waited_for(
    browsing: Browsing, busy_site: BusySite
) -> None:
    """As pages whose framework renders in portions do, or any page on a machine that is busy."""
    driver = await opened(browsing, busy_site, "/scheduled")
    result = await driver.do("click", element=driver.number("Ask"))
    assert "Rendered" in result.content
    assert is_settled(result)


async def test_page_whose_requests_are_waited_for_is_numbered_once(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/numbered")
    assert await driver.page.evaluate("drawn") == 1


async def test_infinite_scroll_brings_more(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/scroll")
    for _ in range(3):
        result = await driver.do("scroll", direction="down", pages=10)
        assert result.data is not None
        assert result.data["below"] > 1000


async def test_timers_in_frames_count(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/frame")
    assert '"Changed"' in (await driver.do("click", element=driver.number("Change"))).content


async def test_what_never_ends_is_waited_for_once(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/restless", settle_timeout=2.0, step_timeout=60.0)
    assert driver.opening.data is not None
    assert {"requests", "changes"} & set(driver.opening.data["busy"])
    results = [await driver.do("click", element=driver.number("Press")) for _ in range(5)]
    assert "Title: pressed" in results[-1].content
    assert is_settled(results[-1])
    assert is_settled(results[-2])


async def test_what_takes_too_long_is_told(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/search", **HASTY)
    await driver.page.evaluate("addEventListener('keydown', () => fetch('/never'))")
    result = await driver.do("press", key="a")
    assert not is_settled(result)
    assert result.data is not None
    assert result.data["busy"] == ["requests"]
    assert is_settled(await driver.do("press", key="b")), "it costs a step its time once"


async def test_longer_timers_are_not_waited_for(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/far")
    result = await driver.do("click", element=driver.number("Later"))
    assert is_settled(result)
    assert "Title: Page" in result.content


async def test_page_cannot_tell_that_its_timers_are_watched(browsing: Browsing, busy_site: BusySite) -> None:
    driver = await opened(browsing, busy_site, "/looks")
    assert 'Title: [true,[],[],"setTimeout,1,number"]' in driver.text
    assert await driver.page.evaluate("() => window.done") == 1, "timers work as they did"


@pytest.mark.parametrize("name", ["Now", "Soon"])
async def test_page_whose_link_is_never_answered_is_shown_and_can_be_used(
    browsing: Browsing, busy_site: BusySite, name: str
) -> None:
    driver = await opened(browsing, busy_site, "/slow-links", load_timeout=0.5, step_timeout=30)
    result = await driver.do("click", element=driver.number(name))
    assert "The next page did not answer within 0.5 s. Its loading was stopped." in result.content
    assert "Title: Page" in result.content
    assert "did not answer" not in (await driver.do("wait", seconds=0.01)).content
