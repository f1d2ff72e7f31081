"""Which hosts a page may reach: the rule, and that nothing in a browser gets round it."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.config.browsing import WebSettings
from rollout.core.errors import ConfigError, NavigationError
from rollout.core.task import Task
from rollout.environments.web.egress import Egress, egress_of, is_public
from rollout.environments.web.proxy import EgressProxy
from rollout.environments.web.world import BrowserWorld
from tests.environments.web.conftest import Browsing
from tests.environments.web.site import Site

PRIVATE = [
    *("127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
    *("255.255.255.255", "::1", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b::a00:1"),
    *("::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b:1::a00:1", "fec0::1", "5f00::1"),
]
in_browser = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    ("start", "host", "is_allowed"),
    [
        ("https://www.example.co.uk/a", "shop.example.co.uk", True),
        ("https://www.example.co.uk/a", "example.co.uk", True),
        ("https://www.example.co.uk/a", "other.co.uk", False),
        ("https://www.example.co.uk/a", "notexample.co.uk", False),
        ("https://example.com", "example.com.evil.org", False),
        ("https://me.github.io", "you.github.io", False),
        ("https://EXAMPLE.com.", "Example.COM", True),
    ],
)
def test_a_task_may_reach_its_own_site(start: str, host: str, is_allowed: bool) -> None:
    assert (egress_of(start).refusal_of_host(host, 443) is None) == is_allowed


def test_declared_hosts_may_be_reached() -> None:
    rule = egress_of("https://example.com", ["cdn.net"], ["intranet:8080", "10.1.0.0/16", "[::1]:9000"])
    assert rule.refusal_of_host("a.cdn.net", 443) is None
    assert rule.refusal_of_host("intranet", 8080) is None
    assert rule.refusal_of_host("intranet", 8081) is not None
    assert rule.refusal_of_host("10.1.2.3", 80) is None
    assert rule.refusal_of_host("10.2.2.3", 80) is not None
    assert rule.refusal_of_host("::1", 9000) is None
    assert rule.refusal_of_host("::1", 9001) is not None
    assert egress_of("https://example.com", ["*"]).refusal_of_host("anything.org", 443) is None


@pytest.mark.parametrize(
    "address",
    PRIVATE,
)
def test_private_addresses_are_refused_by_whatever_name(address: str) -> None:
    rule = egress_of("https://example.com", ["*"])
    assert rule.refusal_of_address("rebound.example.com", 80, ipaddress.ip_address(address)) is not None


@given(st.ip_addresses(v=4))
def test_an_address_within_ipv6_is_as_public_as_it_is(address: ipaddress.IPv4Address) -> None:
    assert is_public(ipaddress.IPv6Address(f"::ffff:{address}")) == is_public(address)


@pytest.mark.parametrize("start", ["http://127.0.0.1:8080/", "http://localhost/", "http://[::1]/", "http://10.0.0.1/"])
def test_a_private_start_page_must_be_declared(start: str) -> None:
    with pytest.raises(ConfigError, match="private_hosts"):
        egress_of(start)


@in_browser
async def test_a_world_refuses_an_undeclared_private_start_page(browsing: Browsing, site: Site) -> None:
    world = BrowserWorld(browsing.pool(), WebSettings())
    with pytest.raises(ConfigError, match="task t: the start page"):
        await world.open(Task("t", info={"start_url": site.url()}), 1)
    await world.close()


@in_browser
async def test_one_host_need_not_be_a_list(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/second"), private_hosts=site.host)
    assert "Title: Second" in driver.text


@in_browser
@pytest.mark.parametrize("key", ["hosts", "private_hosts"])
async def test_hosts_that_are_no_texts_are_refused_by_task_and_key(browsing: Browsing, key: str) -> None:
    world = BrowserWorld(browsing.pool(), WebSettings())
    for hosts in (5, ["example.com", 5]):
        with pytest.raises(ConfigError, match=f"^task t: {key}: expected a list of hosts, got "):
            await world.open(Task("t", info={"start_url": "https://example.com", key: hosts}), 1)
    await world.close()


@in_browser
async def test_other_hosts_are_refused_whatever_asks_for_them(browsing: Browsing, site: Site) -> None:
    async with Site() as other:
        driver = await browsing.driver().open(site.url("/second"))
        result = await driver.do("navigate", url=other.url("/second"))
        assert result.is_error
        assert "private_hosts" in result.content or "may reach" in result.content
        result = await driver.do("navigate", url=site.url(f"/redirect?to={other.url('/second')}"))
        assert "could not be opened" in result.content
        for page, to in (("/fetch", other.url("/second")), ("/socket", f"ws://{other.host}/echo")):
            result = await driver.do("navigate", url=site.url(f"{page}?to={to}"))
            assert "Title: refused" in result.content, page
        assert not other.asked


@in_browser
async def test_a_refusal_names_the_host_that_an_address_led_to(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/second"))
    result = await driver.do("navigate", url=site.url("/redirect?to=http://[::1]:1234/"))
    assert "could not be opened: ::1 is not a host that this task may reach" in result.content
    result = await driver.do("navigate", url="http://2130706433:1234/")
    assert "could not be opened: 127.0.0.1 leads to the private address" in result.content


@in_browser
async def test_a_start_page_that_cannot_be_reached_is_no_lost_browser(
    browsing: Browsing, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.stop()
    monkeypatch.setattr(browsing.shared, "replace", pytest.fail)
    for _ in range(8):
        world = BrowserWorld(browsing.shared, WebSettings(mode="text", private_hosts=(site.host,)))
        with pytest.raises(NavigationError, match="cannot be reached"):
            await world.open(Task("t", info={"start_url": site.url()}), 1)
        await world.close()


@in_browser
async def test_what_is_declared_is_reached(browsing: Browsing, site: Site) -> None:
    async with Site() as other:
        driver = await browsing.driver().open(site.url("/second"), private_hosts=[site.host, other.host])
        assert "Title: Second" in (await driver.do("navigate", url=other.url("/second"))).content
        for page, to in (("/fetch", other.url("/second")), ("/socket", f"ws://{other.host}/echo")):
            result = await driver.do("navigate", url=site.url(f"{page}?to={to}"))
            assert "Title: reached" in result.content, page


@in_browser
async def test_a_name_that_leads_to_a_private_address_is_refused(browsing: Browsing, site: Site) -> None:
    async with Site() as other:
        driver = await browsing.driver().open(site.url("/second"), hosts=["localhost"])
        port = other.host.rpartition(":")[2]
        result = await driver.do("navigate", url=f"http://localhost:{port}/dialogs")
        assert result.is_error
        assert "leads to the private address" in result.content
        assert not other.asked


@in_browser
async def test_pages_cannot_open_files_or_data_as_pages(browsing: Browsing, site: Site) -> None:
    driver = await browsing.driver().open(site.url("/second"))
    for url in ("file:///etc/passwd", "data:text/html,hi", "view-source:http://127.0.0.1"):
        await driver.page.evaluate("url => { location.href = url; }", url)
        result = await driver.do("wait", seconds=0.2)
        assert "Title: Second" in result.content
        await driver.page.evaluate("url => { window.open(url); }", url)
        result = await driver.do("wait", seconds=0.2)
        assert "root:" not in result.content
        if "Tabs:" in result.content:
            assert driver.page.url == "about:blank"
            await driver.do("goback")


@in_browser
async def test_a_proxy_without_a_rule_lets_nothing_through(site: Site) -> None:
    import aiohttp

    proxy = EgressProxy()
    await proxy.start()
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await client.get(site.url(), proxy=proxy.address)
        assert "may reach: nothing" in proxy.faults["127.0.0.1"]
        proxy.egress = Egress(private_hosts=(site.host,))
        async with client.get(site.url(), proxy=proxy.address) as reply:
            assert "Small shop" in await reply.text()
        await site.stop()
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await client.get(site.url(), proxy=proxy.address)
        assert "cannot be reached" in proxy.faults["127.0.0.1"]
    await proxy.close()
