"""`rollout serve-domain`: a mock domain as an MCP server, used by our own client and by the SDK's."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from rollout.environments.domains.domain import SHIPPED
from tests.cli.test_run import ROLLOUT, ROOT, rollout
from tests.conftest import read_lines, roll_out, write_yaml

DOMAIN = "StudentAcademicPortal"
SERVE = [*ROLLOUT[1:], "serve-domain", DOMAIN]
POLICY = SHIPPED / "single_domain" / "policies" / f"{DOMAIN}.md"
LIMIT = 6


@contextlib.contextmanager
def serving(*options: str) -> Iterator[str]:
    """The address of a domain that is served over HTTP."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [*ROLLOUT, "serve-domain", DOMAIN, "--http", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving http://127.0.0.1:"), line
        yield line.split()[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) in (0, 128 + signal.SIGTERM, -signal.SIGTERM)
    finally:
        process.kill()
        process.communicate()


async def trajectories(output: str, **tools: Any) -> dict[str, list[Any]]:
    """The messages of an oracle run over the shipped queries, by trajectory."""
    dataset = {
        "path": SHIPPED / "single_domain" / "queries" / f"{DOMAIN}.jsonl",
        "agent": {"model": "builtin/oracle", "system_prompt_file": POLICY},
        "user": "builtin/user",
        "max_turns": 20,
        "limit": LIMIT,
        "output_path": output,
        **tools,
    }
    # The dataset's name is part of every world's seed, so it is the same in all of these runs.
    config = {"datasets": {"portal": dataset}, "max_workers": 3}
    opened = await roll_out(config, Path(f"run-{output}"))
    assert opened.summary is not None
    assert opened.summary.total.statuses == {"completed": LIMIT}
    return {line["id"]: line["messages"] for line in read_lines(Path(output))}


async def test_oracle_gets_the_same_results_in_process_over_stdio_and_over_http() -> None:
    in_process = await trajectories("mock.jsonl", mcp_domain=DOMAIN)
    entry = {"command": sys.executable, "args": [*SERVE, "--seed", "{seed}"], "env": {"PYTHONPATH": str(ROOT)}}
    assert await trajectories("stdio.jsonl", mcpServers={"portal": entry}) == in_process
    with serving() as url:
        over_http = await trajectories("http.jsonl", mcpServers={"portal": {"url": f"{url}?seed={{seed}}"}})
    assert over_http == in_process
    assert sum(message["role"] == "tool" for messages in in_process.values() for message in messages) > LIMIT


@contextlib.asynccontextmanager
async def stdio_client(domain: str = DOMAIN) -> AsyncIterator[Client]:
    arguments = [*ROLLOUT[1:], "serve-domain", domain]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env={"PYTHONPATH": str(ROOT)})
    async with Client(parameters) as client:
        yield client


async def test_sdk_client_over_stdio_sees_tools_policy_and_both_kinds_of_content() -> None:
    async with stdio_client() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert len(tools) == 16
        assert "student_id" in tools["authorize_student"].input_schema["properties"]
        assert client.instructions == POLICY.read_text()
        refused = await client.call_tool("get_profile", {})
        assert refused.is_error
        wrong = await client.call_tool("authorize_student", {"nonsense": 1})
        assert wrong.is_error
        assert "nonsense" in wrong.content[0].text
        unknown = await client.call_tool("no_such_tool", {})
        assert "There is no tool 'no_such_tool'" in unknown.content[0].text
        assert isinstance(unknown.structured_content, dict)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_each_http_session_has_a_world_of_its_own(mode: Any) -> None:
    pin = _some_login()
    with serving() as url:
        async with Client(url, mode=mode) as first, Client(url, mode=mode) as second:
            welcome = await first.call_tool("authorize_student", pin)
            assert not welcome.is_error, welcome.content
            assert not (await first.call_tool("get_profile", {})).is_error
            assert (await second.call_tool("get_profile", {})).is_error, "nobody has logged in here"
        async with Client(url, mode=mode) as third:
            assert (await third.call_tool("get_profile", {})).is_error


def _some_login() -> dict[str, Any]:
    """The arguments of a login that the shipped queries use."""
    for line in read_lines(SHIPPED / "single_domain" / "queries" / f"{DOMAIN}.jsonl"):
        for action in line["task_info"]["actions"]:
            if action["name"] == "authorize_student":
                return dict(action["arguments"])
    raise AssertionError("no query logs in")


def test_unknown_domain_is_answered_in_words() -> None:
    done = rollout("serve-domain", "NoSuchDomain")
    assert done.returncode == 2
    assert "no domain 'NoSuchDomain' in " in done.stderr
    assert DOMAIN in done.stderr
    elsewhere = rollout("serve-domain", DOMAIN, "--base-path", ".")
    assert "there are: none" in elsewhere.stderr


@pytest.mark.parametrize("port", ["70000", "-1"])
@pytest.mark.parametrize("command", [["serve-domain", DOMAIN, "--http"], ["stub-server"]])
def test_a_port_that_cannot_be_is_refused(command: list[str], port: str) -> None:
    done = rollout(*command, "--port", port)
    assert done.returncode == 2
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


async def test_combination_of_domains_is_served_with_prefixes() -> None:
    async with stdio_client(f"{DOMAIN}_StudentFinancialServices") as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert "sap_authorize_student" in names
    assert {name.partition("_")[0] for name in names} == {"sap", "sfs"}


def test_dry_run_starts_each_server_once_and_tells_of_one_that_does_not_start() -> None:
    raw = str(ROOT / "tests" / "servers" / "raw_mcp.py")
    servers = {
        "good": {"command": sys.executable, "args": [raw]},
        "bad": {"command": sys.executable, "args": [raw, "--refuse"], "env": {"VAULT_KEY": "4711-0815"}},
    }
    tasks = SHIPPED / "single_domain" / "queries" / f"{DOMAIN}.jsonl"
    dataset = {"path": str(tasks), "agent": "builtin/oracle", "limit": 1, "mcpServers": servers}
    done = rollout("run", str(write_yaml(Path("c.yml"), {"datasets": {"d": dataset}})), "--dry-run")
    assert done.returncode == 2
    assert (
        "d: datasets.d.mcpServers.bad: the server ended with exit code 3 before it was ready; it said:" in done.stdout
    )
    assert "cannot open the vault with «secret»" in done.stdout
    assert "4711-0815" not in done.stdout + done.stderr
    del servers["bad"]
    done = rollout("run", str(write_yaml(Path("c.yml"), {"datasets": {"d": dataset}})), "--dry-run")
    assert done.returncode == 0, done.stdout
    assert "d offers add, echo, env, " in done.stdout
    assert "no problems found" in done.stdout


def test_sdk_is_imported_only_where_an_mcp_server_is_used() -> None:
    code = (
        "import sys, rollout.pipelines.run, rollout.cli.check; print({'mcp', 'httpx2', 'starlette'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
