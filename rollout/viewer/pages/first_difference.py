"""The first difference between two attempts at a task."""

from __future__ import annotations

from collections.abc import Sequence

from rollout.core.messages import Message
from rollout.pipelines.runs.diff import describe_step, first_difference
from rollout.viewer.answers.pages import FirstDifference


def find_first_difference(first: Sequence[Message], second: Sequence[Message]) -> FirstDifference:
    """The first step that differs, with its message in each of the two."""
    ours, theirs = _steps(first), _steps(second)
    place = first_difference([first[index] for index in ours], [second[index] for index in theirs])
    if place is None:
        return FirstDifference(step=None, first_message=None, second_message=None, first="", second="")
    one, two = (steps[place] if place < len(steps) else None for steps in (ours, theirs))
    return FirstDifference(
        step=place + 1,
        first_message=one,
        second_message=two,
        first=describe_step(None if one is None else first[one]),
        second=describe_step(None if two is None else second[two]),
    )


def _steps(messages: Sequence[Message]) -> list[int]:
    """The indexes of the agent's answers."""
    return [index for index, message in enumerate(messages) if message.role == "assistant"]
