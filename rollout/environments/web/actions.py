"""The actions of an agent on a page: every action once, as a tool of each mode and with the function that does it.

In `coordinates` a place is `x` and `y`; in the other modes it is the number of an element in the last observation.
`answer` and `full_text`, which do nothing to a page, are the world's to do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from rollout.config.browsing import WebSettings
from rollout.core.errors import ConfigError
from rollout.core.messages import JSON, Toolset, ToolSpec
from rollout.core.spelling import suggest
from rollout.core.world import Invocation
from rollout.environments.web import interaction
from rollout.environments.web.session import BrowserSession

ANSWER = "answer"
GOBACK = "goback"
FULL_TEXT = "full_text"


class Terms:
    """The words of a mode: how a tool of it names a place."""

    def __init__(self, settings: WebSettings) -> None:
        self.settings = settings
        self.is_by_point = settings.mode == "coordinates"
        if self.is_by_point:
            across, down = (
                (settings.coordinate_range,) * 2 if settings.coordinate_range else (settings.width, settings.height)
            )
            self.place: JSON = {
                "x": _number(0, across) | {"description": f"From the left, 0 to {across}."},
                "y": _number(0, down) | {"description": f"From the top, 0 to {down}."},
            }
            self.what = "at a point of the screenshot"
        else:
            number = {"type": "integer", "minimum": 1, "description": "The element's number in the last observation."}
            self.place = {"element": number}
            self.what = "an element"
        self.needed = list(self.place)


class ToolText(msgspec.Struct, frozen=True):
    """The description of an action for a model."""

    text: str
    properties: JSON = {}
    required: list[str] = []


class WebAction(msgspec.Struct, frozen=True):
    """One thing that an agent can do."""

    name: str
    tool: Callable[[Terms], ToolText | None]
    """None where the mode has no use for it."""
    do: Callable[[BrowserSession, Any], Awaitable[None]] | None
    """None: it is the world's to do."""
    is_write: bool = True


def _text(text: str = "") -> JSON:
    return {"type": "string", "description": text} if text else {"type": "string"}


def _flag(text: str) -> JSON:
    return {"type": "boolean", "description": text}


def _number(low: float, high: float) -> JSON:
    return {"type": "number", "minimum": low, "maximum": high}


def _count(most: float, text: str) -> JSON:
    return {"type": "number", "exclusiveMinimum": 0, "maximum": most, "description": text}


def _tab_number(text: str) -> JSON:
    return {"type": "integer", "minimum": 1, "description": text}


def _click(terms: Terms) -> ToolText:
    properties = {
        "double": _flag("Click twice."),
        "triple": _flag("Click three times, which selects a line of text."),
        "button": {"type": "string", "enum": ["left", "right", "middle"], "description": "Default left."},
    }
    return ToolText(f"Click {terms.what}.", terms.place | properties, terms.needed)


def _type(terms: Terms) -> ToolText:
    properties = {
        "text": _text("What to type."),
        "submit": _flag("Press Enter afterwards."),
        "append": _flag("Keep what is in the field and type behind it."),
    }
    text = (
        f"Type into {terms.what}: a text field, a date (2025-01-31) or the like. What is in it is replaced. "
        f"Without {' and '.join(terms.place)}: type at the cursor of the field that has the focus."
    )
    return ToolText(text, terms.place | properties, ["text"])


def _hover(terms: Terms) -> ToolText:
    return ToolText(f"Move the mouse over {terms.what}.", terms.place, terms.needed)


def _drag(terms: Terms) -> ToolText:
    if terms.is_by_point:
        target = {f"to_{name}": schema for name, schema in terms.place.items()}
        text = "Drag from one point of the screenshot, or from where the mouse is, to another."
        return ToolText(text, terms.place | target, [*target])
    pixels = _number(-terms.settings.width, terms.settings.width)
    target = {
        "to_element": terms.place["element"] | {"description": "The number of the element to drop it on."},
        "right": pixels | {"description": "Pixels to the right of it, or of to_element; negative: to the left."},
        "down": pixels | {"description": "Pixels below it, or below to_element; negative: above."},
    }
    return ToolText(f"Drag {terms.what} onto another, or by a distance.", terms.place | target, terms.needed)


def _scroll(terms: Terms) -> ToolText:
    directions = {"type": "string", "enum": ["up", "down", "left", "right"]}
    pages = _count(10, "How many windows. Default 1.")
    return ToolText(
        "Scroll the page, or what lies under the given place.",
        terms.place | {"direction": directions, "pages": pages},
        ["direction"],
    )


