"""Names of keys as models write them: `ctrl+c`, `Return`, `page_down`, `CMD + A`; as Playwright wants them.

Playwright knows a key by one name only, in one spelling. Models have learned those of X, of pyautogui and of macOS.
"""

from __future__ import annotations

import re

_NAMES = (
    *("Enter", "Tab", "Escape", "Backspace", "Delete", "Insert", "Home", "End", "PageUp", "PageDown"),
    *("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"),
    *("Control", "Alt", "Shift", "Meta", "ControlOrMeta", "CapsLock", "ContextMenu"),
    *(f"F{number}" for number in range(1, 13)),
)
_BY_SPELLING = {name.lower(): name for name in _NAMES} | {
    "return": "Enter",
    "kpenter": "Enter",
    "esc": "Escape",
    "del": "Delete",
    "ins": "Insert",
    "pgup": "PageUp",
    "prior": "PageUp",
    "pgdn": "PageDown",
    "pgdown": "PageDown",
    "next": "PageDown",
    "up": "ArrowUp",
    "down": "ArrowDown",
    "left": "ArrowLeft",
    "right": "ArrowRight",
    "uparrow": "ArrowUp",
    "downarrow": "ArrowDown",
    "leftarrow": "ArrowLeft",
    "rightarrow": "ArrowRight",
    "ctrl": "Control",
    "ctl": "Control",
    "option": "Alt",
    "opt": "Alt",
    "cmd": "ControlOrMeta",
    "command": "ControlOrMeta",
    "super": "Meta",
    "win": "Meta",
    "menu": "ContextMenu",
    "space": "Space",
    "spacebar": "Space",
    "plus": "+",
    "minus": "-",
}
_SIDED = re.compile(r"(?<=[a-z])(_?l|_?r|left|right)$")


def key_name(text: str) -> str:
    """A key, or keys together, under Playwright's names. What is no known name stays as it is."""
    if len(text) == 1:
        return text
    parts = [part.strip() for part in re.split(r"\+(?=.)", text)]
    return "+".join(_name(part) for part in parts if part)


def _name(part: str) -> str:
    if len(part) < 2:
        return part
    plain = re.sub(r"[\s_-]", "", part.lower())
    return _BY_SPELLING.get(plain) or _BY_SPELLING.get(_SIDED.sub("", part.lower())) or part
