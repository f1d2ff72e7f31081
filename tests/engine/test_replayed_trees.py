"""Branches in worlds that have no snapshots: real MCP servers, brought to a node by replaying calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout.testing import StubServer
from rollout.trajectories.line import comparable
from tests.conftest import read_lines, roll_out, stub_config, write_tasks
from tests.servers.mcp_config import raw_entry

OUT = Path("out.jsonl")
CALLED = Path("called.txt")
ADD = {"name": "add", "arguments": {"by": 1}}
LOOK = {"name": "echo", "arguments": {"text": "x"}}
PID: dict[str, Any] = {"name": "pid", "arguments": {}}


def script(*calls: dict[str, Any]) -> dict[str, Any]:
    rules = [{"when": {"step": step}, "reply": {"tool_calls": [call]}} for step, call in enumerate(calls)]
    return {"rules": [*rules, {"reply": {"content": "Done."}}]}


def config(url: str, expansions: int = 8, **dataset: Any) -> dict[str, Any]:
    strategy = {"name": "random_tree", "params": {"trees": 1, "expansions": expansions}}
    servers = {"raw": raw_entry("--log", str(CALLED.resolve()))}
    tasks = write_tasks(Path("tasks.jsonl"), "Add one three times.")
    return stub_config(url, tasks, tools=[], mcpServers=servers, strategy=strategy, **dataset)


def answers(line: dict[str, Any]) -> list[str]:
    return [message["content"] for message in line["messages"] if message["role"] == "tool"]


def shared_calls(line: dict[str, Any]) -> list[str]:
    """The tools whose results a branch began with."""
    before = line["messages"][: line["metadata"]["branch"].get("shared_messages", 0)]
    return [call["function"]["name"] for message in before for call in message.get("tool_calls", ())]


def called(name: str) -> int:
    return CALLED.read_text().splitlines().count(name)


async def test_a_branch_goes_on_in_a_server_that_was_brought_to_its_state() -> None:
    async with StubServer(script(ADD, ADD, ADD), keep_requests=True) as stub:
        opened = await roll_out(config(stub.url))
        asked = len(stub.requests)
    lines = read_lines(OUT)
    assert len(lines) == 9
    assert opened.engine.replay_mismatches == 0
    replayed = [shared_calls(line) for line in lines]
    assert {len(calls) for calls in replayed} >= {0, 1, 2, 3}, "branches from everywhere on the path"
    for line in lines:
        assert answers(line) == [f'{{"count": {n}}}' for n in (1, 2, 3)], "each goes on counting where it branched"
    assert called("add") == 9 * 3, "what is shared is called again, in a server of the branch's own"
    assert asked == 9 * 4 - sum(map(len, replayed)), "and nothing of it is asked of the model again"


async def test_where_a_server_answers_otherwise_the_branch_is_a_fresh_chain(caplog: pytest.LogCaptureFixture) -> None:
    async with StubServer(script(ADD, PID, ADD)) as stub:
        opened = await roll_out(config(stub.url))
    lines = read_lines(OUT)
    fresh = [line for line in lines if line["metadata"]["branch"]["reason"] == "fresh"]
    assert len(fresh) == opened.engine.replay_mismatches >= 1, "counted, and told"
    assert caplog.text.count("pid answered differently from the record: «") == len(fresh), "with what differs"
    assert any(f"» instead of «{answers(line)[1]}»" in caplog.text for line in lines)
    for line in fresh:
        assert "parent" not in line["metadata"]["branch"]
    for line in lines:
        assert "pid" not in shared_calls(line), "nobody goes on behind an answer that did not come again"
        assert answers(line)[2] == '{"count": 2}', "nor in a server with the traces of a replay"
    total = json.loads(Path("run/metrics.json").read_text())["total"]
    assert (total["finished"], total["replay_mismatches"]) == (9, len(fresh))


async def test_what_is_irreversible_is_never_called_to_bring_a_server_back() -> None:
    async with StubServer(script(LOOK, ADD, LOOK)) as stub:
        opened = await roll_out(config(stub.url, irreversible=["add"]))
    lines = read_lines(OUT)
    reasons = [line["metadata"]["branch"]["reason"] for line in lines]
    assert reasons.count("fresh") == opened.engine.replay_mismatches >= 1
    assert any(shared_calls(line) == ["echo"] for line in lines), "before it, branches are replayed as ever"
    assert called("add") == 9, "each attempt for itself, once"


@pytest.mark.parametrize("after", [6, 14])
async def test_a_tree_that_was_stopped_grows_on_as_if_it_had_not_been(after: int) -> None:
    async with StubServer(script(ADD, ADD, ADD)) as stub:
        await roll_out(config(stub.url), Path("whole"))
        whole = {line["id"]: comparable(line) for line in read_lines(OUT)}
        OUT.unlink()
        await roll_out(config(stub.url), pause_when=lambda progress: progress.generations >= after)
        opened = await roll_out(config(stub.url))
    assert {line["id"]: comparable(line) for line in read_lines(OUT)} == whole
    assert opened.engine.replay_mismatches == 0