def _select(terms: Terms) -> ToolText:
    text = f"Choose an option of a list ({terms.what}) by its label."
    return ToolText(text, terms.place | {"option": _text("The option's label.")}, [*terms.needed, "option"])


def _upload(terms: Terms) -> ToolText:
    text = f"Give one of the task's files to a page that asks for one ({terms.what}). Notes name the files, if any."
    return ToolText(text, terms.place | {"file": _text("The file's name.")}, [*terms.needed, "file"])


def _press(terms: Terms) -> ToolText:
    return ToolText(f"Press a key or keys together: {interaction.KEYS}.", {"key": _text("The key.")}, ["key"])


def _switch_tab(terms: Terms) -> ToolText:
    return ToolText("Show another tab.", {"tab": _tab_number("Its number in the list of tabs.")}, ["tab"])


def _close_tab(terms: Terms) -> ToolText:
    return ToolText("Close a tab.", {"tab": _tab_number("Its number in the list of tabs. Default: the active one.")})


def _more(terms: Terms) -> ToolText | None:
    text = "Show the next part of the last observation where it was cut. Numbers that were shown before stay valid."
    return None if terms.is_by_point else ToolText(text)


def _full_text(terms: Terms) -> ToolText:
    part = {"type": "integer", "minimum": 1, "description": "Of a long text. Default 1."}
    return ToolText("Read all text of the page, in the window or not. Nothing on the page changes.", {"part": part})


def _wait(terms: Terms) -> ToolText:
    return ToolText("Wait for the page to change.", {"seconds": _count(terms.settings.max_wait, "Default 1.")})


def _goback(terms: Terms) -> ToolText:
    return ToolText("Go back to the page before this one.")


def _navigate(terms: Terms) -> ToolText:
    return ToolText("Open an address.", {"url": _text("It begins with http:// or https://.")}, ["url"])


def _answer(terms: Terms) -> ToolText:
    return ToolText("Give the final answer to the task. This ends the work.", {"text": _text()}, ["text"])


_ACTIONS = (
    WebAction("click", _click, interaction.click),
    WebAction("type", _type, interaction.type_text),
    WebAction("hover", _hover, interaction.hover, is_write=False),
    WebAction("drag", _drag, interaction.drag),
    WebAction("scroll", _scroll, interaction.scroll, is_write=False),
    WebAction("select", _select, interaction.select_option),
    WebAction("upload", _upload, interaction.upload),
    WebAction("press", _press, interaction.press_key),
    WebAction("switch_tab", _switch_tab, interaction.switch_tab, is_write=False),
    WebAction("close_tab", _close_tab, interaction.close_tab),
    WebAction("more", _more, interaction.show_more, is_write=False),
    WebAction(FULL_TEXT, _full_text, None, is_write=False),
    WebAction("wait", _wait, interaction.look, is_write=False),
    WebAction(GOBACK, _goback, interaction.go_back),
    WebAction("navigate", _navigate, interaction.navigate),
    WebAction(ANSWER, _answer, None),
)
_BY_NAME = {action.name: action for action in _ACTIONS}
ACTIONS = frozenset(_BY_NAME)
"""The names of all actions."""


def toolset_of(settings: WebSettings) -> Toolset:
    """The tools of a mode, or those of them that the settings name. Raises ConfigError where one is unknown."""
    terms = Terms(settings)
    found = {action.name: spec for action in _ACTIONS if (spec := _spec(action, terms)) is not None}
    if unknown := [name for name in settings.actions if name not in found]:
        hint = suggest(unknown[0], found)
        raise ConfigError(f"actions: there is no {unknown[0]!r} in the mode {settings.mode}; {hint}")
    wanted = {*settings.actions, ANSWER} if settings.actions else found.keys()
    return Toolset(tuple(spec for name, spec in found.items() if name in wanted))


async def act(session: BrowserSession, call: Invocation) -> None:
    """Do what a call asks for. Raises ActionFault where it cannot be done, PageLost where the tab is gone."""
    do = _BY_NAME[call.name].do
    assert do is not None, call.name
    await do(session, call.arguments)


def _spec(action: WebAction, terms: Terms) -> ToolSpec | None:
    tool = action.tool(terms)
    if tool is None:
        return None
    schema = {
        "type": "object",
        "properties": tool.properties,
        "required": tool.required,
        "additionalProperties": False,
    }
    return ToolSpec(action.name, tool.text, schema, action.is_write, takes_numerals=True)
