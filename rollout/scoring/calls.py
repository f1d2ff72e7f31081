"""The calls of a trajectory, each with its answer."""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.core.messages import JSON, Message, ToolCall
from rollout.core.results import is_refusal
from rollout.trajectories.trajectory import Trajectory


class Called(msgspec.Struct, frozen=True):
    """A call that was answered."""

    message: int
    """The place of the asking message."""
    call: ToolCall
    answer: Message
    is_error: bool
    is_undone: bool = False
    """Whether the world undid it: it left no trace there."""

    @property
    def arguments(self) -> JSON | None:
        """The arguments; None where they are no JSON object."""
        try:
            found = msgspec.json.decode(self.call.arguments or "{}")
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    @property
    def value(self) -> Any:
        """What the tool returned: JSON where it is JSON, else the text."""
        return result_value(self.answer.content or "")


def calls_of(trajectory: Trajectory) -> list[Called]:
    """All calls in the order asked. Answers stand right behind the message that asked, in the same order."""
    found: list[Called] = []
    messages = trajectory.messages
    for place, message in enumerate(messages):
        for offset, call in enumerate(message.tool_calls, 1):
            where = place + offset
            if where >= len(messages) or messages[where].role != "tool":
                break
            answer = messages[where]
            is_error = where in trajectory.error_kinds or is_refusal(answer.content or "")
            found.append(Called(place, call, answer, is_error, where in trajectory.undone))
    return found


def result_value(content: str) -> Any:
    """A tool's answer as a value."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return content
