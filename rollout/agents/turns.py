"""A trajectory as one example for each turn, each with the context that the model was sent in that turn.

A saved trajectory holds all reasoning; what the model saw of it depends on the rule of its run. For a model whose
earlier reasoning is cleared at each user message, no single record of the whole conversation shows both what it thought
and what it saw when it did. One record a turn does: the context by the rule, the turn itself whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rollout.agents.view import ContextView, ReasoningRule
from rollout.errors import ConfigError
from rollout.messages import Message
from rollout.trajectories.labels import Example


def split_turns(example: Example) -> Iterator[Example]:
    """The turns that have an answer, in order; turn k of `a` is `a#k`."""
    view = ContextView(None, _rule(example))
    context: list[Message] = []
    turn: list[Message] = []
    number = users = 0
    for message in example.messages:
        if message.role == "user" and turn:
            number += 1
            yield _part(example, number, users - 1, context, turn)
            turn = []
        users += message.role == "user"
        if message.role == "assistant" and not turn:
            context = list(view.messages)
        view.add(message)
        if turn or message.role == "assistant":
            turn.append(message)
    if turn:
        yield _part(example, number + 1, users - 1, context, turn)


def _part(example: Example, number: int, place: int, context: list[Message], turn: list[Message]) -> Example:
    since = max((begin for begin in example.offers if begin <= place), default=None)
    return msgspec.structs.replace(
        example,
        id=f"{example.id}#{number}",
        messages=(*context, *turn),
        tools=example.tools if since is None else example.offers[since],
        context=len(context),
    )


def _rule(example: Example) -> ReasoningRule:
    said = (example.metadata.get("reasoning") or {}).get("rule", ReasoningRule.CLEAR_ON_USER_TURN)
    try:
        return ReasoningRule(said)
    except ValueError as error:
        known = ", ".join(ReasoningRule)
        raise ConfigError(f"trajectory {example.id}: unknown rule of reasoning {said!r}; known are {known}") from error
