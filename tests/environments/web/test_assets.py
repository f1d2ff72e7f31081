"""Pages whose parts come from other hosts: any public host may serve them, and none of them may be the page itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from rollout.config.schema import Config
from rollout.core.messages import Message
from rollout.environments.web.refusals import RefusedHosts
from rollout.environments.web.sites import Sites
from rollout.environments.web.world import BrowserWorld
from rollout.pipelines.run import open_run
from rollout.testing import StubServer
from tests.conftest import write_tasks
from tests.environments.web.conftest import QUICK, Browsing, Driver
from tests.environments.web.site import Site
from tests.trajectories.lines import trajectory

pytestmark = pytest.mark.asyncio(loop_scope="session")
MAIN = "http://main.test"
CDN = "http://cdn.test"
START = f"""<!doctype html><title>Main</title><link rel=stylesheet href={CDN}/style.css><p id=out>Loading</p>
<script src={CDN}/lib.js></script>
<a href={CDN}/page>Leave</a><a href=/redirect>Around</a><a href={CDN}/page target=_blank>New tab</a>
<button onclick="window.open('{CDN}/page')">Pop up</button><button onclick="location = '{CDN}/page'">By script</button>
<form action={CDN}/page method=post><button>Send</button></form>
<button onclick="document.body.append(frame)">Frame</button>
<button onclick="reach('127.0.0.1')">Inside</button><button onclick="reach('localhost')">Name</button><script>
const frame = Object.assign(document.createElement('iframe'), {{src: '{CDN}/page'}});
const reach = (host) => fetch(`http://${{host}}:${{location.hash.slice(1)}}`).catch(() => document.title = 'kept in');
</script>"""


class TwoSites:
    """A site, and a host with its assets, as the proxy resolves them."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.sites = Sites({"main": self._main, "cdn": self._cdn})

    def _main(self) -> web.Application:
        async def show(request: web.Request) -> web.Response:
            if request.path == "/redirect":
                raise web.HTTPFound(f"{CDN}/page")
            return web.Response(text=START, content_type="text/html")

        return _app(show)

    def _cdn(self) -> web.Application:
        async def show(request: web.Request) -> web.Response:
            self.asked[request.path] += 1
            text, kind = {
                "/lib.js": ("out.innerHTML = '<button>Made by a library</button>'", "text/javascript"),
                "/style.css": ("p { color: red }", "text/css"),
            }.get(request.path, ("<title>Elsewhere</title><button>Foreign</button>", "text/html"))
            return web.Response(text=text, content_type=kind, headers={"Access-Control-Allow-Origin": "*"})

        return _app(show)


def _app(show: Any) -> web.Application:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", show)
    return app


@pytest_asyncio.fixture(loop_scope="session")
async def two_sites() -> AsyncIterator[TwoSites]:
    two = TwoSites()
    yield two
    await two.sites.close()


async def opened(browsing: Browsing, two: TwoSites, url: str = MAIN, **settings: Any) -> Driver:
    chosen = QUICK.model_copy(update={"assets": "public"} | settings)
    driver = browsing.take(BrowserWorld(browsing.shared, chosen, two.sites))
    return await driver.open(url, private_hosts=[])


async def test_assets_come_from_any_public_host(browsing: Browsing, two_sites: TwoSites) -> None:
    driver = await opened(browsing, two_sites)
    assert '"Made by a library"' in driver.text
    assert two_sites.asked == {"/lib.js": 1, "/style.css": 1}
    assert driver.opening.data is not None
    assert "refused_hosts" not in driver.opening.data


async def test_refused_assets_are_told(browsing: Browsing, two_sites: TwoSites) -> None:
    driver = await opened(browsing, two_sites, assets="site")
    assert "library" not in driver.text
    assert "Hosts that this task may not reach were asked for parts of the page: cdn.test" in driver.text
    assert driver.opening.data is not None
    assert driver.opening.data["refused_hosts"] == ["cdn.test"]
    assert not two_sites.asked


