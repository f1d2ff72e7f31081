"""A scripted model that solves some kinds of MiniWoB++ pages from the same text that any agent is shown.

It needs no key and shows that the way from goal to reward works, in the modes `set_of_marks` and `text`. For each kind
of page there is a plan: from the goal to steps, each a tool, the line of the element that it is for, and further
arguments. It takes one step in an answer, and says that it is done when none is left. Like any model it is sent
messages, not data, so it looks for the goal and for elements in their text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import msgspec

from rollout.core.errors import ConfigError, ModelError
from rollout.core.messages import Message, ToolCall
from rollout.environments.suites.miniwob.world import GOAL
from rollout.models.model import Capability, Generation, Request


class ScriptedStep(msgspec.Struct, frozen=True):
    """One call."""

    tool: str
    element: str
    """A pattern of the element's line, behind its number."""
    arguments: dict[str, Any] = {}
    place: int = 0
    """Which of those that fit."""


_GOAL_NOTE = re.compile(rf"^Note: {GOAL}(.*)$", re.MULTILINE)
_ADDRESS = re.compile(r"^URL: (\S+)$", re.MULTILINE)
SUBMIT = ScriptedStep("click", 'button "submit"')
BOX = "textbox"


def _click(role: str, name: str) -> ScriptedStep:
    return ScriptedStep("click", f'{role} "{re.escape(name)}"')


def _type(text: str, place: int = 0) -> ScriptedStep:
    return ScriptedStep("type", BOX, {"text": text}, place)


def _quoted(goal: str) -> list[str]:
    return re.findall(r'"(.*?)"', goal)


def _boxes(goal: str) -> list[ScriptedStep]:
    names = goal.removeprefix("Select ").removesuffix(" and click Submit.")
    return [*(_click("checkbox", name) for name in names.split(", ") if name != "nothing"), SUBMIT]


def _chosen(goal: str) -> str:
    return goal.removeprefix("Select ").removesuffix(" and click Submit.").removesuffix(" from the list")


def _dialog_button(goal: str) -> list[ScriptedStep]:
    (name,) = _quoted(goal)
    return [_click("button", "Close" if name == "x" else name)]


def _cased(goal: str) -> list[ScriptedStep]:
    (text,) = _quoted(goal)
    return [_type(text.upper() if "upper" in goal else text.lower()), SUBMIT]


def _date(goal: str) -> list[ScriptedStep]:
    month, day, year = re.findall(r"\d+", goal)
    return [ScriptedStep("type", "date|textbox", {"text": f"{year}-{month}-{day}"}), SUBMIT]


PLANS: dict[str, Callable[[str], Sequence[ScriptedStep]]] = {
    "choose-list": lambda goal: [ScriptedStep("select", "combobox", {"option": _chosen(goal)}), SUBMIT],
    "click-button": lambda goal: [_click("button", _quoted(goal)[0])],
    "click-button-sequence": lambda goal: [_click("button", "ONE"), _click("button", "TWO")],
    "click-checkboxes": _boxes,
    "click-checkboxes-transfer": _boxes,
    "click-dialog": _dialog_button,
    "click-dialog-2": _dialog_button,
    "click-link": lambda goal: [_click(r"\w+", _quoted(goal)[0])],
    "click-option": lambda goal: [_click("radio", _chosen(goal)), SUBMIT],
    "click-tab": lambda goal: [ScriptedStep("click", f'\\w+ "Tab #{goal[-2]}"')],
    "click-test": lambda goal: [ScriptedStep("click", "button")],
    "click-test-2": lambda goal: [_click("button", "ONE")],
    "enter-date": _date,
    "enter-password": lambda goal: [_type(_quoted(goal)[0], 0), _type(_quoted(goal)[0], 1), SUBMIT],
    "enter-text": lambda goal: [_type(_quoted(goal)[0]), SUBMIT],
    "enter-text-2": _cased,
    "enter-text-dynamic": lambda goal: [_type(_quoted(goal)[0]), SUBMIT],
    "focus-text": lambda goal: [ScriptedStep("click", BOX)],
    "focus-text-2": lambda goal: [ScriptedStep("click", BOX, place=int(re.findall(r"\d", goal)[0]) - 1)],
    "login-user": lambda goal: [_type(_quoted(goal)[0], 0), _type(_quoted(goal)[1], 1), _click("button", "Login")],
    "unicode-test": lambda goal: [_click("button", _quoted(goal)[0])],
}
"""By kind of page."""


def goal_of(messages: Sequence[Message]) -> str:
    """The goal in the last observation that states it."""
    goals = (found for message in reversed(messages) if (found := _GOAL_NOTE.search(message.content or "")))
    return str(next(goals)[1])


def kind_of(messages: Sequence[Message]) -> str:
    """The kind of page, which is the name of its file in the address that the last observation shows."""
    addresses = (found for message in reversed(messages) if (found := _ADDRESS.search(message.content or "")))
    return PurePosixPath(urlsplit(next(addresses)[1]).path).stem


def number_of(step: ScriptedStep, observation: str) -> int:
    """The number of the element that a step is for."""
    lines = re.findall(r"\[(\d+)\] (\w[^\[\n]*)", observation)
    fitting = [int(number) for number, line in lines if re.match(step.element, line, re.IGNORECASE)]
    # A name that differs in its case is another one, where there are both.
    exact = [int(number) for number, line in lines if re.match(step.element, line)]
    found = exact or fitting
    if len(found) <= step.place:
        raise ModelError(f"no element {step.element!r} is in the observation:\n{observation}")
    return found[step.place]


class Scripted:
    """The model."""

    name = "rollout.environments.suites.miniwob.scripted:Scripted"
    capabilities: frozenset[Capability] = frozenset()

    async def generate(self, request: Request) -> Generation:
        kind = kind_of(request.messages)
        if kind not in PLANS:
            raise ConfigError(f"{self.name} cannot solve {kind}; it can solve: {', '.join(PLANS)}")
        steps = PLANS[kind](goal_of(request.messages))
        done = sum(len(message.tool_calls) for message in request.messages)
        if done >= len(steps):
            said = Message(role="assistant", content="That is all.")
            return Generation(message=said, finish_reason="stop", model=self.name)
        step = steps[done]
        number = number_of(step, request.messages[-1].content or "")
        arguments = msgspec.json.encode({"element": number, **step.arguments}).decode()
        call = ToolCall(f"call{done}", step.tool, arguments)
        message = Message(role="assistant", content=f"{step.tool} {step.element}", tool_calls=(call,))
        return Generation(message=message, finish_reason="tool_calls", model=self.name)

    async def close(self) -> None:
        """Nothing is held."""
