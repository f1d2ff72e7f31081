"""The dialect of models that were trained on `computer_use` and `web_interaction` calls.

Such a model knows one tool. Its `action` says what to do, and further arguments say where and with what:

    <tool_call>
    {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [412, 88]}}
    </tool_call>

The tool is `computer_use` where places are points, and `web_interaction` (with `element_id`) where they are numbers of
elements. The record holds the calls of the environment's own tools (`click` with `x` and `y`), and the model's text to
the letter. An action that has no other name there is called by its own, so every offered tool can be used.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.agents.dialects import TextDialect, describe_tools
from rollout.core.messages import JSON, ToolCall, Toolset, ToolSpec, read_arguments
from rollout.trajectories.generation import Generation

BY_POINT, BY_NUMBER = "computer_use", "web_interaction"
THEIRS = {"click": "left_click", "goback": "go_back", "press": "key", "drag": "left_click_drag"}
"""The name of an action by that of the tool, where it is not the same."""
OURS = {theirs: ours for ours, theirs in THEIRS.items()} | {
    "click": "click",
    "double_click": "click",
    "mouse_move": "hover",
    "terminate": "answer",
}
ARGUMENTS = {"element_id": "element", "time": "seconds", "keys": "key", "content": "text", "status": "text"}
"""The name of an argument of a tool by that of the model's."""
SCROLL_PIXELS = 600
"""What `pixels` of a scroll are measured by: about a window."""
WAIT = 2.0
"""Seconds of a `wait` that does not say how long."""


class ComputerUseDialect(TextDialect):
    """One tool with an `action`, in the system prompt; its calls in the answers' text."""

    name = "computer_use"

    def system(self, system: str | None, tools: Toolset) -> str | None:
        if not len(tools):
            return system
        text = describe_tools(Toolset((one_tool(tools),)))
        return text if system is None else f"{system}\n\n{text}"

    def read(self, generation: Generation, seed: int | None) -> Generation:
        read = super().read(generation, seed)
        message = read.message
        calls = tuple(map(to_tool, message.tool_calls))
        if calls == message.tool_calls:
            return read
        return msgspec.structs.replace(read, message=msgspec.structs.replace(message, tool_calls=calls))


def to_tool(call: ToolCall) -> ToolCall:
    """A call of the one tool as a call of the tool that it means. Any other call is left as it is."""
    if call.name not in (BY_POINT, BY_NUMBER):
        return call
    given = read_arguments(call)
    action = given.pop("action", None)
    if not isinstance(action, str):
        return call
    arguments = {ARGUMENTS.get(name, name): value for name, value in given.items()}
    for theirs, ours in (("start_coordinate", ""), ("coordinate", "to_" if "start_coordinate" in given else "")):
        point = _point(arguments.pop(theirs, None))
        if point is not None:
            arguments |= {f"{ours}x": point[0], f"{ours}y": point[1]}
    name = OURS.get(action, action)
    if action == "double_click":
        arguments["double"] = True
    elif action == "type":
        # These models are trained with a `type` that submits.
        arguments["submit"] = arguments.pop("press_enter", True)
    elif action == "wait":
        arguments.setdefault("seconds", WAIT)
    elif action == "scroll":
        _say_direction(arguments)
    if isinstance(arguments.get("key"), list):
        arguments["key"] = "+".join(map(str, arguments["key"]))
    return ToolCall(call.id, name, msgspec.json.encode(arguments).decode())


def to_action(call: ToolCall) -> ToolCall:
    """The reverse of `to_tool`, for calls that no model wrote, as in an example."""
    arguments = read_arguments(call)
    names = {ours: theirs for theirs, ours in ARGUMENTS.items() if theirs in ("element_id", "time")}
    told: JSON = {"action": THEIRS.get(call.name, call.name)}
    is_by_point = "x" in arguments
    if is_by_point:
        told["coordinate"] = [arguments.pop("x"), arguments.pop("y")]
    elif "element" in arguments and call.name == "click":
        told["action"] = "click"
    told |= {names.get(name, name): value for name, value in arguments.items()}
    return ToolCall(call.id, BY_POINT if is_by_point else BY_NUMBER, msgspec.json.encode(told).decode())


def one_tool(tools: Toolset) -> ToolSpec:
    """All tools of an environment as the actions of one."""
    is_by_point = any("x" in spec.parameters.get("properties", {}) for spec in tools.specs)
    properties: JSON = {}
    lines: dict[str, str] = {}
    for spec in tools.specs:
        told = _arguments_of(spec, is_by_point)
        theirs = spec.name if spec.name == "click" and not is_by_point else THEIRS.get(spec.name, spec.name)
        needs = f" ({', '.join(told)})" if told else ""
        lines[theirs] = f"* `{theirs}`: {spec.description}{needs}"
        for name, schema in told.items():
            properties.setdefault(name, schema)
    action = {"type": "string", "enum": list(lines), "description": "\n".join(["What to do:", *lines.values()])}
    schema = {"type": "object", "properties": {"action": action} | properties, "required": ["action"]}
    text = "Act in a web browser: one action in each call, with its arguments beside it."
    return ToolSpec(BY_POINT if is_by_point else BY_NUMBER, text, schema)


def _arguments_of(spec: ToolSpec, is_by_point: bool) -> JSON:
    """The arguments of a tool under the model's names."""
    given: dict[str, JSON] = dict(spec.parameters.get("properties", {}))
    told: JSON = {}
    if is_by_point and "x" in given:
        across, down = given.pop("x"), given.pop("y")
        most = f"x from 0 to {across.get('maximum')}, y from 0 to {down.get('maximum')}"
        point = {"type": "array", "items": {"type": "number"}, "description": f"[x, y] in the screenshot: {most}."}
        if "to_x" in given:
            del given["to_x"], given["to_y"]
            told["start_coordinate"] = point | {"description": "Where a drag begins; it ends at coordinate."}
        told["coordinate"] = point
    for name, schema in given.items():
        if (spec.name, name) == ("type", "submit"):
            told["press_enter"] = schema | {"description": "Press Enter afterwards. Default true."}
        else:
            told[{"element": "element_id", "seconds": "time"}.get(name, name)] = schema
    return told


def _point(value: Any) -> tuple[float, float] | None:
    """A point, or the middle of a box."""
    if not isinstance(value, list) or not all(isinstance(part, int | float) for part in value):
        return None
    if len(value) == 4:
        return (value[0] + value[2]) / 2, (value[1] + value[3]) / 2
    return (value[0], value[1]) if len(value) == 2 else None


def _say_direction(arguments: JSON) -> None:
    """Scrolls go down by default; `pixels` say how far, up where they are positive."""
    pixels = arguments.pop("pixels", None)
    if isinstance(pixels, int | float) and pixels:
        arguments.setdefault("direction", "up" if pixels > 0 else "down")
        arguments.setdefault("pages", min(10.0, abs(pixels) / SCROLL_PIXELS))
    arguments.setdefault("direction", "down")
