"""Conditions on the site at the end of a task: `task_info.checks`, read and compared. No browser is needed here.

A check is one of
    {"kind": "url", "equals" | "contains" | "matches": "…"}
    {"kind": "dom", "selector": "…", "text" | "contains" | "value": "…" | "count": n | "exists": bool}
    {"kind": "script", "script": "…", "equals": JSON}
each with an optional "url", a page of the site that is opened for it; without one it looks at the page that the agent
left. What is wrong with a check raises ConfigError with the task and the key, before any page is asked.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urljoin, urlsplit

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.task import Task
from rollout.environments.web.inspection import Finding, Probe

MAX_CHECKS = 50
MAX_SCRIPT = 20_000
MAX_TEXT = 2_000
MAX_URL = 4_000
MAX_SHOWN = 200


class Unknown(Exception):
    """It is unknown whether a check holds."""


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Something that must be so. Exactly one of the keys in `conditions` is given."""

    conditions: ClassVar[tuple[str, ...]] = ()
    url: str | None = None

    @property
    def probe(self) -> Probe:
        """What is asked of the page."""
        return Probe()

    @property
    def condition(self) -> tuple[str, Any]:
        """The key that is given, and its value."""
        return next((key, value) for key in self.conditions if (value := getattr(self, key)) is not msgspec.UNSET)

    def holds(self, found: Finding, start_url: str) -> tuple[bool, Any]:
        """Whether it is so, and what is there instead or besides. Raises Unknown where that cannot be found out."""
        raise NotImplementedError

    def fault(self) -> str | None:
        """What is wrong with it, beginning with the key."""
        given = [key for key in self.conditions if getattr(self, key) is not msgspec.UNSET]
        if len(given) != 1:
            has = f"has {' and '.join(given)}" if given else "has none"
            return f": expected exactly one of {', '.join(self.conditions)}; it {has}"
        if self.url is not None and not re.match(r"/|https?://[^/]", self.url):
            return f".url: {self.url!r} is no page of the site; expected a path like /cart"
        key, value = self.condition
        if isinstance(value, str) and not (value and len(value) <= MAX_TEXT):
            return f".{key}: expected a text of 1 to {MAX_TEXT} characters, got {len(value)}"
        return None

    def describe(self) -> str:
        """The check in words."""
        key, value = self.condition
        wanted = f"{key} {_short(value)}"
        return f"{wanted} at {self.url}" if self.url else wanted


Text = str | msgspec.UnsetType


class UrlCheck(Check, frozen=True, kw_only=True, tag="url"):
    """The address of a page. `equals` may be a path of the site; the order of its parameters is free, and a fragment
    counts where one is wanted."""

    conditions: ClassVar[tuple[str, ...]] = ("equals", "contains", "matches")
    equals: Text = msgspec.UNSET
    contains: Text = msgspec.UNSET
    matches: Text = msgspec.UNSET

    def holds(self, found: Finding, start_url: str) -> tuple[bool, Any]:
        url = found.url[:MAX_URL]
        key, wanted = self.condition
        if key == "equals":
            return _address(urljoin(start_url, wanted)) == _address(url, with_fragment="#" in wanted), url
        if key == "contains":
            return wanted in url, url
        return re.search(wanted, url) is not None, url

    def fault(self) -> str | None:
        if self.matches is not msgspec.UNSET:
            try:
                re.compile(self.matches)
            except re.error as error:
                return f".matches: is no regular expression: {error}"
        return super().fault()

    def describe(self) -> str:
        return f"url {super().describe()}"


