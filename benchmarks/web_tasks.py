"""The episodes of the benchmark of browsers: kinds of MiniWoB++ pages, and how each is solved from its goal.

Imported in the environment of each way that is measured, so it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

WINDOW = {"width": 332, "height": 214}
"""The window that BrowserGym has for these pages."""


class Step(NamedTuple):
    """Click an element by role and name; write into, or choose in, the first, second … of its role."""

    action: str
    role: str
    name: str = ""
    place: int = 0
    text: str = ""


def _quoted(goal: str) -> list[str]:
    return re.findall(r'"(.*?)"', goal)


def _chosen(goal: str) -> str:
    return goal.removeprefix("Select ").removesuffix(" and click Submit.").removesuffix(" from the list")


def _click(name: str, role: str = "button") -> Step:
    return Step("click", role, name)


def _write(text: str, place: int = 0) -> Step:
    return Step("type", "textbox", place=place, text=text)


def _boxes(goal: str) -> list[Step]:
    names = _chosen(goal).split(", ")
    return [*(_click(name, "checkbox") for name in names if name != "nothing"), _click("Submit")]


PLANS: dict[str, Callable[[str], list[Step]]] = {
    "choose-list": lambda goal: [Step("select", "combobox", text=_chosen(goal)), _click("Submit")],
    "click-button": lambda goal: [_click(*_quoted(goal))],
    "click-checkboxes": _boxes,
    "enter-text": lambda goal: [_write(*_quoted(goal)), _click("Submit")],
    "login-user": lambda goal: [_write(_quoted(goal)[0]), _write(_quoted(goal)[1], 1), _click("Login")],
}


def episodes(count: int, first: int = 0) -> list[tuple[str, int]]:
    """Kinds and seeds: the same ones for every way."""
    kinds = list(PLANS)
    return [(kinds[number % len(kinds)], first + number // len(kinds)) for number in range(count)]
