"""tau2's tasks as ours.

A reference there is one list of calls by both sides. Here each call belongs to a turn: the user acts before it speaks,
the agent after it, so whenever the user's turn comes after the agent's in the list, a new turn begins. The words in
between, which tau2 leaves to its simulated user and which only the built-in one needs, are ours.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.core.messages import JSON, Message, ToolCall
from rollout.core.task import Action, Task

_DONE = "I have done my part. Please go on."
_SETTLED = "That is done."


def read_task(source: Any, domain: str) -> Task:
    """One task."""
    state, criteria = source.initial_state, source.evaluation_criteria
    opening = tuple(map(_message, _shared((state.message_history or ()) if state is not None else ())))
    bare = Task(id=str(source.id), messages=opening)
    speaks_next = not opening or opening[-1].role != "user"
    first = bare.turn_after(bare.opening_users + speaks_next)
    reference = (criteria.actions if criteria is not None else None) or ()
    actions, user_actions = _by_turn(reference, first)
    last = max([first, *(action.turn for action in actions)])
    wish = _wish(source.user_scenario.instructions)
    lines = [_DONE] * (last - first)
    told = tuple((criteria.communicate_info if criteria is not None else None) or ())
    replies = (_SETTLED,) * last + (f"{_SETTLED} To sum up: {'; '.join(told)}",) if told else ()
    info: JSON = {"instruction": wish, "tau2": {"domain": domain}}
    if criteria is not None and "NL_ASSERTION" in {part.value for part in criteria.reward_basis}:
        info["nl_assertions"] = list(criteria.nl_assertions or ())
    return Task(
        id=bare.id,
        messages=opening,
        user_system_prompt=str(source.user_scenario),
        actions=tuple(actions),
        user_actions=tuple(user_actions),
        user_turns=tuple([wish, *lines] if bare.opening_users else lines),
        replies=replies,
        communicate=told,
        info=info,
    )


def _by_turn(reference: Any, first: int) -> tuple[list[Action], list[Action]]:
    """The agent's and the user's actions, each with its turn."""
    actions: list[Action] = []
    user_actions: list[Action] = []
    turn, has_agent_acted = first, False
    for action in reference:
        if action.requestor == "user":
            turn, has_agent_acted = turn + has_agent_acted, False
            user_actions.append(Action(action.name, action.arguments, turn))
        else:
            has_agent_acted = True
            actions.append(Action(action.name, action.arguments, turn))
    return actions, user_actions


def _wish(instructions: Any) -> str:
    return str(getattr(instructions, "reason_for_call", instructions))


def _shared(history: Any) -> list[Any]:
    """What both sides heard of a conversation that went before: without the user's own calls."""
    return [
        message
        for message in history
        if not (message.role == "user" and message.tool_calls)
        and not (message.role == "tool" and message.requestor == "user")
    ]


def _message(message: Any) -> Message:
    if message.role == "tool":
        return Message(role="tool", content=message.content or "", tool_call_id=message.id)
    calls = tuple(
        ToolCall(call.id, call.name, msgspec.json.encode(call.arguments).decode()) for call in message.tool_calls or ()
    )
    return Message(role=message.role, content=message.content, tool_calls=calls)
