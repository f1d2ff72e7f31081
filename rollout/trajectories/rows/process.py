"""Rows for process reward models: what each step was worth, by what became of the attempts that share it.

The record is TRL's stepwise supervision, in plain text: a prompt, the steps one after the other, a label for each.
What the agent saw before a step stands at that step's beginning.
"""

from __future__ import annotations

from collections.abc import Sequence

from rollout.core.messages import JSON, Message
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.rows.exchange import Attempted


def process_row(attempted: Attempted, above: float = 0.0) -> JSON:
    """`prompt`, `completions`, `labels` and `values`. A step's value is V(s), the mean reward of the attempts that
    share it; its label says whether that is more than `above`: with 0 and rewards of 0 and 1, whether any of them
    solved the task. Raises Unfit."""
    if attempted.values is None:
        raise Unfit("no reward")
    if any(message.images for message in attempted.messages):
        raise Unfit("has images")
    steps: list[str] = []
    seen: list[Message] = []
    for message in attempted.messages[attempted.opening :]:
        seen.append(message)
        if message.role == "assistant":
            steps.append(transcript(seen))
            seen = []
    steps = steps[: len(attempted.exchanges)]
    values = attempted.values[: len(steps)]
    return {
        "prompt": transcript(attempted.messages[: attempted.opening]),
        "completions": steps,
        "labels": [value > above for value in values],
        "values": values,
    }


def transcript(messages: Sequence[Message]) -> str:
    """Messages as plain text, each under who said it."""
    written = []
    for message in messages:
        calls = [f"{call.name} {call.arguments}" for call in message.tool_calls]
        body = "\n".join(filter(None, (message.reasoning, message.content, *calls)))
        written.append(f"{message.role}: {body}\n")
    return "".join(written)
