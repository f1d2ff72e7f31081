"""What an agent can do to a page: tools, their schemas in each mode, and how each is done.

In `coordinates` a place is `x` and `y`; in `set_of_marks` and `text` it is the number of an element in the last
observation. An action that cannot be done raises `ActionFault`, whose text says what to do instead. `answer` is offered
here and kept by the world.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from rollout.config.browsing import WebSettings
from rollout.core.messages import JSON, Toolset, ToolSpec
from rollout.core.world import Invocation
from rollout.environments.web.session import BrowserSession
from rollout.tasks.web import full_url

PAGE = 0.85
"""The part of the window that one scroll moves by."""
KEYS = "Enter, Tab, Escape, Backspace, Delete, Space, ArrowUp, ArrowDown, PageDown, Home, End, F5, Control+A"


ANSWER = "answer"
GOBACK = "goback"
NOTHING_BEFORE = "nothing_before"
"""The kind of error of a `goback` that leads nowhere."""


class ActionFault(Exception):
    """An action that could not be done."""

    def __init__(self, text: str, *, has_moved: bool = False, kind: str = "tool") -> None:
        super().__init__(text)
        self.kind = kind
        """The `error_kind` of its result."""
        self.has_moved = has_moved
        """The page is not the one that was last observed."""


def toolset_of(settings: WebSettings) -> Toolset:
    """The tools of a mode."""
    place, needed, what = _place(settings)
    seconds = {"type": "number", "exclusiveMinimum": 0, "maximum": settings.max_wait, "description": "Default 1."}
    pages = {"type": "number", "exclusiveMinimum": 0, "maximum": 10, "description": "How many windows. Default 1."}
    directions = {"type": "string", "enum": ["up", "down", "left", "right"]}
    return Toolset(
        (
            _tool("click", f"Click {what}.", place | {"double": _flag("Click twice.")}, needed),
            _tool(
                "type",
                f"Type into {what}: a text field, a date (2025-01-31) or the like. What is in it is replaced.",
                place
                | {
                    "text": _text("What to type."),
                    "submit": _flag("Press Enter afterwards."),
                    "append": _flag("Keep what is in the field and type behind it."),
                },
                [*needed, "text"],
            ),
            _tool("hover", f"Move the mouse over {what}.", place, needed, is_write=False),
            _tool(
                "scroll",
                "Scroll the page, or what lies under the given place.",
                place | {"direction": directions, "pages": pages},
                ["direction"],
                is_write=False,
            ),
            _tool(
                "select",
                f"Choose an option of a list ({what}) by its label.",
                place | {"option": _text("The option's label.")},
                [*needed, "option"],
            ),
            _tool("press", f"Press a key or keys together: {KEYS}.", {"key": _text("The key.")}, ["key"]),
            _tool("wait", "Wait for the page to change.", {"seconds": seconds}, [], is_write=False),
            _tool(GOBACK, "Go back to the page before this one.", {}, []),
            _tool("navigate", "Open an address.", {"url": _text("It begins with http:// or https://.")}, ["url"]),
            _tool(ANSWER, "Give the final answer to the task. This ends the work.", {"text": _text("")}, ["text"]),
        )
    )


def drag_tool(settings: WebSettings) -> ToolSpec:
    """`drag`, which few pages need: for the worlds that offer it."""
    place, needed, what = _place(settings)
    if settings.mode == "coordinates":
        target = {f"to_{name}": schema for name, schema in place.items()}
        return _tool("drag", "Drag from one point of the screenshot to another.", place | target, [*needed, *target])
    pixels = {"type": "number", "minimum": -settings.width, "maximum": settings.width}
    target = {
        "to_element": place["element"] | {"description": "The number of the element to drop it on."},
        "right": pixels | {"description": "Pixels to the right of it, or of to_element; negative: to the left."},
        "down": pixels | {"description": "Pixels below it, or below to_element; negative: above."},
    }
    return _tool("drag", f"Drag {what} onto another, or by a distance.", place | target, needed)


def _place(settings: WebSettings) -> tuple[JSON, list[str], str]:
    if settings.mode == "coordinates":
        across, down = (
            (settings.coordinate_range,) * 2 if settings.coordinate_range else (settings.width, settings.height)
        )
        place = {
            "x": {"type": "number", "minimum": 0, "maximum": across, "description": f"From the left, 0 to {across}."},
            "y": {"type": "number", "minimum": 0, "maximum": down, "description": f"From the top, 0 to {down}."},
        }
        return place, ["x", "y"], "at a point of the screenshot"
    number = {"type": "integer", "minimum": 1, "description": "The element's number in the last observation."}
    return {"element": number}, ["element"], "an element"


def _tool(name: str, text: str, properties: JSON, required: list[str], is_write: bool = True) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ToolSpec(name, text, schema, is_write)


def _text(text: str) -> JSON:
    return {"type": "string", "description": text} if text else {"type": "string"}


def _flag(text: str) -> JSON:
    return {"type": "boolean", "description": text}


# ---- doing -----------------------------------------------------------------------------------------------------------


async def act(session: BrowserSession, call: Invocation) -> None:
    """Do what a call asks for. Raises ActionFault where it cannot be done, PageLost where the tab is gone."""
    await _ACTIONS[call.name](session, call.arguments)


async def goto(session: BrowserSession, url: str) -> None:
    """Open an address in the active tab."""
    from playwright.async_api import Error, TimeoutError

    settings = session.settings
    try:
        reply = await session.active.page.goto(url, wait_until="commit", timeout=settings.load_timeout * 1e3)
    except TimeoutError:
        await session.active.stop_loading()
        raise ActionFault(
            f"{url} did not answer within {settings.load_timeout:g} s. Try again later or go elsewhere.", has_moved=True
        ) from None
    except Error as error:
        if session.active.is_gone:
            raise
        if "Download is starting" in error.message:
            return  # told as a note
        why = session.fault_of(url) or error.message.partition("\n")[0].partition(" at http")[0].removeprefix(
            "Page.goto: "
        )
        raise ActionFault(f"{url} could not be opened: {why}", has_moved=True) from None
    if reply is not None:
        session.document_came(session.active.page, reply)


def checked_url(text: str) -> str:
    """An address that may be opened. Raises ActionFault on anything else."""
    try:
        return full_url(text)
    except ValueError:
        raise ActionFault(
            f"{text!r} is not an address to navigate to: give a full one, as https://example.com/page"
        ) from None


async def _find(session: BrowserSession, arguments: JSON) -> JSON:
    """The place that a call means: the point, and what is there."""
    if "element" in arguments:
        number = arguments["element"]
        found: JSON = await session.active.call_at("locate", {"element": number})
        fault = found.get("fault")
        if fault == "unknown":
            count = found["count"]
            has = f"has the elements 1 to {count}" if count else "has no numbered elements"
            raise ActionFault(f"there is no element {number}: the page {has}. Take a number of the last observation")
        if fault == "gone":
            raise ActionFault(
                f"element {number} is no longer on the page, which has changed; wait or scroll to see it anew"
            )
        if fault == "hidden":
            raise ActionFault(f"element {number}, {found['what']}, cannot be seen now; open or scroll to what holds it")
        if fault == "covered":
            raise ActionFault(f"element {number}, {found['what']}, is covered by {found['over']}; deal with that first")
        return found
    if "x" not in arguments or "y" not in arguments:
        raise ActionFault("both x and y are needed")
    x, y = _pixels(session.settings, arguments["x"], arguments["y"])
    at: JSON = await session.active.call("at", x, y)
    return at | {"x": x, "y": y}


def _pixels(settings: WebSettings, x: float, y: float) -> tuple[float, float]:
    across = down = settings.coordinate_range
    px = x * settings.width / across if across else x
    py = y * settings.height / down if down else y
    return min(px, settings.width - 1), min(py, settings.height - 1)


def _place_of(arguments: JSON, found: JSON) -> JSON:
    return {"element": arguments["element"]} if "element" in arguments else {"x": found["x"], "y": found["y"]}


async def _click(session: BrowserSession, arguments: JSON) -> None:
    found = await _find(session, arguments)
    if found.get("isDisabled"):
        raise ActionFault(f"{found['what']} is disabled")
    if found.get("isList"):
        # Its pop-up is drawn outside the page: no screenshot would show it.
        raise ActionFault(f"{found['what']} is a list; use select with one of: {' | '.join(found['options'])}")
    await session.active.page.mouse.click(found["x"], found["y"], click_count=2 if arguments.get("double") else 1)


async def _type(session: BrowserSession, arguments: JSON) -> None:
    found = await _find(session, arguments)
    text: str = arguments["text"]
    tab = session.active
    if found.get("isDisabled") or found.get("isReadOnly"):
        raise ActionFault(f"{found['what']} is {'disabled' if found['isDisabled'] else 'read-only'}")
    if found.get("takesValue"):
        result = await tab.call_at("setValue", _place_of(arguments, found), text)
        if not result["value"] and text:
            raise ActionFault(
                f"{found['what']} does not take {text!r}: dates are written 2025-01-31, times 14:30, months 2025-01, "
                "colours #rrggbb"
            )
    elif not found.get("isField") and "element" in arguments:
        raise ActionFault(f"{found['what']} is not a field to type into; take one that is, or use click or press")
    else:
        await tab.page.mouse.click(found["x"], found["y"])
        selected = await tab.call("selectAll")
        if selected.get("isForeign"):
            await tab.page.keyboard.press("ControlOrMeta+a")
        elif selected.get("fault"):
            raise ActionFault(f"there is no field to type into at that place; the focus is on {selected['what']}")
        keyboard = tab.page.keyboard
        if arguments.get("append"):
            await keyboard.press("End")
        if not text:
            await keyboard.press("Delete")
        else:
            # The last character as a real key, so that pages that listen to keys notice.
            if len(text) > 1:
                await keyboard.insert_text(text[:-1])
            await keyboard.type(text[-1])
    if arguments.get("submit"):
        await tab.page.keyboard.press("Enter")


async def _hover(session: BrowserSession, arguments: JSON) -> None:
    found = await _find(session, arguments)
    await session.active.page.mouse.move(found["x"], found["y"])


async def _drag(session: BrowserSession, arguments: JSON) -> None:
    found = await _find(session, arguments)
    if "to_x" in arguments:
        x, y = _pixels(session.settings, arguments["to_x"], arguments["to_y"])
    else:
        if not arguments.keys() & {"to_element", "right", "down"}:
            raise ActionFault("where to? Give to_element, right or down")
        over = await _find(session, {"element": arguments["to_element"]}) if "to_element" in arguments else found
        x, y = over["x"] + arguments.get("right", 0), over["y"] + arguments.get("down", 0)
    mouse = session.active.page.mouse
    await mouse.move(found["x"], found["y"])
    await mouse.down()
    try:
        # In steps: pages tell a drag from a click by how the mouse moves.
        await mouse.move(x, y, steps=8)
    finally:
        await mouse.up()


async def _scroll(session: BrowserSession, arguments: JSON) -> None:
    settings = session.settings
    x, y = settings.width / 2, settings.height / 2
    if "element" in arguments or "x" in arguments or "y" in arguments:
        found = await _find(session, arguments)
        x, y = found["x"], found["y"]
    by = arguments.get("pages", 1) * PAGE
    across, down = {
        "up": (0.0, -by * settings.height),
        "down": (0.0, by * settings.height),
        "left": (-by * settings.width, 0.0),
        "right": (by * settings.width, 0.0),
    }[arguments["direction"]]
    if not await session.active.call("scroll", x, y, across, down):
        # Nothing there scrolls by itself, but the page may listen to the wheel, as maps do.
        await session.active.page.mouse.move(x, y)
        await session.active.page.mouse.wheel(across, down)
        session.note(f"There is nothing more to scroll {arguments['direction']} there.")


async def _select(session: BrowserSession, arguments: JSON) -> None:
    found = await _find(session, arguments)
    if not found.get("isList"):
        raise ActionFault(f"{found.get('what', 'that place')} is not a list of options; click it instead")
    if found.get("isDisabled"):
        raise ActionFault(f"{found['what']} is disabled")
    chosen = await session.active.call_at("choose", _place_of(arguments, found), arguments["option"])
    if chosen.get("fault") == "option":
        raise ActionFault(f"there is no option {arguments['option']!r}; there are: {' | '.join(found['options'])}")
    if chosen.get("fault"):
        raise ActionFault(f"the option {arguments['option']!r} is disabled")


async def _press(session: BrowserSession, arguments: JSON) -> None:
    from playwright.async_api import Error

    key: str = arguments["key"]
    keyboard = session.active.page.keyboard
    try:
        await keyboard.press(key)
    except Error:
        if session.active.is_gone:
            raise
        if len(key) == 1:
            # Playwright's keyboard is an American one. A letter that is not on it comes as from another.
            await keyboard.insert_text(key)
            return
        raise ActionFault(f"{key!r} is not a key: use one character or {KEYS}") from None


async def pause(session: BrowserSession, arguments: JSON) -> None:
    """What a call of `wait` asks for, before it is done as an action: so long, or until the browser is lost."""
    seconds = min(float(arguments.get("seconds", 1)), session.settings.max_wait)
    try:
        async with asyncio.timeout(seconds):
            await session.lease.lost.wait()
    except TimeoutError:
        pass


async def _wait(session: BrowserSession, arguments: JSON) -> None:
    """Nothing is left to do but to look: see `pause`."""


async def _goback(session: BrowserSession, arguments: JSON) -> None:
    from playwright.async_api import TimeoutError

    tab = session.active
    if await tab.has_history():
        try:
            await tab.page.go_back(wait_until="commit", timeout=session.settings.load_timeout * 1e3)
        except TimeoutError:
            await tab.stop_loading()
            raise ActionFault("the page before did not answer in time; try again or navigate", has_moved=True) from None
    elif len(session.tabs) > 1:
        await session.close_active()
        session.note("The tab had no page before this one and was closed.")
    else:
        raise ActionFault("there is no page before this one", kind=NOTHING_BEFORE)


async def _navigate(session: BrowserSession, arguments: JSON) -> None:
    await goto(session, checked_url(arguments["url"]))


_ACTIONS: dict[str, Callable[[BrowserSession, Any], Awaitable[None]]] = {
    "click": _click,
    "type": _type,
    "hover": _hover,
    "drag": _drag,
    "scroll": _scroll,
    "select": _select,
    "press": _press,
    "wait": _wait,
    GOBACK: _goback,
    "navigate": _navigate,
}
ACTIONS = frozenset({*_ACTIONS, ANSWER})
"""The names of all actions."""
