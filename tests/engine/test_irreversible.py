"""Calls that must not be made twice are not made again to bring a world back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollout.core.errors import ConfigError
from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

OUT = Path("out.jsonl")
CALL = {"tool_calls": [{"name": "pay", "arguments": {"text": "10"}}]}
LOOK = {"tool_calls": [{"name": "echo", "arguments": {"text": "x"}}]}
RULES: list[dict[str, Any]] = [
    {"when": {"answers": 0}, "reply": LOOK},
    {"when": {"answers": 1}, "reply": CALL},
    {"when": {"answers": 2}, "reply": LOOK},
    {"reply": {"content": "Paid."}},
]
paid: list[str] = []


async def pay(text: str) -> str:
    """Pay."""
    paid.append(text)
    return "paid"


def config(url: str, **dataset: Any) -> dict[str, Any]:
    tasks = write_tasks(Path("tasks.jsonl"), "Pay.")
    tools = ["tests.tools:echo", "tests.engine.test_irreversible:pay"]
    return stub_config(url, tasks, tools=tools, irreversible=["pay"], **dataset)


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    import tests.engine.test_irreversible as here

    here.paid.clear()


def payments() -> int:
    import tests.engine.test_irreversible as here

    return len(here.paid)


async def test_nothing_branches_behind_one_by_replay() -> None:
    async with StubServer({"rules": RULES}) as stub:
        strategy = {"name": "random_tree", "params": {"trees": 1, "expansions": 8}}
        opened = await roll_out(config(stub.url, strategy=strategy))
    lines = read_lines(OUT)
    assert len(lines) == 9
    reasons = [line["metadata"]["branch"]["reason"] for line in lines]
    assert reasons.count("fresh") == opened.engine.replay_mismatches >= 1, "counted, and told"
    for line in lines:
        before = line["messages"][: line["metadata"]["branch"].get("shared_messages", 0)]
        assert "pay" not in str([message.get("tool_calls") for message in before])
    assert payments() == 9, "each attempt paid once, for itself"


@pytest.mark.parametrize("after", [8, 10])
async def test_a_path_that_started_anew_stays_so_on_record_when_it_is_resumed(after: int) -> None:
    strategy = {"name": "random_tree", "params": {"trees": 1, "expansions": 8}}
    async with StubServer({"rules": RULES}) as stub:
        given = {**config(stub.url, strategy=strategy), "max_workers": 1}
        await roll_out(given, Path("whole"))
        whole = {line["id"]: line["metadata"]["branch"] for line in read_lines(OUT)}
        assert {branch["reason"] for branch in whole.values()} == {"init", "random", "fresh"}
        OUT.unlink()
        await roll_out(given, pause_when=lambda progress: progress.generations == after)
        await roll_out(given)
    assert {line["id"]: line["metadata"]["branch"] for line in read_lines(OUT)} == whole


async def test_a_stopped_conversation_is_cut_and_not_played_again() -> None:
    async with StubServer({"rules": RULES}) as stub:
        await roll_out(config(stub.url), pause_when=lambda progress: progress.tool_calls == 2)
        assert payments() == 1
        await roll_out(config(stub.url))
    (line,) = read_lines(OUT)
    assert (line["metadata"]["status"], line["metadata"]["stop_reason"]) == ("cut", "cut")
    assert payments() == 1


async def test_a_tool_that_is_not_there_is_named() -> None:
    tasks = write_tasks(Path("tasks.jsonl"), "Pay.")
    with pytest.raises(ConfigError, match="there is no tool fly; there are: echo"):
        await roll_out(stub_config("http://127.0.0.1:9/v1", tasks, irreversible=["fly"]))
