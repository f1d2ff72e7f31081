"""Reading what MCP servers answer, and naming their tools."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import CallToolResult, ImageContent, TextContent, Tool
from pydantic import ValidationError

from rollout.config import load_config
from rollout.config.servers import McpServer
from rollout.core.errors import ConfigError
from rollout.core.secrets import redact
from rollout.environments.mcp.content import read_result
from rollout.environments.mcp.servers import McpServers
from tests.conftest import write_yaml
from tests.servers.mcp_config import ask, opened_raw
from tests.servers.raw_mcp import PIXEL


async def test_structured_content_is_shown_where_there_is_no_text() -> None:
    async with opened_raw() as world:
        assert (await ask(world, "structured")).content == '{"b":1,"a":[2]}'


async def test_images_are_kept_as_images_and_what_cannot_be_shown_is_named() -> None:
    async with opened_raw() as world:
        result = await ask(world, "mixed")
    pixel = base64.b64decode(PIXEL)
    assert result.content.splitlines() == [
        "first",
        f"[image: image/png, {len(pixel)} bytes]",
        "[audio: audio/wav, 5 bytes, not shown]",
        "a note",
        "[resource more: note://2]",
    ]
    (image,) = result.images
    assert (image.mime_type, image.data) == ("image/png", pixel)
    assert re.fullmatch(r"[0-9a-f]{16}\.png", image.name)
    assert result.to_message().images == (image.name,)


def test_broken_image_is_named_not_raised() -> None:
    result = CallToolResult(content=[ImageContent(type="image", data="%%%", mime_type="image/png")])
    read = read_result("c", result, 1000)
    assert (read.content, read.images) == ("[image: image/png, not valid base64]", ())


@given(st.lists(st.text(max_size=30), max_size=4), st.none() | st.dictionaries(st.text(max_size=3), st.integers()))
def test_text_stands_as_it_is_and_stands_before_structured_content(
    texts: list[str], value: dict[str, int] | None
) -> None:
    blocks = [TextContent(type="text", text=text) for text in texts]
    read = read_result("c", CallToolResult(content=[*blocks], structured_content=value), 10_000)
    if texts or value is None:
        assert read.content == "\n".join(texts).encode("utf-8", "replace").decode()
    else:
        assert json.loads(read.content) == value


names = st.lists(st.text(min_size=1, max_size=80), min_size=1, max_size=6)


@given(st.dictionaries(st.text(min_size=1, max_size=20), names, min_size=1, max_size=4))
def test_offered_names_are_legal_unique_and_lead_back(listed: dict[str, list[str]]) -> None:
    settings = {server: McpServer(command="x") for server in listed}
    tools = {
        server: [Tool(name=name, input_schema={"type": "object"}) for name in names] for server, names in listed.items()
    }
    servers = McpServers(settings, tools)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in servers.toolset.by_name)
    led = [(route.server, route.tool) for route in servers.routes.values()]
    assert sorted(led) == sorted({(server, name) for server, names in listed.items() for name in names})
    assert McpServers(settings, tools).toolset.wire == servers.toolset.wire


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({}, "expected either command"),
        ({"command": "x", "url": "http://a"}, "expected either command"),
        ({"command": "x", "type": "http"}, "type http does not go with command"),
        ({"url": "http://a", "type": "sse"}, "Input should be 'stdio', 'http'"),
        ({"url": "file:///etc"}, "expected http:// or https://"),
        ({"command": "x", "args": ["--seed", "{seed}"], "stateless": True}, "{seed} and {task} mean nothing"),
    ],
)
def test_wrong_entries_are_refused_with_what_was_expected(entry: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(told)):
        McpServer.model_validate(entry)


def test_faults_in_env_and_secrets_in_addresses_are_not_shown(tmp_path: Path) -> None:
    servers: dict[str, Any] = {"a": {"command": "x", "env": {"PLAIN": True}}}
    config = {"datasets": {"d": {"mcpServers": servers}}}
    with pytest.raises(ConfigError) as caught:
        load_config(write_yaml(tmp_path / "c.yml", config))
    assert "datasets.d.mcpServers.a.env.PLAIN: expected a text" in str(caught.value)
    assert "True" not in str(caught.value)
    servers["a"] = {"url": "http://h/mcp?api_key=hush-hush-1&page=2", "headers": {"X-Key": "hush-hush-2"}}
    load_config(write_yaml(tmp_path / "c.yml", config))
    assert redact("hush-hush-1 hush-hush-2 page") == "«secret» «secret» page"
