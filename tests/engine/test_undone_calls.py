"""Calls that a mock world has undone: a replay brings the world to the same state without them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rollout.config.schema import Config
from rollout.environments.domains.worker_process import Gone, WorkerProcess
from rollout.pipelines.score import open_scoring, rescore
from rollout.store.reading.reader import open_reader
from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out, stub_config, write_tasks
from tests.environments.desks import lay_out

RENAME = {"name": "rename", "arguments": {"name": "Cy"}}
MEMBERS: dict[str, Any] = {"name": "members", "arguments": {}}


@pytest.mark.parametrize("why", ["timeout", "crash", "memory"])
async def test_a_call_that_failed_under_load_does_not_spoil_the_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: Any
) -> None:
    """The machine was too busy for a call, or killed its process; when the run is resumed, the call would succeed."""
    rules = [{"when": {"step": step}, "reply": {"tool_calls": [call]}} for step, call in enumerate((RENAME, MEMBERS))]
    ask = WorkerProcess.request

    def fail(process: WorkerProcess, world: int, timeout: float, what: str, *args: Any) -> asyncio.Future[Any]:
        if what != "call" or args[1] != "rename":
            return ask(process, world, timeout, what, *args)
        gone: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        gone.set_exception(Gone(why))
        return gone

    async with StubServer({"rules": [*rules, {"reply": {"content": "Done."}}]}) as stub:
        tasks = write_tasks(tmp_path / "tasks.jsonl", "Rename them.")
        base = lay_out(tmp_path / "data", "Desk")
        config = stub_config(stub.url, tasks, tools=[], mcp_domain="Desk", base_path=base)
        with monkeypatch.context() as busy:
            busy.setattr(WorkerProcess, "request", fail)
            await roll_out(config, pause_when=lambda progress: progress.tool_calls >= 1)
        opened = await roll_out(config)
    assert opened.engine.replay_mismatches == 0
    (line,) = read_lines(Path("out.jsonl"))
    failed, members = [message["content"] for message in line["messages"] if message["role"] == "tool"]
    assert "error" in json.loads(failed)
    assert [row["name"] for row in json.loads(members)] == ["Ada", "Ben"], "the state is the one on record"
    checked = Config.model_validate(config)
    with open_reader(Path("run")) as reader:
        async with open_scoring(checked, ["data"]) as (scoring,):
            (again,) = [one async for one in rescore(reader, scoring)]
    assert again.replayed, again.verdict.unscored
