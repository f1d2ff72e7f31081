"""Conversations with a model that writes its calls as text: what users, scorers and exports see of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollout.core.errors import ConfigError
from rollout.pipelines.export import Wish, export_sources, label_sources
from rollout.pipelines.inputs import Prompts, find_sources
from rollout.testing import StubServer
from rollout.trajectories.exports.exporter import find_exporter
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

RECORD = Path("requests.jsonl")
CALL = '<tool_call>\n{"name": "echo", "arguments": {"text": "hi"}}\n</tool_call>'
RULES = [
    {
        "when": {"model": "agent", "last_role": "user", "contains": "<tool_response>"},
        "reply": {"content": "You said: part {turn}."},
    },
    {"when": {"model": "agent"}, "reply": {"content": f"<think>\nturn {{turn}}\n</think>\n\nOne moment.\n{CALL}"}},
]


async def converse(**agent: Any) -> list[dict[str, Any]]:
    """A conversation of several turns; the agent's requests."""
    async with StubServer({"record": RECORD, "rules": RULES, "user_turns": 3}) as server:
        keys = {"user": {"model": "user"}, "max_turns": 9, "agent": {"model": "agent", "tool_format": "text", **agent}}
        await roll_out(stub_config(server.url, write_tasks(Path("t.jsonl"), "Hello."), **keys))
    requests = [json.loads(line) for line in RECORD.read_bytes().splitlines()]
    return [request for request in requests if request["model"] == "agent"]


def export(format_: str, **wish: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
    out = Path("export.jsonl")
    tally = export_sources(find_sources([Path("run")]), Prompts(), Wish(find_exporter(format_), **wish), out)
    return read_lines(out), tally.dropped


async def test_user_hears_the_words_and_not_the_calls() -> None:
    await converse()
    requests = [json.loads(line) for line in RECORD.read_bytes().splitlines()]
    heard = json.dumps([request["messages"] for request in requests if request["model"] == "user"])
    assert "One moment." in heard
    assert "tool_call" not in heard
    assert "<think>" not in heard
    (line,) = read_lines(Path("out.jsonl"))
    assert line["metadata"]["stop_reason"] == "user_stop"
    assert line["metadata"]["tool_errors"] == {}
    assert [message["content"] for message in line["messages"] if message["role"] == "tool"] == ["echo: hi"] * 3


@pytest.mark.parametrize("rule", ["clear_on_user_turn", "keep_tool_turns", "keep_all", "drop"])
async def test_each_turn_of_an_export_has_the_context_that_was_sent(rule: str) -> None:
    requests = await converse(reasoning=rule)
    sent = [request["messages"] for request in requests]
    records, _ = export("trl", per_turn=True)
    assert len(records) == 3
    for number, record in enumerate(records):
        assert record["tools"] == []
        assert record["prompt"] == sent[2 * number]
        first, result, last = record["completion"]
        assert first == {
            "role": "assistant",
            "content": f"One moment.\n{CALL}",
            "reasoning_content": first["reasoning_content"],
        }
        assert first["reasoning_content"].startswith("turn ")
        assert (
            result
            == sent[2 * number + 1][-1]
            == {"role": "user", "content": "<tool_response>\necho: hi\n</tool_response>"}
        )
        assert last["content"].startswith("You said")


@pytest.mark.parametrize("format_", ["trl", "openai", "sharegpt", "add_key"])
async def test_whole_conversation_is_exported_as_it_was_sent(format_: str) -> None:
    requests = await converse(reasoning="drop")
    (record,), dropped = export(format_, drop_reasoning=True)
    assert not dropped
    assert not json.loads(record.get("tools") or "[]") if format_ == "sharegpt" else not record.get("tools")
    if format_ == "sharegpt":
        assert record["system"] == requests[0]["messages"][0]["content"]
        said = [turn["value"] for turn in record["conversations"]]
        assert [turn["from"] for turn in record["conversations"][:4]] == ["human", "gpt", "human", "gpt"]
    else:
        assert record["messages"][0] == {**record["messages"][0], **requests[0]["messages"][0]}
        assert not any(message.get("tool_calls") for message in record["messages"])
        said = [message["content"] for message in record["messages"][1:]]
    sent = [message["content"] for message in requests[-1]["messages"][1:]]
    assert said[: len(sent)] == sent


async def test_label_has_the_system_prompt_with_the_tools_as_sent() -> None:
    requests = await converse()
    label_sources(find_sources([Path("run")]), Prompts(), Path("labelled.jsonl"))
    (label,) = read_lines(Path("labelled.jsonl"))
    assert label["messages"][0] == requests[0]["messages"][0]
    assert '"name":"echo"' in label["messages"][0]["content"]
    assert label["tools"] == []
    tally = export_sources(
        find_sources([Path("labelled.jsonl")]), Prompts(), Wish(find_exporter("trl")), Path("again.jsonl")
    )
    assert tally.kept == 1
    assert read_lines(Path("again.jsonl")) == export("trl")[0]


async def test_windowed_trajectories_are_written_step_by_step_as_they_were_sent() -> None:
    async with StubServer({"record": RECORD, "rules": RULES}) as server:
        agent = {"model": "agent", "tool_format": "text", "max_rounds": 1}
        await roll_out(stub_config(server.url, write_tasks(Path("t.jsonl"), "Hello."), agent=agent))
    sent = [json.loads(line)["messages"] for line in RECORD.read_bytes().splitlines()]
    records, dropped = export("trl")
    assert [record["prompt"] for record in records] == sent
    assert [record["id"].partition("#")[2] for record in records] == ["1", "2"]
    assert "You said:" in records[-1]["completion"][0]["content"]
    assert not dropped


@pytest.mark.parametrize("model", [{"constrain_tools": True}])
async def test_two_ways_to_force_calls_are_refused(model: dict[str, Any]) -> None:
    settings = stub_config("http://unused", write_tasks(Path("t.jsonl"), "Hello."))
    settings["models"]["agent"] |= model
    settings["datasets"]["data"]["agent"] = {"model": "agent", "tool_format": "text"}
    with pytest.raises(ConfigError, match=r"datasets\.data\.agent\.tool_format"):
        await roll_out(settings)


async def test_tools_of_a_task_alone_are_in_its_own_system_prompt() -> None:
    tool = {"type": "function", "function": {"name": "order_pizza", "parameters": {"type": "object", "properties": {}}}}
    task = {"id": "a", "messages": [{"role": "user", "content": "One pizza."}], "tools": [tool]}
    async with StubServer({"record": RECORD}) as server:
        agent = {"model": "agent", "tool_format": "text"}
        path = write_tasks(Path("t.jsonl"), task)
        await roll_out(stub_config(server.url, path, mode="wrong_tool", tools=[], agent=agent))
    request = json.loads(RECORD.read_bytes().splitlines()[0])
    assert "order_pizza" in request["messages"][0]["content"]
    label_sources(find_sources([Path("run")]), Prompts(), Path("labelled.jsonl"))
    assert read_lines(Path("labelled.jsonl"))[0]["messages"][0] == request["messages"][0]
