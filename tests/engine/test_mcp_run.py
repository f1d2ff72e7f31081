"""Whole runs over MCP servers: sessions never mix, a paused run resumes, secrets stay out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rollout.config import load_config
from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out, stub_config, write_tasks, write_yaml
from tests.servers.mcp_config import RAW, raw_entry
from tests.servers.raw_mcp import PIXEL

ADD = {"name": "add", "arguments": {"by": 1}}


def script(*steps: list[dict[str, Any]]) -> dict[str, Any]:
    """An agent that asks for these calls, message by message, and then is done."""
    rules = [{"when": {"step": step}, "reply": {"tool_calls": calls}} for step, calls in enumerate(steps)]
    return {"rules": [*rules, {"when": {"step": len(steps)}, "reply": {"content": "Done."}}]}


def config(url: str, tasks: Path, *options: str, **keys: Any) -> dict[str, Any]:
    return stub_config(url, tasks, tools=[], mcpServers={"raw": raw_entry(*options, **keys)})


def answers(line: dict[str, Any]) -> list[str]:
    return [message["content"] for message in line["messages"] if message["role"] == "tool"]


async def test_eight_episodes_with_the_identical_call_each_get_their_own_state(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks.jsonl", *["Add one three times."] * 8)
    async with StubServer({"latency": 0.01, **script([ADD], [ADD], [ADD])}) as stub:
        await roll_out({**config(stub.url, tasks), "max_workers": 8})
        assert stub.stats.max_in_flight == 8, "all eight were live at once"
    lines = read_lines(Path("out.jsonl"))
    assert len(lines) == 8
    assert all(answers(line) == [f'{{"count": {n}}}' for n in (1, 2, 3)] for line in lines)


async def test_two_identical_calls_in_one_message_get_two_ordered_answers(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks.jsonl", "Add one twice.")
    async with StubServer(script([ADD, ADD])) as stub:
        await roll_out(config(stub.url, tasks))
    (line,) = read_lines(Path("out.jsonl"))
    asked = [call["id"] for message in line["messages"] for call in message.get("tool_calls", [])]
    assert [message["tool_call_id"] for message in line["messages"] if message["role"] == "tool"] == asked
    assert len(set(asked)) == 2
    assert answers(line) == ['{"count": 1}', '{"count": 2}']


async def test_misbehaving_server_of_one_episode_costs_one_call_and_no_other_episode(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks.jsonl", "Break it.", *["Add."] * 3)
    deadly = {"when": {"step": 0, "contains": "Break it."}, "reply": {"tool_calls": [{"name": "die", "arguments": {}}]}}
    usual = script([ADD], [ADD])
    async with StubServer({"rules": [deadly, *usual["rules"]]}) as stub:
        await roll_out(config(stub.url, tasks))
    by_task = {line["task_id"]: line for line in read_lines(Path("out.jsonl"))}
    first = by_task.pop("task0")
    assert first["metadata"]["tool_errors"] == {"crash": 1}
    assert answers(first)[1:] == ['{"count": 1}']
    assert all(answers(line) == ['{"count": 1}', '{"count": 2}'] for line in by_task.values())
    assert all(line["metadata"]["status"] == "completed" for line in [first, *by_task.values()])


async def test_paused_run_replays_its_calls_and_goes_on(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks.jsonl", *["Add one four times."] * 4)
    async with StubServer(script([ADD], [ADD, ADD], [ADD])) as stub:
        paused = await roll_out(config(stub.url, tasks), pause_when=lambda progress: progress.tool_calls >= 5)
        assert paused.summary is not None
        assert paused.summary.total.unfinished > 0
        again = await roll_out(config(stub.url, tasks))
        assert again.engine.replay_mismatches == 0
    lines = read_lines(Path("out.jsonl"))
    assert len(lines) == 4
    assert all(answers(line) == [f'{{"count": {n}}}' for n in (1, 2, 3, 4)] for line in lines)


async def test_server_that_never_comes_up_fails_the_episode_as_infrastructure(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks.jsonl", "Add.")
    server = tmp_path / "server.py"
    server.write_text(_ONLY_ONCE.format(raw=str(RAW)))
    entry = {**raw_entry(), "args": [str(server)]}
    async with StubServer(script([ADD])) as stub:
        opened = await roll_out(stub_config(stub.url, tasks, tools=[], mcpServers={"raw": entry}))
    assert opened.summary is not None
    assert opened.summary.total.failed == 1
    (failed,) = read_lines(Path("run/failed.jsonl"))
    assert failed["metadata"]["error"]["kind"] == "world"
    assert "MCP server 'raw' ended with exit code 7 before it was ready" in failed["metadata"]["error"]["text"]


# It works when the run is made ready, and not any more when the first episode opens.
_ONLY_ONCE = """
import pathlib, runpy
mark = pathlib.Path(__file__).with_suffix(".mark")
if mark.exists():
    raise SystemExit(7)
