"""Sessions never mix: a result goes to the call that asked, worlds share no state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

SERVER = '''
class CounterServer:
    """Careless on purpose: keeps its state on the instance, not by session."""

    def __init__(self, domain_name):
        self.total = 0
        self.sessions = {}

    def _get_session(self, session_id):
        return self.sessions.setdefault(session_id, type("Session", (), {})())

    def invoke(self, session_id, tool_name, **arguments):
        self.total += arguments["by"]
        session = self._get_session(session_id)
        session.count = getattr(session, "count", 0) + arguments["by"]
        return {"total": self.total, "count": session.count}
'''
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add to the counter.",
            "parameters": {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]},
        },
    }
]


def counter_domain(base: Path) -> Path:
    for folder in ("mcp_servers", "tool_lists", "policies", "queries"):
        (base / folder).mkdir(parents=True)
    (base / "mcp_servers" / "Counter.py").write_text(SERVER)
    (base / "tool_lists" / "Counter.json").write_text(json.dumps(TOOLS))
    return base


def _tool_values(line: dict[str, Any]) -> list[dict[str, int]]:
    return [json.loads(message["content"]) for message in line["messages"] if message["role"] == "tool"]


async def test_eight_episodes_with_the_identical_call_each_get_their_own_state(tmp_path: Path) -> None:
    base = counter_domain(tmp_path / "base")
    tasks = write_tasks(tmp_path / "tasks.jsonl", *["Add one three times."] * 8)
    script = {
        "latency": 0.01,
        "rules": [{"when": {"step": {"max": 2}}, "reply": {"tool_calls": [{"name": "add", "arguments": {"by": 1}}]}}],
    }
    async with StubServer(script) as stub:
        config = stub_config(stub.url, tasks, mcp_domain="Counter", tools=[], base_path=base)
        await roll_out({**config, "max_workers": 8})
        assert stub.stats.max_in_flight == 8, "all eight were live at once"
    lines = read_lines(Path("out.jsonl"))
    assert len(lines) == 8
    for line in lines:
        assert _tool_values(line) == [{"total": n, "count": n} for n in (1, 2, 3)]


async def test_two_identical_calls_in_one_message_get_two_ordered_answers(tmp_path: Path) -> None:
    base = counter_domain(tmp_path / "base")
    call = {"name": "add", "arguments": {"by": 1}}
    script = {"rules": [{"when": {"step": 0}, "reply": {"tool_calls": [call, call]}}]}
    async with StubServer(
        {**script, "rules": [*script["rules"], {"when": {"step": 1}, "reply": {"content": "Done."}}]}
    ) as stub:
        tasks = write_tasks(tmp_path / "tasks.jsonl", "Add one twice.")
        await roll_out(stub_config(stub.url, tasks, mcp_domain="Counter", tools=[], base_path=base))
    (line,) = read_lines(Path("out.jsonl"))
    asked = [call["id"] for message in line["messages"] for call in message.get("tool_calls", [])]
    answered = [message["tool_call_id"] for message in line["messages"] if message["role"] == "tool"]
    assert len(set(asked)) == 2
    assert answered == asked
    assert [value["count"] for value in _tool_values(line)] == [1, 2]


async def test_slow_first_call_is_still_answered_first(tmp_path: Path) -> None:
    calls = [{"name": "blocking", "arguments": {"text": "a"}}, {"name": "echo", "arguments": {"text": "b"}}]
    script = {
        "rules": [
            {"when": {"step": 0}, "reply": {"tool_calls": calls}},
            {"when": {"step": 1}, "reply": {"content": "Done."}},
        ]
    }
    async with StubServer(script) as stub:
        tasks = write_tasks(tmp_path / "tasks.jsonl", "Both, please.")
        await roll_out(stub_config(stub.url, tasks, tools=["tests.tools:echo", "tests.tools:blocking"]))
    (line,) = read_lines(Path("out.jsonl"))
    texts = [message["content"] for message in line["messages"] if message["role"] == "tool"]
    assert texts == ["blocked for a", "echo: b"]


async def test_samples_of_one_task_start_from_the_same_untouched_world(tmp_path: Path) -> None:
    base = counter_domain(tmp_path / "base")
    script = {
        "rules": [
            {"when": {"step": 0}, "reply": {"tool_calls": [{"name": "add", "arguments": {"by": 5}}]}},
            {"when": {"step": 1}, "reply": {"content": "Done."}},
        ]
    }
    async with StubServer(script) as stub:
        tasks = write_tasks(tmp_path / "tasks.jsonl", "Add five.")
        await roll_out(stub_config(stub.url, tasks, mcp_domain="Counter", tools=[], base_path=base, samples=4))
    lines = read_lines(Path("out.jsonl"))
    assert sorted(line["id"] for line in lines) == ["task0", "task0~1", "task0~2", "task0~3"]
    assert {line["task_id"] for line in lines} == {"task0"}
    assert len({line["metadata"]["seed"] for line in lines}) == 4
    assert all(_tool_values(line) == [{"total": 5, "count": 5}] for line in lines)


async def test_workers_are_live_conversations_over_all_datasets_and_fill_one_alone(tmp_path: Path) -> None:
    config: dict[str, Any] = {}
    async with StubServer({"latency": 0.05, "rules": [{"reply": {"content": "Done."}}]}) as stub:
        for name, count in (("one", 6), ("two", 2)):
            tasks = write_tasks(tmp_path / f"{name}.jsonl", *[f"{name} {number}" for number in range(count)])
            one = stub_config(stub.url, tasks, output_path=f"{name}_out.jsonl")
            (dataset,) = one["datasets"].values()
            config = {**one, "max_workers": 5, "datasets": {**config.get("datasets", {}), name: dataset}}
        await roll_out(config)
        assert stub.stats.max_in_flight == 5, "one dataset alone has that many, both together no more"
    assert [len(read_lines(Path(f"{name}_out.jsonl"))) for name in ("one", "two")] == [6, 2]
