"""What is labelled and exported is what the model saw: compared with the request bodies, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollout.agents.turns import split_turns
from rollout.core.messages import encode_message
from rollout.pipelines.export import label_sources
from rollout.pipelines.inputs import Prompts, find_sources
from rollout.testing import StubServer
from rollout.trajectories.labels import make_example
from rollout.trajectories.saved import SavedLine, read_saved_file
from tests.cli import test_batch
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

datasets = test_batch.datasets
OWN_TOOL = {
    "type": "function",
    "function": {
        "name": "order_pizza",
        "description": "Ruft an & bestellt: „größer“ <b>",
        "parameters": {"type": "object", "properties": {"size": {"type": "number", "minimum": 1.5}}},
    },
}
REASONING = [
    {"when": {"model": "agent", "step": 0}, "reply": {"reasoning": "turn {turn}: a tool", "call": "any"}},
    {"when": {"model": "agent", "step": 1}, "reply": {"reasoning": "turn {turn}: words", "content": "Done {turn}."}},
]


def settings(mode: str, datasets: Path) -> dict[str, Any]:
    """A dataset of each kind."""
    if mode == "cross":
        base = datasets / "cross_domain"
        domain = {"base_path": base, "mcp_domain": "LibraryDesk_LeaseDepot", "tools": []}
        return {**domain, "path": base / "queries" / "LibraryDesk_LeaseDepot.jsonl"}
    if mode == "single":
        base = datasets / "single_domain"
        policy = base / "policies" / "LibraryDesk.md"
        policy.write_text('Rules:\r\n1. "quoted" \\ back\u2028slash é 漢字 🎈 </script>\n')
        return {"base_path": base, "mcp_domain": "LibraryDesk", "tools": [], "path": base / "queries/LibraryDesk.jsonl"}
    question = {"messages": [{"role": "user", "content": "One pizza."}]}
    path = write_tasks(Path("t.jsonl"), *({"id": name, **question, "tools": [OWN_TOOL]} for name in "ab"))
    Path("system.md").write_text("Be careful.")
    return {"path": path, "mode": mode, "agent": {"model": "agent", "system_prompt_file": "system.md"}}


def bodies(path: Path) -> list[dict[str, msgspec.Raw]]:
    """The agent's requests, their fields as the bytes that were sent."""
    lines = [msgspec.json.decode(line, type=dict[str, msgspec.Raw]) for line in path.read_bytes().splitlines()]
    return [body for body in lines if bytes(body["model"]) == b'"agent"']


def raw_list(raw: msgspec.Raw) -> list[bytes]:
    return [bytes(entry) for entry in msgspec.json.decode(raw, type=list[msgspec.Raw])]


@pytest.mark.parametrize("mode", ["single", "cross", "wrong_tool", "no_tool"])
async def test_label_has_the_bytes_of_the_request(mode: str, datasets: Path) -> None:
    record = Path("requests.jsonl")
    async with StubServer({"record": record}) as server:
        await roll_out(stub_config(server.url, **settings(mode, datasets)))
    tally = label_sources(find_sources([Path("run")]), Prompts(), Path("labelled.jsonl"))
    assert tally.kept == tally.read == len(read_lines(Path("out.jsonl")))
    sent = bodies(record)
    for line in Path("labelled.jsonl").read_bytes().splitlines():
        label = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        messages = raw_list(label["messages"])
        mine = [body for body in sent if raw_list(body["messages"])[1] == messages[1]]
        assert mine, "the first user message tells whose request it was"
        for body in mine:
            assert messages[0] == raw_list(body["messages"])[0], "the system prompt"
            assert b'"role":"system"' in messages[0]
            assert bytes(label["tools"]) == bytes(body.get("tools", b"[]"))
    assert (b"order_pizza" in bytes(label["tools"])) == (mode == "wrong_tool")
    assert (bytes(label["tools"]) == b"[]") == (mode == "no_tool")


async def test_label_leaves_everything_else_in_the_line_as_it_is(datasets: Path) -> None:
    async with StubServer() as server:
        await roll_out(stub_config(server.url, **settings("single", datasets)))
    label_sources(find_sources([Path("run")]), Prompts(), Path("labelled.jsonl"))
    for line, label in zip(read_lines(Path("out.jsonl")), read_lines(Path("labelled.jsonl")), strict=True):
        assert label["messages"].pop(0)["role"] == "system"
        del label["tools"]
        assert label == line


@pytest.mark.parametrize("rule", ["clear_on_user_turn", "keep_tool_turns", "keep_all", "drop"])
async def test_each_turn_of_an_export_has_the_context_that_was_sent(rule: str, datasets: Path) -> None:
    record = Path("requests.jsonl")
    async with StubServer({"record": record, "rules": REASONING, "user_turns": 3}) as server:
        keys = settings("single", datasets)
        keys |= {"user": {"model": "user"}, "max_turns": 9, "agent": {"model": "agent", "reasoning": rule}}
        await roll_out(stub_config(server.url, **keys))
    requests = [raw_list(body["messages"]) for body in bodies(record)]
    expected = {tuple(request) for request in requests}
    found = set()
    source = find_sources([Path("run")])[0]
    for _, line in read_saved_file(source.path):
        assert isinstance(line, SavedLine)
        for turn in split_turns(make_example(line, Prompts().of(line, source))):
            encoded = [encode_message(message) for message in turn.messages]
            assert turn.context is not None
            found.add(tuple(encoded[: turn.context]))
            assert all(message.reasoning for message in turn.messages[turn.context :] if message.role == "assistant")
            if rule != "drop":
                # With `drop` the steps within a turn saw no reasoning either; the record keeps what is to be learnt.
                found.add(tuple(encoded[: turn.context + 2]))
    assert found <= expected
    assert len(found) == (len(expected) if rule != "drop" else len(expected) // 2)
