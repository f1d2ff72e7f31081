"""An attempt as rows of the index: figures, tools, scores, and words."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from rollout.core.messages import Message
from rollout.store.reading.scanning import ScannedAttempt, ScannedMessage, ScannedNode
from rollout.trajectories.causes import cause_key
from rollout.trajectories.stop import Status

MOST_FIRST = 160
"""Characters of the first message that a row shows."""
MOST_ERROR = 600
MOST_SHOWN_ERROR = 300
COLUMNS = (
    "n", "dataset", "id", "task_id", "author", "status", "stop_reason", "success", "scored", "reward", "turns", "steps",
    "tool_calls", "tool_errors", "tokens", "cost", "seconds", "finished", "model", "rank", "prompt_tokens",
    "model_seconds", "cause", "error_kind", "error_text", "error_check", "own_cost", "first", "latencies",
)  # fmt: skip
"""The columns of `attempts`, in the order of `attempt_row`."""
_WITHOUT_SPACES = re.compile("([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])")
"""Letters of scripts that put no spaces between words: each is a word of its own here."""


def attempt_row(n: int, attempt: ScannedAttempt) -> tuple[Any, ...]:
    """The row of an attempt in `attempts`."""
    head = attempt.head
    usage, timings, error = head.usage.values(), head.timings, head.error
    prompt_tokens = sum(used.prompt_tokens for used in usage)
    cause = "\n".join(cause_key(error)) if head.status == Status.FAILED else None
    latencies = array("f", [latency for node in attempt.nodes if (latency := node.latency) is not None])
    return (
        n, attempt.dataset, head.id, head.task_id, head.author, head.status, head.stop_reason, head.success,
        head.scored, head.reward, head.turns, head.generations or 0, head.tool_calls, sum(head.tool_errors.values()),
        prompt_tokens + sum(used.completion_tokens for used in usage), head.cost, timings.seconds, attempt.finished,
        head.model, attempt.rank, prompt_tokens, timings.model_seconds, cause,
        None if error is None else error.kind, None if error is None else error.text[:MOST_ERROR],
        None if error is None else error.check, attempt.own_cost, first_words(attempt), latencies.tobytes(),
    )  # fmt: skip


def first_words(attempt: ScannedAttempt) -> str:
    """How the first message of a user begins, or else whatever message is there."""
    said: list[Message | ScannedMessage] = [*attempt.opening]
    said += [message for node in attempt.nodes[:4] if (message := node.said) is not None]
    found = next((one for one in said if one.role == "user" and one.content), None)
    found = found or next((one for one in said if one.content), None)
    return " ".join(((found.content if found else None) or "")[: 4 * MOST_FIRST].split())[:MOST_FIRST]


def shown_error(text: str | None) -> str:
    """The beginning of an error on one line."""
    return " ".join((text or "no reason is on record").split())[:MOST_SHOWN_ERROR]


class ToolCount:
    """Calls of tools along some nodes, their results, and the errors among these."""

    def __init__(self, nodes: Iterable[ScannedNode] = ()) -> None:
        self.calls: Counter[str] = Counter()
        self.results: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        asked: list[tuple[str, str]] = []
        for node in nodes:
            if node.kind == "generation" and node.generation is not None:
                asked = [(call.id, call.name) for call in node.generation.message.tool_calls]
                self.calls.update(name for _, name in asked)
            elif node.kind == "tool" and node.message is not None:
                call = next((each for each in asked if each[0] == node.message.tool_call_id), None)
                if call is not None:
                    # Two calls may have the same id; results are in the order of the calls.
                    asked.remove(call)
                    self.results[call[1]] += 1
                    self.errors[call[1]] += node.error_kind is not None


def words_of(messages: Iterable[Message | ScannedMessage]) -> str:
    """What is searched of messages: what they think and say, and what they call with which arguments."""
    return searchable("\n".join(part for message in messages for part in texts_of(message)))


def texts_of(message: Message | ScannedMessage) -> Iterator[str]:
    """The texts of a message that are searched."""
    if message.reasoning:
        yield message.reasoning
    if message.content:
        yield message.content
    for call in message.tool_calls:
        yield call.name
        yield _unescaped(call.arguments) if "\\" in call.arguments else call.arguments


def _unescaped(arguments: str) -> str:
    """The keys and values of a call's arguments without the escapes of JSON, which would run into words."""
    try:
        return " ".join(_leaves(msgspec.json.decode(arguments)))
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return arguments


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield str(value)


def node_messages(nodes: Sequence[ScannedNode]) -> Iterator[ScannedMessage]:
    """The messages that nodes add."""
    return (said for node in nodes if (said := node.said) is not None)


def searchable(text: str) -> str:
    """A text as the tokenizer of the index can divide it into words."""
    return text if text.isascii() else _WITHOUT_SPACES.sub(r" \1 ", text)
