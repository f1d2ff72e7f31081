"""System prompts of agents in browsers: how it sees pages, how it acts, and what it writes before each call.

`plain` asks for the action in a sentence and the call. `complete` asks for a memory that only grows, the state of each
part of the task, and an intention before them, so that an agent that sees only its last steps knows what it has found
and how far it is. The tools themselves are described elsewhere: by the request, or by `rollout.agents.dialects`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from rollout.agents.computer_use import to_action
from rollout.config.browsing import WebMode, WebSettings
from rollout.core.messages import JSON, WRITTEN_CALL, ToolCall, write_calls
from rollout.environments.web.actions import FULL_TEXT

PromptKind = Literal["complete", "plain"]
ToolFormat = Literal["native", "text", "computer_use"]

_SEEN: dict[WebMode, str] = {
    "coordinates": "After each action you are shown a screenshot of the page as it is then, with its address and "
    "title. Places are points of the screenshot, {range}.",
    "set_of_marks": "After each action you are shown a screenshot of the page as it is then, with its address and "
    "title. What can be acted on has a number in the screenshot and a line with that number in the list of elements. "
    "Numbers hold for the last observation only.",
    "text": "After each action you are given the page as text, as it is then, with its address and title. What can be "
    "acted on has a number in square brackets. Numbers hold for the last observation only.",
    "accessibility_tree": "After each action you are given the page's accessibility tree, as it is then, with its "
    "address and title. What can be acted on has a number in square brackets, which it keeps while it is on the page.",
}
_RULES = (
    "Work in small steps: one call in each answer, then look at what came of it. Only what is in the window is shown; "
    "scroll to see more{reading}. When an action fails, its result says why: try something else rather than the same "
    "again. Use no facts about the site but those you have seen on its pages. When the task is done, or certainly "
    "cannot be done, call `answer` with the result, or with what you found; that ends the work."
)
_READING = ", or read all of the page's text with `full_text`"
_PLAIN = """\
# What to write
In each answer write one sentence that says what you do, then call one tool:

Action: <what you do now, in one sentence>
{call}"""
_COMPLETE = """\
# What to write
In each answer write these parts in this order, then call one tool. Earlier steps may no longer be shown to you, so \
what you will need later must be in Memory and Progress.

Memory: <a JSON object of what you have found out and need for the task; repeat all of it each time and add to it, \
never take anything out>
Progress: <a JSON object: each part of the task, and whether it is "open", "doing" or "done">
Intention: <the part of Progress that you work on now>
Action: <what you do now, in one sentence>
{call}

For example:

Memory: {{"cheapest tent so far": "Fox 2, 89 EUR"}}
Progress: {{"find the cheapest tent": "doing", "put it into the cart": "open"}}
Intention: find the cheapest tent
Action: I open the second page of the results, because cheaper tents may be there.
{example}"""


def web_prompt(kind: PromptKind, settings: WebSettings, tool_format: ToolFormat) -> str:
    """The system prompt of an agent in a browser."""
    is_text = tool_format != "native"
    points = settings.coordinate_range
    where = (
        f"from 0 to {points} in both directions, whatever its size"
        if points
        else f"in pixels from its top left corner ({settings.width} by {settings.height})"
    )
    x, y = (points or settings.width) // 2, (points or settings.height) * 9 // 10
    arguments: JSON = {"x": x, "y": y} if settings.mode == "coordinates" else {"element": 27}
    written = msgspec.json.encode(arguments).decode()
    example = ToolCall("", "click", written)
    if tool_format == "computer_use":
        example = to_action(example)
    form = _PLAIN if kind == "plain" else _COMPLETE
    return "\n\n".join(
        (
            "You do a task for somebody in a web browser, by calling tools.",
            _SEEN[settings.mode].format(range=where),
            _RULES.format(reading=_READING if FULL_TEXT in (settings.actions or (FULL_TEXT,)) else ""),
            form.format(
                call=WRITTEN_CALL if is_text else "and then the call of a tool.",
                example=write_calls([example]) if is_text else f"and then the call of `click` with {written}.",
            ),
        )
    )
