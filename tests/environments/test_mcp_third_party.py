"""Servers that we did not write: from the SDK's examples, from PyPI, from npm."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from rollout.core.world import Invocation
from rollout.environments.mcp.servers import McpServers
from tests.servers.mcp_config import ask, error_of, load, opened

EVERYTHING = "examples/servers/everything-server/mcp_everything_server/server.py"
NPM_PACKAGES = ("@modelcontextprotocol/server-everything@2026", "@modelcontextprotocol/server-memory@2026")


# ---- from the SDK's examples: over streamable HTTP --------------------------------------------------------------


@pytest.fixture(scope="module")
def everything_server(request: pytest.FixtureRequest) -> Path:
    """The SDK's example server, out of its source distribution: the wheel has no examples. Kept in pytest's cache."""
    assert request.config.cache is not None
    package = f"mcp=={metadata.version('mcp')}"
    folder = Path(request.config.cache.mkdir("mcp-sdk-examples"))
    server = folder / f"{package}.py"
    if not server.is_file():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "mcp", package]
        subprocess.run([*command, "--dest", str(folder)], check=True, timeout=600)
        (archive,) = folder.glob("mcp-*.tar.gz")
        with tarfile.open(archive) as files:
            found = files.extractfile(f"{archive.name.removesuffix('.tar.gz')}/{EVERYTHING}")
            assert found is not None
            server.write_bytes(found.read())
    return server


@pytest.fixture(scope="module")
def everything_url(everything_server: Path) -> Iterator[str]:
    """That server, running."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(everything_server), "--port", str(port), "--log-level", "ERROR"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if b"running on" in line.lower():
                break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def everything(everything_url: str) -> McpServers:
    return load(everything={"url": everything_url, "type": "http"})


async def test_sdk_example_shows_text_images_and_resources(everything: McpServers) -> None:
    async with opened(everything) as world:
        plain = await ask(world, "test_simple_text")
        assert plain.content == "This is a simple text response for testing."
        mixed = await ask(world, "test_multiple_content_types")
        assert mixed.content.splitlines() == [
            "Multiple content types test:",
            "[image: image/png, 70 bytes]",
            '{"test": "data", "value": 123}',
        ]
        assert mixed.images[0].data.startswith(b"\x89PNG")
        assert (await ask(world, "test_audio_content")).content == "[audio: audio/wav, 44 bytes, not shown]"
        assert (await ask(world, "test_embedded_resource")).content == "This is an embedded resource content."


async def test_sdk_example_reports_errors_and_asks_for_what_we_do_not_have(everything: McpServers) -> None:
    async with opened(everything) as world:
        failed = await ask(world, "test_error_handling")
        assert (failed.is_error, failed.error_kind) == (True, "tool")
        assert failed.content.startswith("Error executing tool test_error_handling")
        assert "not supported" in (await ask(world, "test_sampling", prompt="hello")).content
        assert "not supported" in (await ask(world, "test_elicitation", message="hello?")).content
        missing = await ask(world, "test_missing_capability")
        assert "requires the client 'sampling' capability" in error_of(missing)


async def test_sdk_example_answers_through_notices_and_broken_streams(everything: McpServers) -> None:
    async with opened(everything) as world:
        names = ["test_tool_with_logging", "test_tool_with_progress", "test_reconnection", "test_trigger_tool_change"]
        results = await world.call([Invocation(name, name, {}) for name in names])
    assert [result.call_id for result in results] == names
    assert not any(result.is_error for result in results)
    assert results[2].content == "Reconnection test completed"


# ---- from PyPI: over stdio --------------------------------------------------------------------------------------


async def test_time_server_from_pypi_converts_times() -> None:
    servers = load(time={"command": sys.executable, "args": ["-m", "mcp_server_time"], "stateless": True})
    try:
        assert "convert_time" in servers.toolset.by_name
        async with opened(servers) as world:
            wanted = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
            converted = json.loads((await ask(world, "convert_time", **wanted)).content)
            assert converted["time_difference"] == "+9.0h"
            wrong = await ask(world, "convert_time", **{**wanted, "time": "noon"})
            assert (wrong.is_error, wrong.error_kind) == (True, "tool")
    finally:
        await servers.close()


def make_repository(folder: Path) -> Path:
    """A repository with one commit."""
    folder.mkdir()
    (folder / "readme.txt").write_text("hello\n")
    identity = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": os.devnull}
    committer = {"GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org"}
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *command], cwd=folder, check=True, env={**os.environ, **identity, **committer})
    return folder


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_git_server_from_pypi_gives_each_episode_a_repository_of_its_own(tmp_path: Path) -> None:
    template = make_repository(tmp_path / "template")
    entry = {"command": sys.executable, "args": ["-m", "mcp_server_git"], "workdir": template}
    env = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    servers = load(git={**entry, "env": env})
    async with opened(servers) as first, opened(servers) as second:
        for world, branch in ((first, "one"), (second, "two")):
            made = await ask(world, "git_create_branch", repo_path=".", branch_name=branch)
            assert not made.is_error, made.content
        wanted = {"repo_path": ".", "branch_type": "local"}
        shown = [(await ask(world, "git_branch", **wanted)).content for world in (first, second)]
        assert "one" in shown[0]
        assert "two" not in shown[0]
        assert "two" in shown[1]
        assert "Begin" in (await ask(first, "git_log", repo_path=".")).content
    assert not any((template / ".git" / "refs" / "heads" / branch).exists() for branch in ("one", "two"))


# ---- from npm: over stdio ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def npm_modules(request: pytest.FixtureRequest) -> Path:
    """The folder of the npm packages, installed once into pytest's cache."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    assert request.config.cache is not None
    folder = Path(request.config.cache.mkdir("mcp-npm-servers"))
    modules = folder / "node_modules" / "@modelcontextprotocol"
    if not (modules / "server-memory" / "package.json").is_file():
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *NPM_PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            pytest.skip(f"npm could not install the servers: {done.stderr.strip()[-200:]}")
    return modules


def npm_entry(modules: Path, package: str, **keys: Any) -> dict[str, Any]:
    return {"command": "node", "args": [str(modules / package / "dist" / "index.js")], **keys}


async def test_memory_server_from_npm_remembers_for_its_own_episode_only(npm_modules: Path) -> None:
    servers = load(memory=npm_entry(npm_modules, "server-memory", env={"MEMORY_FILE_PATH": "{workdir}/memory.json"}))
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
    async with opened(servers) as first, opened(servers) as second:
        made = await ask(first, "create_entities", entities=[entity])
        assert not made.is_error, made.content
        assert "first program" in (await ask(first, "read_graph")).content
        assert "first program" not in (await ask(second, "read_graph")).content


async def test_everything_server_from_npm_answers(npm_modules: Path) -> None:
    servers = load(everything=npm_entry(npm_modules, "server-everything"))
    async with opened(servers) as world:
        assert (await ask(world, "echo", message="hello")).content == "Echo: hello"
        image = await ask(world, "get-tiny-image")
        assert image.images[0].mime_type == "image/png"
        structured = await ask(world, "get-structured-content", location="New York")
        assert "temperature" in json.loads(structured.content)
