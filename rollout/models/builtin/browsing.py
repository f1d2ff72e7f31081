"""Reference actions in a browser, as the built-in oracle plays them.

Elements are numbered afresh in each observation. So a call counts as a reference action if it equals that action with
its elements looked up in the observation *before* the call, and if the page accepted it. Actions are played in order.
The oracle searches for an element that is not listed: it waits where the page had not come to rest, then looks in
further parts of the list, down to the end of the page, then from the top, and after an error that led to another page
also on the page before. If it finds nothing, its answer says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rollout.core.messages import JSON, Message, ToolCall
from rollout.core.task import Action, Task
from rollout.tasks.elements import (
    NotListed,
    has_locator,
    is_busy,
    is_cut,
    resolve_elements,
    scroll_position,
    shows_page,
)

LOOKING = ("scroll", "more")
MAX_SCROLLS = 24
MAX_BACK = 2
MAX_WAITS = 3
MAX_TRIES = 3


class ElementStep(msgspec.Struct):
    """A call, and the observation it was made on."""

    call: ToolCall
    observation: str
    result: str = ""

    @property
    def is_refused(self) -> bool:
        return self.result.startswith('{"error"')


def is_browsed(task: Task) -> bool:
    """Whether a task's reference actions are played in a browser."""
    return any(has_locator(action.arguments) for action in task.actions or ())


def next_call(task: Task, turn: int, messages: Sequence[Message]) -> tuple[str, JSON] | None:
    """The next call in a conversation without its opening; None where everything is done."""
    steps, observation = _steps(messages)
    actions = [action for action in task.actions or () if action.turn == turn]
    done = 0
    detour: list[ElementStep] = []
    for step in steps:
        if done < len(actions) and not step.is_refused and _is_same(step, actions[done]):
            done, detour = done + 1, []
        else:
            detour.append(step)
    if done == len(actions):
        return None
    action = actions[done]
    try:
        wanted = resolve_elements(action.arguments, observation)
    except NotListed as lacking:
        return _look(detour, observation) or _give_up(f"I could not find {lacking}.")
    tries = sum(1 for step in detour if step.is_refused and _is_same(step, action))
    if tries >= MAX_TRIES:
        return _give_up(f"I could not {action.name}: the page did not take it.")
    return action.name, wanted


def _steps(messages: Sequence[Message]) -> tuple[list[ElementStep], str]:
    """The calls, each with the observation before it, and the current observation."""
    steps: list[ElementStep] = []
    by_id: dict[str, ElementStep] = {}
    observation = ""
    for message in messages:
        for call in message.tool_calls:
            by_id[call.id] = ElementStep(call, observation)
            steps.append(by_id[call.id])
        content = message.content or ""
        if message.tool_call_id in by_id:
            by_id[message.tool_call_id].result = content
        if message.role in ("user", "tool") and shows_page(content):
            observation = content
    return steps, observation


def _is_same(step: ElementStep, action: Action) -> bool:
    if step.call.name != action.name:
        return False
    try:
        return bool(msgspec.json.decode(step.call.arguments) == resolve_elements(action.arguments, step.observation))
    except (msgspec.DecodeError, NotListed):
        return False


def _look(detour: Sequence[ElementStep], observation: str) -> tuple[str, JSON] | None:
    """The next call of the search for an element that is not visible; None where the search is over."""
    if is_busy(observation) and sum(step.call.name == "wait" for step in detour) < MAX_WAITS:
        return "wait", {"seconds": 1}
    above, below = scroll_position(observation)
    scrolls = 0
    for step in reversed(detour):
        if step.call.name not in LOOKING:
            break
        scrolls += 1
    looking = detour[len(detour) - scrolls :]
    from_top = any(scroll_position(step.observation)[0] == 0 for step in looking)
    if scrolls < MAX_SCROLLS:
        if is_cut(observation):
            return "more", {}
        if below > 0:
            return "scroll", {"direction": "down"}
        if above > 0 and not from_top:
            return "scroll", {"direction": "up", "pages": 10}
    strayed = [step for step in detour if step.call.name not in (*LOOKING, "goback", "wait")]
    gone_back = sum(1 for step in detour if step.call.name == "goback")
    return ("goback", {}) if gone_back < min(len(strayed), MAX_BACK) else None


def _give_up(text: str) -> tuple[str, JSON]:
    return "answer", {"text": text}
