"""The steps of a web trajectory for scorers: what the agent was shown, what it did, and what it answered."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rollout.core.messages import Message, ToolCall, read_arguments
from rollout.core.task import Task
from rollout.environments.web.shown import Page, read_page
from rollout.trajectories.trajectory import Trajectory


class JudgedStep(msgspec.Struct, frozen=True):
    """One thing that the agent was shown, and what it had done to see it."""

    number: int
    """0 is what the task began with."""
    message: int
    """The place of the observation in the trajectory's messages."""
    said: str = ""
    """What the agent wrote beside its call."""
    call: ToolCall | None = None
    observation: str = ""
    """The text that the agent read, for a judge to read."""
    images: tuple[str, ...] = ()
    """Names of blobs."""
    page: Page | None = None
    """The page that it shows, for programs; None where it shows none."""


def read_steps(task: Task, trajectory: Trajectory) -> list[JudgedStep]:
    """The steps of a trajectory: its opening observation, then one for each result of a call."""
    data = trajectory.data
    steps: list[JudgedStep] = []
    calls: dict[str, ToolCall] = {}
    said = ""
    done = 0
    for place, message in enumerate(trajectory.messages):
        if message.role == "assistant":
            calls = {call.id: call for call in message.tool_calls}
            said = message.content or ""
        elif message.role == "tool":
            done += 1
            call = calls.get(message.tool_call_id or "")
            page = read_page(message, data.get(place))
            steps.append(JudgedStep(done, place, said, call, message.content or "", message.images, page))
            said = ""
        elif message.role == "user" and place >= len(task.messages):
            page = read_page(message, data.get(place))
            steps.append(JudgedStep(done, place, "", None, message.content or "", message.images, page))
    return steps


def given_answer(trajectory: Trajectory) -> str | None:
    """What the agent answered: the text of its first `answer` call that was taken. None where there is none, or where
    it is empty."""
    for place, message in enumerate(trajectory.messages):
        for call in message.tool_calls:
            if call.name != "answer" or _result(trajectory.messages, place, call) in trajectory.error_kinds:
                continue
            text = read_arguments(call).get("text")
            if isinstance(text, str):
                return text.strip() or None
    return None


def _result(messages: Sequence[Message], place: int, call: ToolCall) -> int | None:
    """The place of a call's result."""
    for later in range(place + 1, len(messages)):
        if messages[later].role != "tool":
            return None
        if messages[later].tool_call_id == call.id:
            return later
    return None
