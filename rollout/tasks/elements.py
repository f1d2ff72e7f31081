"""Elements of a page by what an observation says of them.

A browser numbers the elements of each observation again, so a reference action names one by role and name instead:
`{"$element": "button \"Add to cart\""}`. Of several that fit, `"nth": 2` is the second; `"match": "prefix"` wants only
the beginning of the name. Observations list elements as `[7] button "Add to cart" (disabled)`, one a line or, where the
page is shown as text, within it.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from rollout.core.messages import JSON

KEYS = frozenset({"$element", "nth", "match"})
_LOCATOR = re.compile(r'(?P<role>\S+)(?: "(?P<name>.*)")?', re.DOTALL)
_SCROLLED = re.compile(r"^Scrolled: (\d+) px of the page above, (\d+) px below$", re.MULTILINE)
_CUT = "(cut here; call more"
_BUSY = re.compile(r"^(The page is still loading\.|The page had not settled )", re.MULTILINE)
_PAGE = re.compile(r"^URL: ", re.MULTILINE)


class NotListed(LookupError):
    """The observation lists no such element. Its text is the locator."""


def is_locator(value: Any) -> bool:
    """Whether a value of a reference action names an element."""
    return isinstance(value, dict) and "$element" in value and set(value) <= KEYS


def has_locator(arguments: JSON) -> bool:
    """Whether a reference action names an element anywhere."""
    return any(is_locator(value) for value in arguments.values())


def resolve_elements(arguments: JSON, observation: str) -> JSON:
    """The arguments with the numbers of the elements that they name. Raises NotListed."""
    return {key: find_element(value, observation) if is_locator(value) else value for key, value in arguments.items()}


def find_element(locator: JSON, observation: str) -> int:
    """The number of an element. Raises NotListed where there is none, ValueError where the locator is malformed."""
    wanted = locator["$element"]
    parts = _LOCATOR.fullmatch(wanted) if isinstance(wanted, str) else None
    match = locator.get("match", "exact")
    nth = locator.get("nth", 1)
    if parts is None or match not in ("exact", "prefix") or not isinstance(nth, int) or nth < 1:
        raise ValueError(f'not a locator: {locator!r}; expected {{"$element": "role \\"name\\"", "nth": 1}}')
    role, name = parts["role"], parts["name"]
    found = [
        int(number)
        for form in dict.fromkeys(_forms(name))
        for number in re.findall(_pattern(role, form, match == "prefix"), observation, re.MULTILINE)
    ]
    if len(found) < nth:
        raise NotListed(wanted)
    return found[nth - 1]


def shows_page(text: str) -> bool:
    """Whether a message shows a page, and not only what went wrong."""
    return _PAGE.search(text) is not None


def is_cut(observation: str) -> bool:
    """Whether an observation ends before the list of elements does."""
    return _CUT in observation


def is_busy(observation: str) -> bool:
    """Whether an observation says that the page had not come to rest."""
    return _BUSY.search(observation) is not None


def scroll_position(observation: str) -> tuple[int, int]:
    """Pixels of the page above and below what is shown."""
    found = _SCROLLED.search(observation)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _forms(name: str | None) -> list[str | None]:
    """A name as a list of elements has it, and as a page shown as text has it, where quotes are escaped."""
    return [None] if name is None else [name, msgspec.json.encode(name).decode()[1:-1]]


def _pattern(role: str, name: str | None, is_prefix: bool) -> str:
    start = rf"(?:^|\s)\[(\d+)\] {re.escape(role)}"
    if name is None:
        return start + r'(?! ")(?=\s|$)'
    return f'{start} "{re.escape(name)}' + ("" if is_prefix else r'"(?=\s|$)')