mark.touch()
runpy.run_path({raw!r}, run_name="__main__")
"""


async def test_values_of_env_and_headers_are_nowhere_on_disk(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks.jsonl", "Add.")
    async with StubServer(script([{"name": "die", "arguments": {}}])) as stub:
        document = config(stub.url, tasks, env={"VAULT": "open-sesame-4711", "TOKEN": "hidden-${SECRET_PART}"})
        document["datasets"]["data"]["path"] = str(tasks)
        document |= {"log_file": "run.log", "log_level": "DEBUG"}
        path = write_yaml(tmp_path / "config.yml", document)
        await roll_out(load_config(path, {"SECRET_PART": "from-outside"}))
    files = [file for file in Path().rglob("*") if file.is_file() and file.name not in ("config.yml", "tasks.jsonl")]
    assert Path("run/run.json") in files
    for file in files:
        assert b"open-sesame-4711" not in file.read_bytes(), file
        assert b"from-outside" not in file.read_bytes(), file


async def test_images_lie_beside_the_journal_and_a_model_that_sees_is_shown_them(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks.jsonl", "Look.")
    requests = {}
    for sees in (False, True):
        async with StubServer(script([{"name": "image", "arguments": {}}]), keep_requests=True) as stub:
            document = config(stub.url, tasks)
            document["models"]["agent"]["images"] = sees
            await roll_out(document, resume=False)
            requests[sees] = stub.requests[-1]["messages"][-1]
    (line,) = read_lines(Path("out.jsonl"))
    (shown,) = [message for message in line["messages"] if message["role"] == "tool"]
    assert shown["content"].startswith("[image: image/png, ")
    assert (Path("run/blobs") / shown["images"][0]).read_bytes()[:4] == b"\x89PNG"
    assert requests[False]["content"] == shown["content"]
    assert "images" not in requests[False]
    assert requests[True]["content"] == [
        {"type": "text", "text": shown["content"]},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ]


async def test_reference_actions_find_their_tools_behind_prefixes(tmp_path: Path) -> None:
    actions = [{"name": "desk.echo", "arguments": {"text": "hello"}}, {"name": "vault.add", "arguments": {}}]
    task = {"id": "t", "messages": [{"role": "user", "content": "Go."}], "task_info": {"actions": actions}}
    tasks = write_tasks(tmp_path / "tasks.jsonl", task)
    servers = {"desk": raw_entry(), "vault": raw_entry()}
    dataset = {"path": tasks, "output_path": "out.jsonl", "agent": "builtin/oracle", "mcpServers": servers}
    await roll_out({"datasets": {"d": dataset}})
    (line,) = read_lines(Path("out.jsonl"))
    called = [call["function"]["name"] for message in line["messages"] for call in message.get("tool_calls", [])]
    assert called == ["d_echo", "v_add"]
    assert answers(line) == ["hello", '{"count": 1}']
    assert line["metadata"]["tool_errors"] == {}
