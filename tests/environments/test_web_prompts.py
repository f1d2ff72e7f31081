"""What an agent in a browser is told: in each mode and form it is told the right things, and its example would work."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rollout.agents.computer_use import to_tool
from rollout.agents.formats import make_dialect
from rollout.agents.text_calls import read_answer
from rollout.config.browsing import WebSettings
from rollout.core.calls import CallReader
from rollout.core.messages import Message, ToolCall
from rollout.core.world import Invocation
from rollout.environments.web.actions import toolset_of
from rollout.environments.web.prompts import web_prompt

MODES = [
    {"mode": "coordinates"},
    {"mode": "coordinates", "coordinate_range": 1000},
    {"mode": "coordinates", "width": 160, "height": 210},
    {"mode": "set_of_marks"},
    {"mode": "text"},
    {"mode": "accessibility_tree"},
]


@pytest.mark.parametrize("web", MODES, ids=str)
@pytest.mark.parametrize("tool_format", ["native", "text", "computer_use"])
def test_example_is_a_call_that_the_mode_takes(web: dict[str, Any], tool_format: Any) -> None:
    settings = WebSettings(**web)
    prompt = web_prompt("complete", settings, tool_format)
    example = prompt.partition("For example:")[2]
    if tool_format != "native":
        (call,) = read_answer(Message(role="assistant", content=example), 1, must_call=True).tool_calls
        assert (to_tool(call) != call) == (tool_format == "computer_use")
        call = to_tool(call)
    else:
        found = re.search(r"call of `(\w+)` with (\{.*\})", example)
        assert found is not None
        call = ToolCall("c", found[1], found[2])
    assert isinstance(CallReader(toolset_of(settings)).read(call), Invocation)
    assert ("<tool_call>" in prompt) == (tool_format != "native")
    for part, is_json in (("Memory", True), ("Progress", True), ("Intention", False), ("Action", False)):
        line = re.search(rf"^{part}: (.*)$", example, re.MULTILINE)
        assert line is not None
        assert isinstance(json.loads(line[1]), dict) if is_json else line[1]


@pytest.mark.parametrize("web", MODES, ids=str)
@pytest.mark.parametrize("kind", ["plain", "complete"])
def test_it_is_told_how_it_sees_and_how_it_ends(web: dict[str, Any], kind: Any) -> None:
    settings = WebSettings(**web)
    prompt = web_prompt(kind, settings, "native")
    assert ("screenshot" in prompt) == (settings.mode in ("coordinates", "set_of_marks"))
    assert ("number" in prompt) == (settings.mode != "coordinates")
    assert ("1000" in prompt) == (settings.coordinate_range == 1000)
    assert "`answer`" in prompt
    assert ("Memory:" in prompt) == (kind == "complete")


def test_tools_follow_the_prompt_in_the_text_form() -> None:
    settings = WebSettings()
    system = make_dialect("text").system(web_prompt("plain", settings, "text"), toolset_of(settings))
    assert system is not None
    for spec in toolset_of(settings).specs:
        assert f'"name":"{spec.name}"' in system.partition("<tools>")[2]
