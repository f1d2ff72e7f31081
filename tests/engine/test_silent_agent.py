"""An answer without a word is not an answer: nobody succeeds by silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollout.agents.users.scripted import ASK_AGAIN
from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

SAY_NOTHING = {"reply": {"content": ""}}
TASK = {
    "id": "t",
    "messages": [{"role": "user", "content": "Hello"}],
    "task_info": {"actions": [], "user_turns": ["And then?"]},
}


async def converse(rules: list[dict[str, Any]], user: Any, **settings: Any) -> dict[str, Any]:
    async with StubServer({"rules": rules}) as stub:
        config = stub_config(stub.url, write_tasks(Path("tasks.jsonl"), TASK), user=user, max_turns=5)
        await roll_out({**config, **settings})
    (line,) = read_lines(Path("out.jsonl"))
    return line


@pytest.mark.parametrize("user", ["builtin/user", {"kind": "scripted"}])
@pytest.mark.parametrize(("has_monitor", "reason"), [(True, "monitor_empty_replies"), (False, "max_turns")])
async def test_a_silent_agent_never_succeeds_by_the_script_alone(user: Any, has_monitor: bool, reason: str) -> None:
    line = await converse([SAY_NOTHING], user, enable_monitor=has_monitor)
    assert line["success"] is False
    assert (line["metadata"]["stop_reason"], line["metadata"]["status"]) == (reason, "truncated")
    assert "asked_again" in line["metadata"]["marks"]
    users = [message["content"] for message in line["messages"] if message["role"] == "user"]
    assert set(users) == {"Hello", ASK_AGAIN}, "the script did not go on"


@pytest.mark.parametrize(
    "content", ["", "  \n", None, "\u200b", " \u200b\n\u00a0\u2060", "<think>hm</think>\n", "<think>hm"]
)
async def test_an_agent_that_answers_when_asked_again_goes_on_with_the_script(content: str | None) -> None:
    rules = [{"when": {"turn": 1}, "reply": {"content": content}}, {"reply": {"content": "Here you are."}}]
    line = await converse(rules, "builtin/user")
    users = [message["content"] for message in line["messages"] if message["role"] == "user"]
    assert users[:3] == ["Hello", ASK_AGAIN, "And then?"]
    assert line["metadata"]["stop_reason"] == "user_stop"
    assert line["metadata"]["marks"].count("asked_again") == 1
    assert not any(mark.startswith("user_fault") for mark in line["metadata"]["marks"])


async def test_a_turn_of_the_task_is_the_same_one_after_the_user_has_asked_again() -> None:
    config = {
        "seed": 3,
        "mock_servers": {"isolation": "none"},
        "datasets": {
            "d": {
                "mcp_domain": "AirlineReservations",
                "output_path": "out.jsonl",
                "agent": {"model": "builtin/oracle", "params": {"void_turn": 0.15}},
                "user": "builtin/user",
                "max_steps_per_turn": 15,
            }
        },
    }
    await roll_out(config)
    lines = read_lines(Path("out.jsonl"))
    asked = [line for line in lines if "asked_again" in line["metadata"]["marks"]]
    recovered = [line for line in asked if line["metadata"]["status"] == "completed"]
    assert len(recovered) > 5
    assert all(line["success"] for line in recovered), "what it had not done in the turn, it did when asked again"


async def test_a_conversation_paused_after_silence_resumes_at_its_place() -> None:
    rules = [{"when": {"turn": 1}, "reply": {"content": ""}}, {"reply": {"content": "Here you are."}}]
    whole = await converse(rules, "builtin/user")
    Path("out.jsonl").unlink()
    async with StubServer({"rules": rules}) as stub:
        config = stub_config(stub.url, Path("tasks.jsonl"), user="builtin/user", max_turns=5)
        for step in (1, 2):
            await roll_out(config, Path("again"), pause_when=lambda progress, step=step: progress.generations >= step)
        await roll_out(config, Path("again"))
    (line,) = read_lines(Path("out.jsonl"))
    assert line["messages"] == whole["messages"]
