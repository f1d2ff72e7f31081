"""The web agent in real browsers: what it was sent is what the saved line makes again."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from rollout.agents.viewing import requests_of
from rollout.pipelines.inputs import Prompts, find_sources
from rollout.store.blobs import image_url
from rollout.testing import StubServer
from rollout.trajectories.saved import SavedLine
from tests.conftest import read_lines, roll_out
from tests.environments.web.test_web_run import OUT, web_config

RECORD = Path("requests.jsonl")


def written(name: str, **arguments: Any) -> dict[str, Any]:
    call = json.dumps({"name": name, "arguments": arguments})
    return {"content": f"Action: I call {name}.\n<tool_call>{call}</tool_call>"}


@pytest.mark.parametrize(
    ("mode", "click"),
    [
        ("set_of_marks", {"element": 1}),
        ("text", {"element": 1}),
        ("coordinates", {"x": 25, "y": 92}),
    ],
)
async def test_text_calls_act_and_every_request_can_be_made_again(mode: str, click: dict[str, Any]) -> None:
    rules = [
        {"when": {"contains": "Title: at 4"}, "reply": written("answer", text="four")},
        {"when": {"contains": "Title: at 2"}, "reply": {"content": "Action: I click.\n<tool_call>click</tool_call>"}},
        {"reply": written("click", **click)},
    ]
    async with StubServer({"record": RECORD, "rules": rules}) as server:
        settings = web_config(server.url, mode=mode)
        settings["models"]["agent"]["images"] = True
        settings["datasets"]["web"]["agent"] = {
            "model": "agent",
            "tool_format": "text",
            "max_rounds": 2,
            "max_images": 2,
        }
        await roll_out(settings)
    (source,) = find_sources([Path("run")])
    ((_, line),) = source.read()
    assert isinstance(line, SavedLine)
    assert line.stop_reason == "answered", line.metadata
    assert line.metadata["tool_errors"] == {"malformed_call": 1}
    received = [json.loads(entry)["messages"] for entry in RECORD.read_bytes().splitlines()]
    made = requests_of(line, Prompts().of(line, source).system, functools.partial(image_url, Path("run")))
    assert received == list(made)
    assert len(received) == 6
    assert "Step 1 on [Counter]: I call click. (the page changed)" in json.dumps(received[-1][1])
    images = [json.dumps(messages).count("data:image/png") for messages in received]
    assert images == ([0] * 6 if mode == "text" else [1, 2, 2, 2, 2, 2])


@pytest.mark.parametrize(
    ("mode", "tool", "click"),
    [
        ("coordinates", "computer_use", {"action": "left_click", "coordinate": [25, 92]}),
        ("set_of_marks", "web_interaction", {"action": "click", "element_id": 1}),
    ],
)
async def test_a_model_trained_on_one_tool_acts_by_it(mode: str, tool: str, click: dict[str, Any]) -> None:
    rules = [
        {"when": {"contains": "Title: at 2"}, "reply": written(tool, action="answer", text="two")},
        {"reply": written(tool, **click)},
    ]
    async with StubServer({"record": RECORD, "rules": rules}) as server:
        settings = web_config(server.url, mode=mode)
        settings["models"]["agent"]["images"] = True
        settings["datasets"]["web"]["agent"] = {"model": "agent", "tool_format": "computer_use"}
        await roll_out(settings)
    (source,) = find_sources([Path("run")])
    ((_, line),) = source.read()
    assert isinstance(line, SavedLine)
    assert line.stop_reason == "answered", line.metadata
    assert [call.name for message in line.messages for call in message.tool_calls] == ["click", "click", "answer"]
    received = [json.loads(entry)["messages"] for entry in RECORD.read_bytes().splitlines()]
    system = Prompts().of(line, source).system
    assert received == list(requests_of(line, system, functools.partial(image_url, Path("run"))))
    assert f'"name":"{tool}"' in received[0][0]["content"]
    said = [message["content"] for message in received[-1] if message["role"] == "assistant"]
    assert said == [written(tool, **click)["content"]] * 2, "to the letter"


async def test_words_alone_are_told_to_call_and_the_work_goes_on() -> None:
    rules = [
        {
            "when": {"contains": "calls no tool"},
            "reply": {"tool_calls": [{"name": "answer", "arguments": {"text": "1"}}]},
        },
        {"reply": {"content": "I shall look at the page."}},
    ]
    async with StubServer({"record": RECORD, "rules": rules}) as server:
        await roll_out(web_config(server.url))
    metadata = read_lines(OUT)[0]["metadata"]
    assert metadata["stop_reason"] == "answered"
    assert metadata["tool_errors"] == {"malformed_call": 1}
    said, told = json.loads(RECORD.read_bytes().splitlines()[1])["messages"][-2:]
    assert (said["role"], said["content"], said.get("tool_calls")) == ("assistant", "I shall look at the page.", None)
    assert told["role"] == "user"
    assert "Call one of the tools" in told["content"]


async def test_going_back_from_the_first_page_three_times_ends_it() -> None:
    async with StubServer({"rules": [{"reply": {"tool_calls": [{"name": "goback", "arguments": {}}]}}]}) as server:
        await roll_out(web_config(server.url))
    metadata = read_lines(OUT)[0]["metadata"]
    assert metadata["stop_reason"] == "monitor_failed_gobacks"
    assert metadata["tool_errors"] == {"nothing_before": 3}
