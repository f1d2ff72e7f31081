"""Web trajectories for tests: lines as a run in browsers writes them, without a browser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from rollout.config.browsing import WebSettings
from rollout.core.messages import Image, Message, ToolCall
from rollout.core.results import failed_result
from rollout.core.task import Task
from rollout.environments.web.observe import Element, Observation, Seen, describe
from rollout.trajectories.line import Head, encode_line
from rollout.trajectories.saved import SavedLine, read_saved
from tests.trajectories.lines import make_nodes

TASK = Task(
    "shop-1",
    (Message(role="user", content="Buy the red cup"),),
    info={
        "website": "http://shop.test/",
        "domain": "shopping",
        "subdomain": "mugs",
        "difficulty": 2,
        "rubric": [{"description": "the cup is in the cart", "difficulty": 1}],
        "definite_answer": "done",
    },
)


def picture(text: str) -> str:
    """The name of a screenshot: equal texts, equal pictures."""
    return Image("image/png", text.encode()).name


def page(path: str, role: Any = "tool", call: str | None = None, error: str | None = None) -> Message:
    """What the agent reads of a page of the shop, as the world words it."""
    seen = Seen(f"http://shop.test/{path}", f"Shop {path}", True, 0, 40, (Element("button", "Buy", "", (0, 0, 9, 9)),))
    text = describe(Observation(seen), WebSettings(mode="set_of_marks"))
    if error is not None:
        text = f"{failed_result('', 'tool', error).content}\n{text}"
    return Message(role=role, content=text, tool_call_id=call, images=(picture(path),))


def refusal(call: str, text: str, kind: str = "tool") -> Message:
    """An error observation that leaves the page as it was."""
    return failed_result(call, kind, text).to_message()


def says(
    name: str, call: str = "c", content: str | None = None, reasoning: str | None = None, **arguments: Any
) -> Message:
    """An answer of the agent that asks for one action."""
    asked = ToolCall(call, name, json.dumps(arguments))
    return Message(role="assistant", content=content, reasoning=reasoning, tool_calls=(asked,))


def web_line(
    *messages: Message,
    id: str = "shop-1",
    task_id: str = "shop-1",
    success: bool = False,
    status: str = "completed",
    stop_reason: str = "answered",
    scored: bool = True,
    **metadata: Any,
) -> SavedLine:
    """A line whose task and opening page come first."""
    opening = (*TASK.messages, page("", role="user"))
    head = {
        "total_turns": 1,
        "stop_reason": stop_reason,
        "status": status,
        "scored": scored,
        "scores": [],
        "error": None,
        "group": task_id,
        "seed": 7,
        "model": "builtin/oracle",
        "branch": {"number": 0, "reason": "init"},
        **metadata,
    }
    return read_saved(encode_line(Head(id, task_id, success, head), (*opening, *messages)))


def with_errors(line: SavedLine, errors: Mapping[int, str]) -> SavedLine:
    """The same trajectory with its nodes, of which these are error observations."""
    opening = len(TASK.messages)
    return msgspec.structs.replace(line, nodes=make_nodes(line.messages, opening=opening, errors=errors))


def answered(success: bool = True, clicks: int = 0, **changes: Any) -> SavedLine:
    """Some clicks that change the page, then the answer."""
    said: list[Message] = []
    for number in range(clicks):
        said += [says("click", f"c{number}", element=1), page(f"p{number}", call=f"c{number}")]
    said += [says("answer", "end", text="42"), Message(role="tool", content="taken down", tool_call_id="end")]
    return web_line(*said, success=success, **changes)


# ---- tools that show pages, for runs without a browser --------------------------------------------------------------


def click(element: int) -> str:
    """Click an element."""
    return page(f"p{element}").content or ""


def goback() -> str:
    """Go back."""
    return page("").content or ""
