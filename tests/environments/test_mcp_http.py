"""Streamable HTTP servers as worlds: sessions, and what it costs when the server misbehaves."""

from __future__ import annotations

import asyncio
import json
import resource

import pytest
from hypothesis import HealthCheck, given, settings
from mcp import Client

from rollout.environments.mcp.servers import McpServers
from rollout.environments.mcp.slot import STATE_IS_LOST
from tests.models.hostile import VALUES, damaged, write
from tests.servers.mcp_config import ask, error_of, load, opened
from tests.servers.raw_mcp_http import RawHttpServer


async def load_http(url: str, **keys: object) -> McpServers:
    """As `load`, in a thread: the server lives on this loop."""
    return await asyncio.to_thread(load, raw={"url": url, **keys})


async def test_each_episode_has_a_session_that_ends_with_it() -> None:
    async with RawHttpServer() as server:
        servers = await load_http(server.url)
        assert server.ended == ["s1"], "the session that asked for the tools is over"
        async with opened(servers) as first, opened(servers) as second:
            assert [(await ask(first, "add")).content for _ in range(2)] == ["1", "2"]
            assert (await ask(second, "add")).content == "1"
        assert sorted(server.ended) == ["s1", "s2", "s3"]


async def test_stateless_server_has_one_session_for_all_episodes() -> None:
    async with RawHttpServer() as server:
        servers = await load_http(server.url, stateless=True)
        async with opened(servers) as first, opened(servers) as second:
            assert [(await ask(world, "add")).content for world in (first, second, first)] == ["1", "2", "3"]
        assert server.ended == ["s1"]
        await servers.close()
        assert server.ended == ["s1", "s2"]


async def test_headers_are_sent_and_filled_in() -> None:
    async with RawHttpServer() as server:
        servers = await load_http(server.url, headers={"Authorization": "Bearer {task}-token", "X-Number": 7})
        async with opened(servers, task="t9") as world:
            sent = json.loads((await ask(world, "headers")).content)
    assert sent["Authorization"] == "Bearer t9-token"
    assert sent["X-Number"] == "7"


@pytest.mark.parametrize(
    ("tool", "kind", "told"),
    [
        ("hang", "timeout", "gave no answer within 0.5 s"),
        ("reset", "crash", "broke off the session"),
        ("forget", "crash", "broke off the session"),
    ],
)
async def test_lost_session_costs_its_call_and_the_next_one_has_a_new_session(tool: str, kind: str, told: str) -> None:
    async with RawHttpServer() as server, opened(await load_http(server.url), timeout=0.5) as world:
        await ask(world, "add")
        lost = await ask(world, tool)
        assert lost.error_kind == kind
        assert error_of(lost) == f"{tool}: raw {told}; {STATE_IS_LOST}"
        assert (await ask(world, "add")).content == "1"


@pytest.mark.parametrize("tool", ["endless", "endless_events", "broken"])
async def test_flood_and_nonsense_over_http_cost_their_own_call(tool: str) -> None:
    async with RawHttpServer() as server, opened(await load_http(server.url), timeout=60.0) as world:
        failed = await ask(world, tool)
        assert failed.is_error
        assert failed.error_kind == "crash"
        assert not (await ask(world, "add")).is_error


@pytest.mark.parametrize("tool", ["bomb", "bomb_events"])
async def test_a_small_body_that_unpacks_to_hundreds_of_megabytes_is_refused_without_them(tool: str) -> None:
    async with RawHttpServer() as server, opened(await load_http(server.url), timeout=60.0) as world:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        failed = await ask(world, tool)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert failed.error_kind == "crash"
        assert grown < 180_000, "kilobytes"
        assert not (await ask(world, "add")).is_error


async def test_compressed_result_is_unpacked() -> None:
    async with RawHttpServer() as server, opened(await load_http(server.url)) as world:
        assert (await ask(world, "packed")).content == "unpacked"


async def test_server_that_is_gone_costs_calls_and_not_the_episode() -> None:
    async with RawHttpServer() as server:
        servers = await load_http(server.url)
        world = opened(servers)
        live = await world.__aenter__()
        assert (await ask(live, "add")).content == "1"
    gone = await ask(live, "add")
    assert gone.error_kind == "crash"
    again = await ask(live, "add")
    assert "could not be started again" in error_of(again)
    await world.__aexit__(None, None, None)


RESULT = {
    "content": [
        {"type": "text", "text": "hello"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///x", "text": "y"}},
    ],
    "structuredContent": {"a": [1]},
    "isError": False,
}


def test_any_result_of_a_server_is_an_observation() -> None:
    with asyncio.Runner() as runner:
        server = RawHttpServer()
        runner.run(server.__aenter__())
        held = opened(runner.run(load_http(server.url)), timeout=0.5)
        world = runner.run(held.__aenter__())

        @settings(max_examples=60, suppress_health_check=list(HealthCheck))
        @given(damaged(RESULT) | VALUES.map(write))
        def check(result: bytes) -> None:
            server.result = result
            read = runner.run(ask(world, "any"))
            read.content.encode()
            assert not read.is_error or read.error_kind in ("tool", "crash", "timeout")

        check()
        assert not runner.run(ask(world, "add")).is_error
        runner.run(held.__aexit__(None, None, None))
        runner.run(server.__aexit__(None, None, None))


async def test_a_cancellation_that_nobody_asked_for_costs_its_own_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cancelled(*arguments: object) -> None:
        raise asyncio.CancelledError

    async with RawHttpServer() as server, opened(await load_http(server.url)) as world:
        await ask(world, "add")
        with monkeypatch.context() as patched:
            patched.setattr(Client, "call_tool", cancelled)
            lost = await ask(world, "add")
        assert lost.error_kind == "crash"
        assert (await ask(world, "add")).content == "1", "a new session"