@pytest.mark.parametrize("name", ["Leave", "Around", "By script", "Send", "New tab", "Pop up"])
async def test_documents_of_other_hosts_are_refused(browsing: Browsing, two_sites: TwoSites, name: str) -> None:
    driver = await opened(browsing, two_sites)
    result = await driver.do("click", element=driver.number(name))
    assert "Foreign" not in result.content
    assert "cdn.test is not a host that this task may reach" in result.content
    assert result.data is not None
    assert result.data["refused_hosts"] == ["cdn.test"]
    await driver.do("navigate", url=MAIN)
    assert '"Made by a library"' in driver.text, "the agent can go on"


async def test_navigation_and_frames_of_other_hosts_are_refused_before_they_are_sent(
    browsing: Browsing, two_sites: TwoSites
) -> None:
    driver = await opened(browsing, two_sites)
    result = await driver.do("navigate", url=f"{CDN}/page")
    assert result.is_error
    assert "cdn.test is not a host that this task may reach" in result.content
    await driver.do("navigate", url=MAIN)
    result = await driver.do("click", element=driver.number("Frame"))
    assert "Foreign" not in result.content
    assert "cdn.test" in result.content
    assert "/page" not in two_sites.asked


async def test_declared_hosts_may_be_pages(browsing: Browsing, two_sites: TwoSites) -> None:
    driver = await opened(browsing, two_sites, hosts=("cdn.test",))
    assert "Title: Elsewhere" in (await driver.do("click", element=driver.number("Leave"))).content


async def test_private_addresses_stay_out_of_reach(browsing: Browsing, two_sites: TwoSites, site: Site) -> None:
    driver = await opened(browsing, two_sites, f"{MAIN}/#{site.host.rpartition(':')[2]}")
    for name in ("Inside", "Name"):
        assert "Title: kept in" in (await driver.do("click", element=driver.number(name))).content
        await driver.page.evaluate("document.title = 'Main'")
    assert not site.asked


async def test_hosts_that_are_refused_while_the_agent_thinks_are_counted_but_not_told(
    browsing: Browsing, two_sites: TwoSites
) -> None:
    driver = await opened(browsing, two_sites, assets="site")
    hosts = [f"ads{number:02}.test" for number in range(40)]
    await driver.page.evaluate("hosts => Promise.allSettled(hosts.map((host) => fetch(`http://${host}/`)))", hosts)
    result = await driver.do("wait", seconds=0.1)
    assert result.data is not None
    assert result.data["refused_between"] == hosts
    assert "ads" not in result.content, "a replay does not think, so its text would differ"
    counted = RefusedHosts()
    counted.take(trajectory(Message("user", result.content), data={0: result.data}), None)
    assert counted.result() == dict.fromkeys(hosts, 1)


async def test_refused_hosts_are_counted_in_the_metrics() -> None:
    page = Path("main/index.html")
    page.parent.mkdir()
    page.write_text(
        "<title>Main</title><script src=http://cdn.example/a.js></script><img src=http://ads.example/b.png>"
    )
    call = {"tool_calls": [{"name": "navigate", "arguments": {"url": MAIN}}]}
    answer = {"tool_calls": [{"name": "answer", "arguments": {"text": "done"}}]}
    task = {"id": "t", "messages": [{"role": "user", "content": "Look."}], "task_info": {"website": MAIN}}
    async with StubServer({"rules": [{"when": {"answers": 1}, "reply": answer}, {"reply": call}]}) as stub:
        dataset = {
            "path": write_tasks(Path("tasks.jsonl"), task),
            "output_path": "out.jsonl",
            "agent": "agent",
            "web": {"sites": ["main"]},
        }
        config = Config.model_validate({"models": {"agent": {"api_base": stub.url}}, "datasets": {"web": dataset}})
        async with open_run(config, Path("run"), resume=False) as opened_run:
            await opened_run.engine.run()
    metrics = json.loads(Path("run/metrics.json").read_bytes())
    assert metrics["refused_hosts"]["web"]["cdn.example"] == 2
