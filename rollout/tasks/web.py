"""Web tasks: a line of WebGym's task files (`task_name`, `website`, …) as an ordinary task.

`web_entry` checks a line and turns it into the form that every task line has: the instruction is the first message,
everything else is in `task_info`, the rubric as a flat list whatever its form was. `WebLine` is what a line must be;
`rollout.tasks.sampling` reads files by it without making tasks of them.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec

from rollout.core.messages import JSON

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*:(?!\d)")
_PLAIN_URL = re.compile(r"https?://[a-zA-Z0-9][a-zA-Z0-9.\-]*(?::\d{1,4})?(?:[/?#]\S*)?")
_SPACE = re.compile(r"\s")
_REPLACED = ("task_id", "task_name", "evaluator_reference")
Text = Annotated[str, msgspec.Meta(pattern=r"\S")]


class WebLine(msgspec.Struct, frozen=True):
    """A line of WebGym's task files; further keys are kept by `web_entry`."""

    task_name: Text
    """The instruction."""
    website: Text
    """The page it begins at."""
    domain: str
    subdomain: str
    difficulty: Annotated[int, msgspec.Meta(ge=1)]
    """The number of facts; how many steps a task may take follows from it."""
    task_id: str | int | None = None
    evaluator_reference: Any = msgspec.UNSET
    """The rubric, in any of its forms."""
    rubric: Any = msgspec.UNSET
    """The same under our name."""
    definite_answer: str | None = None
    checks: list[JSON] | None = None
    answer: JSON | None = None
    max_steps: Annotated[int, msgspec.Meta(ge=1)] | None = None
    start_url: Text | None = None
    """Where it begins, if not at `website`."""
    hosts: list[str] = []
    private_hosts: list[str] = []

    def __post_init__(self) -> None:
        scored = (self.checks, self.answer, self.definite_answer or None)
        if self.evaluator_reference is msgspec.UNSET and self.rubric is msgspec.UNSET and not any(scored):
            raise ValueError(
                "nothing says when it is solved: expected evaluator_reference (or definite_answer, answer, checks)"
            )
        for key, given in (("website", self.website), ("start_url", self.start_url)):
            try:
                full_url(given or self.website)
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from None


def web_entry(entry: JSON) -> JSON:
    """An ordinary task line of a line of WebGym's. Raises msgspec's ValidationError that names what is wrong."""
    line = msgspec.convert(entry, WebLine)
    info = {key: value for key, value in entry.items() if key not in _REPLACED}
    info["website"] = full_url(line.website)
    if line.start_url is not None:
        info["start_url"] = full_url(line.start_url)
    given = line.evaluator_reference if line.rubric is msgspec.UNSET else line.rubric
    info["rubric"] = flat_rubric(None if given is msgspec.UNSET else given)
    info["definite_answer"] = line.definite_answer or ""
    return {
        "id": task_id_of(line.task_id, entry),
        "messages": [{"role": "user", "content": line.task_name}],
        "task_info": info,
    }


def task_id_of(given: str | int | None, entry: JSON) -> str:
    """A task's id: its own as text, else a hash of all that its line holds."""
    if given not in (None, ""):
        return str(given)
    content = {key: value for key, value in entry.items() if key != "task_id"}
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:16]


def full_url(text: str) -> str:
    """An address that a browser may open; `https://` is put before one that has no scheme. Raises ValueError."""
    # Nearly every address is a plain one, and a file has hundreds of thousands.
    if _PLAIN_URL.fullmatch(text):
        return text
    url = text.strip()
    if not _SCHEME.match(url):
        url = f"https://{url.removeprefix('//')}"
    try:
        parts = urlsplit(url)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_fine = False
    if not is_fine or _SPACE.search(url):
        raise ValueError(f"{text!r} is not an address; expected one such as https://example.com/page")
    return url


def flat_rubric(given: Any) -> list[JSON]:
    """A rubric of any form as a flat list of `{description, difficulty}`.

    Forms: groups of facts (`{id, description, facts}`, an item for each fact), items with a description, texts, one
    text; anything else is taken as its text. Nothing, or a text that is blank, is an empty rubric.
    """
    items: list[JSON] = []
    for item in given if isinstance(given, list) else [given]:
        if isinstance(item, dict) and isinstance(item.get("facts"), list):
            head = f"[Group {item.get('id', '')}: {item.get('description', '')}]"
            items += [_item(f"{head} {_text(fact)}", 1) for fact in item["facts"]]
        elif isinstance(item, dict) and "description" in item:
            items.append(_item(_text(item["description"]), item.get("difficulty", 1)))
        elif item is not None and (text := _text(item)).strip():
            items.append(_item(text, 1))
    return items


def _item(description: str, difficulty: Any) -> JSON:
    is_number = isinstance(difficulty, int) and not isinstance(difficulty, bool) and difficulty >= 1
    return {"description": description, "difficulty": difficulty if is_number else 1}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
