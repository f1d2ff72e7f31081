"""Carries out the actions of an agent: by mouse and keyboard, on tabs, and by the script in the page.

Each function takes the session and the arguments of a call; `rollout.environments.web.actions` lists them as tools. An
action that cannot be done raises `ActionFault`, whose text says what to do instead.
"""

from __future__ import annotations

import asyncio

from rollout.config.browsing import WebSettings
from rollout.core.messages import JSON
from rollout.environments.web.keys import key_name
from rollout.environments.web.page import Tab
from rollout.environments.web.session import BrowserSession
from rollout.tasks.web import full_url

PAGE = 0.85
"""The part of what scrolls, the window or a container, that one scroll moves by."""
MAX_KEYS = 400
"""Characters that are typed key by key. Of a longer text the last one is, and the rest is put in at once."""
CHOOSER_TIMEOUT = 3.0
"""Seconds for a page to ask for a file after a click."""
KEYS = "Enter, Tab, Escape, Backspace, Delete, Space, ArrowUp, ArrowDown, PageDown, Home, End, F5, Control+A"
BOX_DELAY = 250
"""Milliseconds that a box of one character has to move the focus on. Many do so a moment after the key."""

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
            return  # the observation notes it
        said = error.message.partition("\n")[0].partition(" at http")[0].removeprefix("Page.goto: ")
        why = session.fault_of(url) or next(iter(session.document_faults()), said)
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
            count = session.active.numbered
            has = f"has the elements 1 to {count}" if count else "has no numbered elements"
            raise ActionFault(f"there is no element {number}: the page {has}. Take a number of the last observation")
        if fault == "gone":
            raise ActionFault(
                f"element {number} is no longer on the page, which has changed; wait or scroll to see it again"
            )
        if fault == "hidden":
            raise ActionFault(f"element {number}, {found['what']}, cannot be seen now; open or scroll to what holds it")
        if fault == "covered":
            raise ActionFault(f"element {number}, {found['what']}, is covered by {found['over']}; deal with that first")
        return found
    x, y = _point(session, arguments)
    at: JSON = await session.active.call("at", x, y)
    return at | {"x": x, "y": y}


def _point(session: BrowserSession, arguments: JSON) -> tuple[float, float]:
    if "x" not in arguments or "y" not in arguments:
        raise ActionFault("both x and y are needed")
    return _pixels(session.settings, arguments["x"], arguments["y"])


def _pixels(settings: WebSettings, x: float, y: float) -> tuple[float, float]:
    across = down = settings.coordinate_range
    px = x * settings.width / across if across else x
    py = y * settings.height / down if down else y
    return min(px, settings.width - 1), min(py, settings.height - 1)


def _place_of(arguments: JSON, found: JSON) -> JSON:
    return {"element": arguments["element"]} if "element" in arguments else {"x": found["x"], "y": found["y"]}


async def click(session: BrowserSession, arguments: JSON) -> None:
    found = await _find(session, arguments)
    if found.get("isDisabled"):
        raise ActionFault(f"{found['what']} is disabled")
    if found.get("isList"):
        # Its pop-up is drawn outside the page: no screenshot would show it.
        raise ActionFault(f"{found['what']} is a list; use select with one of: {' | '.join(found['options'])}")
    times = 3 if arguments.get("triple") else 2 if arguments.get("double") else 1
    button = arguments.get("button", "left")
    await session.active.page.mouse.click(found["x"], found["y"], button=button, click_count=times)
    session.mouse = (found["x"], found["y"])


async def type_text(session: BrowserSession, arguments: JSON) -> None:
    if not arguments.keys() & {"element", "x", "y"}:
        await _type_at_focus(session, arguments)
        return
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
        session.mouse = (found["x"], found["y"])
        selected = await tab.call("selectAll")
        if selected.get("isForeign"):
            await tab.page.keyboard.press("ControlOrMeta+a")
        elif selected.get("fault"):
            raise ActionFault(f"there is no field to type into at that place; the focus is on {selected['what']}")
        if arguments.get("append"):
            await tab.page.keyboard.press("End")
        if text:
            await _write(tab, text, selected)
        else:
            await tab.page.keyboard.press("Delete")
    if arguments.get("submit"):
        await tab.page.keyboard.press("Enter")


async def _type_at_focus(session: BrowserSession, arguments: JSON) -> None:
    """Type where the cursor is: what is selected is replaced, the rest of the field stays."""
    tab = session.active
    focused = await tab.call("focused")
    if focused.get("fault"):
        raise ActionFault(
            f"no field has the focus, but {focused['what']}; click a field first, or say which one to type into"
        )
    if arguments["text"]:
        await _write(tab, arguments["text"], focused)
    if arguments.get("submit"):
        await tab.page.keyboard.press("Enter")


async def _write(tab: Tab, text: str, field: JSON) -> None:
    """Type into the focused field: key by key where the page listens, so that it can move on to the next field or
    offer what fits; at once where it does not."""
    keyboard = tab.page.keyboard
    if field.get("isLine"):  # Enter would submit
        text = " ".join(text.splitlines()) if "\n" in text else text
    is_by_key = len(text) <= MAX_KEYS and await tab.listens_to_keys()
    for place, line in enumerate(text.split("\n")):
        if place:
            await _break_line(tab, field)
        if field.get("isBox"):
            for character in line:
                await tab.call("watchFocus")
                await keyboard.type(character)
                await tab.call("focusMoved", BOX_DELAY)
        elif is_by_key:
            await keyboard.type(line)
        elif line:
            # The last character as a real key all the same: a listener may be hidden from us.
            await keyboard.insert_text(line[:-1])
            await keyboard.type(line[-1])


