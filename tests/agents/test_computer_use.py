"""Calls of the one tool that some models are trained on, read as calls of the tools that they mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rollout.agents.computer_use import ComputerUseDialect, one_tool, to_action, to_tool
from rollout.agents.formats import make_dialect
from rollout.config.browsing import WebSettings
from rollout.core.calls import CallReader
from rollout.core.messages import ToolCall, ToolResult
from rollout.core.world import Invocation
from rollout.environments.web.actions import toolset_of

POINTS = toolset_of(WebSettings(mode="coordinates", coordinate_range=1000))
NUMBERS = toolset_of(WebSettings(mode="set_of_marks"))


def _call(tool: str, arguments: dict[str, Any]) -> ToolCall:
    return ToolCall("1", tool, json.dumps(arguments))


@pytest.mark.parametrize(
    ("given", "name", "arguments"),
    [
        ({"action": "left_click", "coordinate": [500, 20]}, "click", {"x": 500, "y": 20}),
        ({"action": "left_click", "coordinate": [0, 0, 100, 50]}, "click", {"x": 50, "y": 25}),
        ({"action": "double_click", "coordinate": [1, 2]}, "click", {"x": 1, "y": 2, "double": True}),
        ({"action": "mouse_move", "coordinate": [1, 2]}, "hover", {"x": 1, "y": 2}),
        (
            {"action": "type", "coordinate": [1, 2], "text": "tea"},
            "type",
            {"x": 1, "y": 2, "text": "tea", "submit": True},
        ),
        ({"action": "type", "text": "tea"}, "type", {"text": "tea", "submit": False}),
        (
            {"action": "type", "coordinate": [1, 2], "text": "tea", "delete_existing_text": False},
            "type",
            {"x": 1, "y": 2, "text": "tea", "submit": True, "append": True},
        ),
        *(
            ({"action": "left_click", **point}, "click", {"x": 1, "y": 2})
            for point in (
                {"coordinate": "[1, 2]"},
                {"coordinate": "(1, 2)"},
                {"coordinate": ["1", "2"]},
                {"coordinate": [[1, 2]]},
                {"coordinate": {"x": 1, "y": 2}},
                {"point": [1, 2]},
                {"bbox_2d": [0, 0, 2, 4]},
            )
        ),
        ({"action": "Left_Click", "coordinate": [1, 2]}, "click", {"x": 1, "y": 2}),
        ({"action": "right_click", "coordinate": [1, 2]}, "click", {"x": 1, "y": 2, "button": "right"}),
        ({"action": "middle_click", "coordinate": [1, 2]}, "click", {"x": 1, "y": 2, "button": "middle"}),
        ({"action": "triple_click", "coordinate": [1, 2]}, "click", {"x": 1, "y": 2, "triple": True}),
        ({"action": "left_click_drag", "coordinate": [3, 4]}, "drag", {"to_x": 3, "to_y": 4}),
        (
            {"action": "drag", "start_coordinate": [1, 2], "end_coordinate": [3, 4]},
            "drag",
            {"x": 1, "y": 2, "to_x": 3, "to_y": 4},
        ),
        ({"action": "key", "text": "ctrl+s"}, "press", {"key": "ctrl+s"}),
        ({"action": "hotkey", "keys": ["ctrl", "c"]}, "press", {"key": "ctrl+c"}),
        (
            {"action": "scroll", "coordinate": [1, 2], "scroll_direction": "up", "scroll_amount": 3},
            "scroll",
            {"x": 1, "y": 2, "direction": "up", "pages": 0.5},
        ),
        ({"action": "hscroll", "pixels": 600}, "scroll", {"direction": "right", "pages": 1.0}),
        ({"action": "wait", "duration": 1}, "wait", {"seconds": 1}),
        ({"action": "screenshot"}, "wait", {"seconds": 0.1}),
        ({"action": "history_back"}, "goback", {}),
        ({"action": "visit_url", "url": "https://a.test/"}, "navigate", {"url": "https://a.test/"}),
        ({"action": "finish", "answer": "42"}, "answer", {"text": "42"}),
        ({"action": "scroll"}, "scroll", {"direction": "down"}),
        ({"action": "scroll", "pixels": 300}, "scroll", {"direction": "up", "pages": 0.5}),
        ({"action": "wait"}, "wait", {"seconds": 2.0}),
        ({"action": "wait", "time": 1}, "wait", {"seconds": 1}),
        ({"action": "key", "keys": ["Control", "A"]}, "press", {"key": "Control+A"}),
        ({"action": "go_back"}, "goback", {}),
        ({"action": "navigate", "url": "https://a.test/"}, "navigate", {"url": "https://a.test/"}),
        (
            {"action": "left_click_drag", "start_coordinate": [1, 2], "coordinate": [3, 4]},
            "drag",
            {"x": 1, "y": 2, "to_x": 3, "to_y": 4},
        ),
        ({"action": "answer", "text": "42"}, "answer", {"text": "42"}),
        ({"action": "terminate", "status": "failure"}, "answer", {"text": "failure"}),
        ({"action": "terminate"}, "answer", {"text": ""}),
        ({"action": "answer", "text": 42}, "answer", {"text": "42"}),
        ({"action": "keypress", "keys": ["enter"]}, "press", {"key": "enter"}),
    ],
)
def test_an_action_by_point_is_the_tool_that_it_means(
    given: dict[str, Any], name: str, arguments: dict[str, Any]
) -> None:
    read = CallReader(POINTS).read(to_tool(_call("computer_use", given)))
    assert isinstance(read, Invocation), read
    assert (read.name, read.arguments) == (name, arguments)


@pytest.mark.parametrize(
    ("given", "name", "arguments"),
    [
        ({"action": "click", "element_id": "12"}, "click", {"element": 12}),
        ({"action": "type", "element_id": 3, "text": "x", "press_enter": False}, "type",
         {"element": 3, "text": "x", "submit": False}),
        ({"action": "select", "element_id": 3, "option": "Red"}, "select", {"element": 3, "option": "Red"}),
        ({"action": "hover", "element_id": 4}, "hover", {"element": 4}),
        ({"action": "more"}, "more", {}),
    ],
)  # fmt: skip
def test_an_action_by_number_is_the_tool_that_it_means(
    given: dict[str, Any], name: str, arguments: dict[str, Any]
) -> None:
    read = CallReader(NUMBERS).read(to_tool(_call("web_interaction", given)))
    assert isinstance(read, Invocation), read
    assert (read.name, read.arguments) == (name, arguments)


def test_the_tool_offers_every_action_and_examples_are_calls_of_it() -> None:
    tool = one_tool(POINTS)
    actions = tool.parameters["properties"]["action"]["enum"]
    assert tool.name == "computer_use"
    assert len(actions) == len(POINTS)
    assert {"left_click", "type", "scroll", "wait", "go_back", "navigate", "answer"} <= set(actions)
    assert "x from 0 to 1000" in tool.parameters["properties"]["coordinate"]["description"]
    assert one_tool(NUMBERS).name == "web_interaction"
    for call in (ToolCall("", "click", '{"x":1,"y":2}'), ToolCall("", "click", '{"element":3}')):
        assert to_tool(to_action(call)) == call


@pytest.mark.parametrize(
    ("call", "name", "arguments"),
    [
        (_call("left_click", {"coordinate": [1, 2]}), "click", {"x": 1, "y": 2}),
        (_call("go_back", {}), "goback", {}),
        (_call("hover", {"coordinate": [1, 2]}), "hover", {"x": 1, "y": 2}),
        (
            ToolCall("1", "computer_use", json.dumps('{"action": "left_click", "coordinate": [1, 2]}')),
            "click",
            {"x": 1, "y": 2},
        ),
    ],
)
def test_a_call_by_the_name_of_its_action_or_written_as_text_is_understood(
    call: ToolCall, name: str, arguments: dict[str, Any]
) -> None:
    read = CallReader(POINTS).read(to_tool(call))
    assert isinstance(read, Invocation), read
    assert (read.name, read.arguments) == (name, arguments)


@pytest.mark.parametrize("arguments", ["{}", "[", '{"coordinate": [1, 2]}'])
def test_a_call_without_an_action_is_told_to_name_one(arguments: str) -> None:
    read = CallReader(POINTS).read(to_tool(ToolCall("1", "computer_use", arguments)))
    assert isinstance(read, ToolResult)
    assert "computer_use: say in `action` what to do" in read.content


def test_other_calls_are_left_as_they_are() -> None:
    for call in (ToolCall("1", "click", "{}"), ToolCall("2", "lookup", '{"id":1}'), ToolCall("3", "lookup", "[")):
        assert to_tool(call) == call


def test_a_saved_trajectory_finds_its_dialect_by_name() -> None:
    assert isinstance(make_dialect("computer_use"), ComputerUseDialect)
    assert make_dialect("text").name == "text"
    assert make_dialect("native").name == "native"
