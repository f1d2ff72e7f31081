"""Text that the built-in oracle writes beside its actions in a browser: what it does, and why.

Elements are described by their line in the last observation, so the text fits the element that is acted on, right or
wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rollout.core.messages import JSON, Message
from rollout.tasks.elements import shows_page

_LABEL = re.compile(r'\] (\S+)(?: "([^"\n]{0,80})")?')
_TITLE = re.compile(r"^Title: (.+)$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")


def describe_step(name: str, arguments: JSON | None, path: Sequence[Message]) -> str:
    """What the action does, in a sentence; after an error with what went wrong."""
    page, error = _last_page(path)
    given = arguments or {}
    target = _label(given.get("element"), page)
    text = str(given.get("text", ""))
    match name:
        case "click" | "press_element":
            said = f"I click {target}."
        case "type" | "fill":
            said = f'I enter "{text}" into {target}' + (" and submit it." if given.get("submit") else ".")
        case "select" | "choose_option":
            said = f'I choose "{given.get("option", "")}" in {target}.'
        case "scroll" if given.get("direction") == "up":
            said = "I scroll back up to look at the rest of the page."
        case "scroll":
            said = "What I need is not in view, so I scroll down."
        case "more":
            said = "The list of elements goes on, so I ask for the rest."
        case "goback":
            said = "This is not the page I need, so I go back."
        case "answer" | "finish" if text.startswith("I could not"):
            said = "I have looked everywhere on this page and stop here."
        case "answer" | "finish" if text == "Done.":
            said = "Everything that was asked for is done."
        case "answer" | "finish":
            said = f"I have found the answer: {text}"
        case "hover":
            said = f"I point at {target} to see what it shows."
        case "press":
            said = f"I press {given.get('key', given.get('keys', 'the key'))}."
        case _:
            said = f"I use {name.replace('_', ' ')}" + (f" on {target}." if "element" in given else ".")
    return f"{error} {said}" if error else said


def reason_for_step(name: str, arguments: JSON | None, path: Sequence[Message]) -> str:
    """Why the action is taken: the page that is shown, the task, and the action."""
    page, _ = _last_page(path)
    title = _TITLE.search(page)
    seen = f'The page is "{title[1]}". ' if title else ""
    asked = next((message.content or "" for message in path if message.role == "user"), "")
    first = not any(message.tool_calls for message in path)
    wish = f"The task: {_SENTENCE.split(asked.strip())[0]} " if first and asked and not shows_page(asked) else ""
    return wish + seen + describe_step(name, arguments, path)


def _last_page(path: Sequence[Message]) -> tuple[str, str]:
    """The newest observation of a page, and what went wrong since then, as a sentence."""
    error = ""
    for message in reversed(path):
        content = message.content or ""
        if message.role == "tool" and not error and content.startswith('{"error"'):
            error = _plain(content)
        elif message.role in ("user", "tool") and shows_page(content):
            return content, error
    return "", error


def _plain(content: str) -> str:
    if "There is no tool" in content:
        return "There is no such tool."
    if "calls no tool" in content:
        return "My last answer called no tool."
    if "not valid JSON" in content:
        return "My last call was not valid JSON."
    return "That did not work."


def _label(number: object, page: str) -> str:
    """An element as its line in the observation names it."""
    at = page.find(f"[{number}] ")
    found = _LABEL.match(page, at + len(str(number)) + 1) if at >= 0 else None
    if found is None:
        return f"element {number}" if number is not None else "the page"
    return f'the {found[1]} "{found[2]}"' if found[2] else f"the {found[1]}"
