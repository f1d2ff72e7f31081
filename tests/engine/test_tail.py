"""The tail rule: a run that does not wait for its last stragglers says of each that it was cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

OUT = Path("out.jsonl")
STUCK = {
    "when": {"contains": "stuck", "step": 0},
    "reply": {"content": "One moment.", "tool_calls": [{"name": "slow", "arguments": {"text": "x"}}]},
}
DONE = {"reply": {"content": "All done."}}


async def run_with_tail(tasks: list[str], **changes: Any) -> dict[str, dict[str, Any]]:
    path = write_tasks(Path("tasks.jsonl"), *tasks)
    async with StubServer({"rules": [STUCK, DONE]}) as stub:
        config = stub_config(stub.url, path, tools=["tests.tools:slow"])
        await roll_out({**config, "timeouts": {"tool": 3600}, **changes})
    return {line["id"]: line for line in read_lines(OUT)}


async def test_stragglers_are_recorded_as_cut_with_what_they_had() -> None:
    lines = await run_with_tail(["stuck"] + ["quick"] * 9, tail={"threshold": 0.9, "grace": 0})
    assert len(lines) == 10
    cut = lines["task0"]
    assert (cut["metadata"]["status"], cut["metadata"]["stop_reason"]) == ("cut", "cut")
    assert cut["success"] is False
    assert cut["metadata"]["scored"] is False, "not a score of 0"
    assert cut["messages"][1]["content"] == "One moment."
    assert "time was over" in cut["messages"][2]["content"], "no record ends in an open call"
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert metrics["total"]["statuses"] == {"completed": 9, "cut": 1}


async def test_what_was_not_begun_is_accounted_for_too() -> None:
    lines = await run_with_tail(
        ["quick"] * 8 + ["stuck", "stuck", "quick"], tail={"threshold": 0.7, "grace": 0.05}, max_workers=2
    )
    assert len(lines) == 11
    late = lines["task10"]
    assert late["metadata"]["status"] == "cut"
    assert [message["role"] for message in late["messages"]] == ["user"]
    assert late["metadata"]["generations"] == 0


async def test_what_was_cut_is_not_begun_again_by_resume() -> None:
    before = await run_with_tail(["stuck"] + ["quick"] * 9, tail={"threshold": 0.9, "grace": 0})
    after = await run_with_tail(["stuck"] + ["quick"] * 9, tail={"threshold": 0.9, "grace": 0})
    assert after == before


async def test_a_run_without_stragglers_cuts_nothing() -> None:
    lines = await run_with_tail(["quick"] * 20, tail={"threshold": 0.5, "grace": 60}, max_workers=4)
    assert {line["metadata"]["status"] for line in lines.values()} == {"completed"}