class DomCheck(Check, frozen=True, kw_only=True, tag="dom"):
    """Elements of a page. Of those that fit the selector one must have the wanted text or value. Texts are what a
    reader sees, and case and spacing do not matter; a value is that of a field, as it is."""

    conditions: ClassVar[tuple[str, ...]] = ("text", "contains", "value", "count", "exists")
    selector: str
    text: Text = msgspec.UNSET
    contains: Text = msgspec.UNSET
    value: Text = msgspec.UNSET
    count: int | msgspec.UnsetType = msgspec.UNSET
    exists: bool | msgspec.UnsetType = msgspec.UNSET

    @property
    def probe(self) -> Probe:
        return Probe(selector=self.selector)

    def holds(self, found: Finding, start_url: str) -> tuple[bool, Any]:
        key, wanted = self.condition
        count, elements = found.value["count"], found.value["elements"]
        if key == "count":
            return count == wanted, count
        if key == "exists":
            return (count > 0) is wanted, count
        there = [element["value" if key == "value" else "text"] for element in elements]
        if key == "value":
            is_so = wanted in there
        elif key == "text":
            is_so = any(_plain(text) == _plain(wanted) for text in there)
        else:
            is_so = any(_plain(wanted) in _plain(text) for text in there)
        if not is_so and (count > len(elements) or any(element["isCut"] for element in elements)):
            raise Unknown("so much fits the selector that not all of it is looked at; give a narrower one")
        return is_so, [_short(text) for text in there[:5]]

    def fault(self) -> str | None:
        if not 0 < len(self.selector) <= MAX_TEXT:
            return f".selector: expected a CSS selector of 1 to {MAX_TEXT} characters"
        if isinstance(self.count, int) and self.count < 0:
            return f".count: expected 0 or more, got {self.count}"
        if self.value == "":
            return None  # an empty field is a value
        return super().fault()

    def describe(self) -> str:
        return f"{self.selector}: {super().describe()}"


class ScriptCheck(Check, frozen=True, kw_only=True, tag="script"):
    """What a script of the task's says. `equals` is compared as JSON: 1 and 1.0 are one number, true is none."""

    conditions: ClassVar[tuple[str, ...]] = ("equals",)
    script: str
    equals: Any = msgspec.UNSET

    @property
    def probe(self) -> Probe:
        return Probe(script=self.script)

    def holds(self, found: Finding, start_url: str) -> tuple[bool, Any]:
        return _is_equal(self.equals, found.value), _short(found.value)

    def fault(self) -> str | None:
        if not 0 < len(self.script) <= MAX_SCRIPT:
            return f".script: expected 1 to {MAX_SCRIPT} characters of JavaScript"
        return super().fault() if self.equals != "" else None

    def describe(self) -> str:
        return f"script {super().describe()}"


def read_checks(task: Task) -> list[UrlCheck | DomCheck | ScriptCheck]:
    """The checks of a task. Raises ConfigError with the task and the key."""
    where = f"task {task.id}: task_info.checks"
    try:
        checks = msgspec.convert(task.info["checks"], list[UrlCheck | DomCheck | ScriptCheck])
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        raise ConfigError(f"{where}{path.rstrip('`')}: {text}") from None
    if len(checks) > MAX_CHECKS:
        raise ConfigError(f"{where}: has {len(checks)} entries; at most {MAX_CHECKS}")
    for number, check in enumerate(checks):
        fault = check.fault()
        if fault is not None:
            raise ConfigError(f"{where}[{number}]{fault}")
    return checks


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _address(url: str, *, with_fragment: bool = True) -> tuple[Any, ...]:
    """An address in the form in which two are compared."""
    parts = urlsplit(url)
    port = None if (parts.scheme, parts.port) in (("http", 80), ("https", 443)) else parts.port
    query = sorted(parse_qsl(parts.query, keep_blank_values=True))
    fragment = parts.fragment if with_fragment else ""
    return parts.scheme, parts.hostname, port, parts.path or "/", query, fragment


def _is_equal(wanted: Any, found: Any) -> bool:
    """Whether two JSON values are one."""
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if isinstance(wanted, dict) and isinstance(found, dict):
        return wanted.keys() == found.keys() and all(_is_equal(wanted[key], found[key]) for key in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(_is_equal, wanted, found))
    return bool(wanted == found)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
