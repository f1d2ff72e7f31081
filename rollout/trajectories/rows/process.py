"""The form `process`, for process reward models: what each step was worth.

A step is worth the mean reward of the attempts that share it. The record is TRL's stepwise supervision, in plain text:
a prompt, the steps one after the other, a label for each. What the agent saw before a step stands at that step's
beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from rollout.core.messages import JSON, Message
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.exports.parquet import Columns
from rollout.trajectories.rows.exchange import Attempted
from rollout.trajectories.rows.form import Account, RowForm
from rollout.trajectories.rows.row_maker import OWNER_COLUMNS


class ProcessRewards(RowForm):
    """What each step of an attempt was worth."""

    columns: ClassVar[Columns] = {
        "trajectory_id": "text",
        **OWNER_COLUMNS,
        "prompt": "text",
        "completions": ["text"],
        "labels": ["bool"],
        "values": ["float"],
        "reward": "float",
    }
    above: float = 0.0
    """A step whose value is above this is labelled true."""

    def records(self, group: Sequence[Attempted], account: Account) -> Iterator[JSON]:
        for attempted in group:
            try:
                record = process_row(attempted, self.above)
            except Unfit as error:
                account.drop(str(error))
                continue
            yield {
                "trajectory_id": attempted.id,
                "task_id": attempted.head.task_id,
                "group_id": attempted.group,
                **record,
                "reward": attempted.reward,
            }


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
