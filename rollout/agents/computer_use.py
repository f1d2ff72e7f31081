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

import contextlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from rollout.agents.dialects import TextDialect, describe_tools
from rollout.core.calls import malformed_call
from rollout.core.messages import JSON, ToolCall, Toolset, ToolSpec, read_arguments
from rollout.trajectories.generation import Generation

BY_POINT, BY_NUMBER = "computer_use", "web_interaction"
ONE_TOOL = frozenset({BY_POINT, BY_NUMBER, "computer", "browser_use"})
"""Names under which models call the one tool, whatever it was offered as."""
THEIRS = {"click": "left_click", "goback": "go_back", "press": "key", "drag": "left_click_drag"}
"""The name of an action by that of the tool, where it is not the same."""
OURS = {theirs: ours for ours, theirs in THEIRS.items()} | {
    "click": "click",
    "double_click": "click",
    "triple_click": "click",
    "right_click": "click",
    "middle_click": "click",
    "drag": "drag",
    "mouse_move": "hover",
    "move": "hover",
    "hotkey": "press",
    "key_press": "press",
    "keypress": "press",
    "hscroll": "scroll",
    "screenshot": "wait",
    "history_back": "goback",
    "back": "goback",
    "visit_url": "navigate",
    "goto": "navigate",
    "open_url": "navigate",
    "terminate": "answer",
    "finish": "answer",
    "finished": "answer",
    "done": "answer",
}
ENDING = ("terminate", "finish", "finished", "done")
"""Actions that end the work, with or without an answer."""
ARGUMENTS = {
    "element_id": "element",
    "time": "seconds",
    "duration": "seconds",
    "scroll_direction": "direction",
}
"""The name of an argument of a tool by that of the model's."""
TEXTS = {
    "press": ("key", ("keys", "text")),
    "type": ("text", ("content", "value")),
    "answer": ("text", ("content", "answer", "status")),
}
"""For a tool, its argument and the names that models give it."""
POINTS = ("coordinate", "coordinates", "point", "position", "bbox_2d", "bbox")
STARTS, ENDS = ("start_coordinate", "start_point"), ("end_coordinate", "end_point")
HOW: dict[str, JSON] = {
    "double_click": {"double": True},
    "triple_click": {"triple": True},
    "right_click": {"button": "right"},
    "middle_click": {"button": "middle"},
    "screenshot": {"seconds": 0.1},
}
"""What an action's name says besides the tool."""
SCROLL_PIXELS = 600
"""What `pixels` of a scroll are measured by: about a window."""
NOTCH = 100
"""Pixels of one notch of the wheel, which other models count scrolls in."""
WAIT = 2.0
"""Seconds of a `wait` that does not say how long."""


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


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
    """A call of the one tool, or one that has the name of an action, as a call of the tool that it means. Any other is
    left as it is."""
    given = _given(call)
    if call.name in ONE_TOOL:
        action = given.pop("action", None)
        if not isinstance(action, str):
            return malformed_call(
                call.id, f"{call.name}: say in `action` what to do, and beside it where and with what."
            )
    elif call.name in OURS or not given.keys().isdisjoint(POINTS):
        action = call.name
    else:
        return call
    action = action.strip().lower()
    name = OURS.get(action, action)
    arguments = {ARGUMENTS.get(key, key): value for key, value in given.items()} | HOW.get(action, {})
    _set_points(name, arguments)
    if name in TEXTS:
        ours, others = TEXTS[name]
        for other in others:
            if other in arguments:
                value = arguments.pop(other)
                arguments.setdefault(ours, value)
        if _number(arguments.get(ours)) is not None:
            arguments[ours] = str(arguments[ours])
    if action in ENDING:
        arguments.setdefault("text", "")
    if name == "type":
        has_place = not arguments.keys().isdisjoint(("x", "element"))
        # Models that say where they type are trained with a `type` that submits, those that click before are not.
        arguments["submit"] = arguments.pop("press_enter", has_place)
        if arguments.pop("delete_existing_text", True) is False:
            arguments["append"] = True
    elif name == "wait":
        arguments.setdefault("seconds", WAIT)
    elif name == "scroll":
        _say_direction(arguments, is_across=action == "hscroll")
    if isinstance(arguments.get("key"), list):
        arguments["key"] = "+".join(map(str, arguments["key"]))
    return ToolCall(call.id, name, msgspec.json.encode(arguments).decode())


def _given(call: ToolCall) -> JSON:
    """The arguments, also where a model wrote them as a text that is JSON."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeError):
        call = ToolCall(call.id, call.name, msgspec.json.decode(call.arguments, type=str))
    return read_arguments(call)


def to_action(call: ToolCall) -> ToolCall:
    """The reverse of `to_tool`, for calls that no model wrote, as in an example."""
    arguments = read_arguments(call)
    names = {"element": "element_id", "seconds": "time"}
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
            told["press_enter"] = schema | {
                "description": "Press Enter afterwards. Default true where a place is given."
            }
        else:
            told[{"element": "element_id", "seconds": "time"}.get(name, name)] = schema
    return told


def _set_points(name: str, arguments: JSON) -> None:
    """Replace points by coordinates. A drag begins at its start, or where the mouse is."""
    starts, points, ends = (_take_point(arguments, names) for names in (STARTS, POINTS, ENDS))
    if name == "drag":
        start, end = (points, ends) if ends is not None and starts is None else (starts, ends or points)
    else:
        start, end = points or starts, None
    if start is not None:
        arguments |= {"x": start[0], "y": start[1]}
    if end is not None:
        arguments |= {"to_x": end[0], "to_y": end[1]}


def _take_point(arguments: JSON, names: Sequence[str]) -> tuple[float, float] | None:
    """The point under one of these names, which is taken out. Anything else stays, and is reported."""
    for name in names:
        point = _point(arguments.get(name))
        if point is not None:
            del arguments[name]
            return point
    return None


def _point(value: Any) -> tuple[float, float] | None:
    """A point, or the middle of a box, in whichever way it is written."""
    if isinstance(value, str):
        value = _NUMBER.findall(value)
    if isinstance(value, dict):
        value = [value.get("x"), value.get("y")]
    if not isinstance(value, list):
        return None
    if len(value) == 1:
        return _point(value[0])
    if len(value) == 2 and all(isinstance(part, list) for part in value):
        value = [*value[0], *value[1]]
    numbers = [number for part in value if (number := _number(part)) is not None]
    if len(numbers) != len(value) or len(value) not in (2, 4):
        return None
    if len(numbers) == 4:
        return (numbers[0] + numbers[2]) / 2, (numbers[1] + numbers[3]) / 2
    return numbers[0], numbers[1]


def _number(value: Any) -> float | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = msgspec.json.decode(value.strip())
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _say_direction(arguments: JSON, *, is_across: bool) -> None:
    """Scrolls go down by default; `pixels` say how far, up where they are positive, or to the right across."""
    pixels, notches = _number(arguments.pop("pixels", None)), None
    for name in ("scroll_amount", "amount"):
        notches = _number(arguments.pop(name, None)) or notches
    if pixels:
        backward, forward = ("left", "right") if is_across else ("down", "up")
        arguments.setdefault("direction", forward if pixels > 0 else backward)
    far = abs(pixels or (notches or 0) * NOTCH)
    if far:
        arguments.setdefault("pages", min(10.0, far / SCROLL_PIXELS))
    arguments.setdefault("direction", "right" if is_across else "down")