async def _break_line(tab: Tab, field: JSON) -> None:
    """Begin a new line without Enter, which sends in many chats."""
    if field.get("isRich"):
        # Inserted as text, a line break can leave the cursor in the line before it.
        await tab.page.keyboard.press("Shift+Enter")
    else:
        await tab.page.keyboard.insert_text("\n")


async def hover(session: BrowserSession, arguments: JSON) -> None:
    found = await _find(session, arguments)
    await session.active.page.mouse.move(found["x"], found["y"])
    session.mouse = (found["x"], found["y"])


async def drag(session: BrowserSession, arguments: JSON) -> None:
    if "to_x" in arguments and not arguments.keys() & {"x", "y"}:
        if session.mouse is None:
            raise ActionFault("both x and y are needed: the mouse was nowhere yet")
        found: JSON = {"x": session.mouse[0], "y": session.mouse[1]}
    else:
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
    session.mouse = (x, y)


async def scroll(session: BrowserSession, arguments: JSON) -> None:
    settings = session.settings
    x, y = settings.width / 2, settings.height / 2
    if "element" in arguments or "x" in arguments or "y" in arguments:
        found = await _find(session, arguments)
        x, y = found["x"], found["y"]
    by = arguments.get("pages", 1) * PAGE
    across, down = {"up": (0.0, -by), "down": (0.0, by), "left": (-by, 0.0), "right": (by, 0.0)}[arguments["direction"]]
    if not await session.active.scroll(x, y, across, down):
        # Nothing there scrolls by itself, but the page may listen to the wheel, as maps do.
        await session.active.page.mouse.move(x, y)
        await session.active.page.mouse.wheel(across * settings.width, down * settings.height)
        session.note(f"There is nothing more to scroll {arguments['direction']} there.")


async def select_option(session: BrowserSession, arguments: JSON) -> None:
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


async def press_key(session: BrowserSession, arguments: JSON) -> None:
    from playwright.async_api import Error

    key = key_name(arguments["key"])
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


async def upload(session: BrowserSession, arguments: JSON) -> None:
    """Click what asks for a file, and give it one of the task's."""
    name: str = arguments["file"]
    file = session.files.get(name)
    if file is None:
        known = f"there are: {', '.join(session.files)}" if session.files else "the task has none"
        raise ActionFault(f"there is no file {name!r} to upload; {known}")
    found = await _find(session, arguments)
    if found.get("isDisabled"):
        raise ActionFault(f"{found['what']} is disabled")
    with session.awaiting_chooser() as chosen:
        await session.active.page.mouse.click(found["x"], found["y"])
        try:
            async with asyncio.timeout(CHOOSER_TIMEOUT):
                chooser = await chosen
        except TimeoutError:
            raise ActionFault(
                f"{found.get('what', 'that place')} asked for no file; choose an element that does", has_moved=True
            ) from None
    await chooser.set_files({"name": file.name, "mimeType": file.mime_type, "buffer": file.content})


async def switch_tab(session: BrowserSession, arguments: JSON) -> None:
    tab = _tab(session, arguments["tab"])
    await session.activate(tab)


async def close_tab(session: BrowserSession, arguments: JSON) -> None:
    tab = _tab(session, arguments["tab"]) if "tab" in arguments else session.active
    if len(session.tabs) == 1:
        raise ActionFault("this is the only tab; it stays")
    await session.close_tab(tab)


def _tab(session: BrowserSession, number: int) -> Tab:
    if not 1 <= number <= len(session.tabs):
        raise ActionFault(f"there is no tab {number}; there {_tabs(len(session.tabs))}")
    return session.tabs[number - 1]


def _tabs(count: int) -> str:
    return "is one" if count == 1 else f"are 1 to {count}"


async def show_more(session: BrowserSession, arguments: JSON) -> None:
    if not await session.active.has_more():
        raise ActionFault("the last observation showed all there is; scroll to see other parts of the page")
    session.wants_next = True


async def look(session: BrowserSession, arguments: JSON) -> None:
    """Nothing is left to do but to look: see `pause`."""


async def go_back(session: BrowserSession, arguments: JSON) -> None:
    from playwright.async_api import TimeoutError

    tab = session.active
    if await tab.has_history():
        try:
            await tab.page.go_back(wait_until="commit", timeout=session.settings.load_timeout * 1e3)
        except TimeoutError:
            await tab.stop_loading()
            raise ActionFault("the page before did not answer in time; try again or navigate", has_moved=True) from None
    elif len(session.tabs) > 1:
        await session.close_tab(tab)
        session.note("The tab had no page before this one and was closed.")
    else:
        raise ActionFault("there is no page before this one", kind=NOTHING_BEFORE)


async def navigate(session: BrowserSession, arguments: JSON) -> None:
    await goto(session, checked_url(arguments["url"]))
