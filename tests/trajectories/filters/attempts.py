"""Trajectories for tests of filters, written as short as they can be, and what filters say of them."""

from __future__ import annotations

from typing import Any

from rollout.config.filters import Filters
from rollout.config.schema import Config
from rollout.core.messages import JSON, Message, ToolCall
from rollout.pipelines.wiring.active_filters import FiltersByDataset, make_filters
from rollout.trajectories.filters.filtering import Filtering
from rollout.trajectories.filters.marks import Filtered, Found
from rollout.trajectories.filters.turns import read_turns
from rollout.trajectories.generation import FinishReason, Generation, Tokens, Usage
from rollout.trajectories.labels import Prompt
from rollout.trajectories.stop import StopReason
from rollout.trajectories.trajectory import Trajectory
from tests.trajectories.lines import trajectory

ASK = Message(role="user", content="Which of my books are due?")
THANKS = Message(role="user", content="Thank you, that is all.")


def say(content: str | None, reasoning: str | None = None) -> Message:
    return Message(role="assistant", content=content, reasoning=reasoning)


def call(name: str = "find_loans", arguments: str = '{"member": "m1"}', content: str | None = None) -> Message:
    return Message(role="assistant", content=content, tool_calls=(ToolCall("c", name, arguments),))


def result(content: str = '{"loans": [7]}') -> Message:
    return Message(role="tool", content=content, tool_call_id="c")


def attempt(
    *messages: Message,
    id: str = "a",
    task: str = "t",
    reason: StopReason = StopReason.USER_STOP,
    success: bool = False,
    kinds: dict[int, str] | None = None,
    finish: dict[int, FinishReason] | None = None,
    tokens: dict[int, int] | None = None,
    logprobs: dict[int, tuple[float, ...]] | None = None,
    system: str | None = None,
    dataset: str = "data",
    tools: frozenset[str] = frozenset(),
    **metadata: Any,
) -> Trajectory:
    """A trajectory that begins with the task's first message. Places count from that one."""
    said = messages or (ASK, say("Book 7 is due."))
    generations = {
        place: Generation(
            message,
            finish_reason=(finish or {}).get(place, "tool_calls" if message.tool_calls else "stop"),
            usage=Usage(completion_tokens=(tokens or {}).get(place, 0)),
            tokens=Tokens.of(logprobs=logprobs[place]) if logprobs and place in logprobs else None,
        )
        for place, message in enumerate(said)
        if message.role == "assistant"
    }
    told: JSON = {"scored": True, "group": task, "dataset": dataset, **metadata}
    prompt = Prompt(system, b"", [{"type": "function", "function": {"name": name}} for name in sorted(tools)])
    return trajectory(
        *said,
        id=id,
        task=task,
        success=success,
        reason=reason,
        opening=1,
        errors=kinds,
        generations=generations,
        prompt=prompt,
        **told,
    )


def find(name: str, of: Trajectory, **params: Any) -> list[Found]:
    """What one filter finds in a trajectory."""
    rules = make_filters(Filters.model_validate({name: params}))
    filters = {active.name: active.filter for active in rules.own}
    return list(filters[name].find(of, read_turns(of)))


def turns_found(name: str, of: Trajectory, **params: Any) -> list[int | None]:
    """The turns in which one filter finds something."""
    return [found.turn for found in find(name, of, **params)]


def filter_all(*trajectories: Trajectory, **filters: Any) -> dict[str, Filtered]:
    """The records of trajectories that are filtered together, by id."""
    filtering = Filtering(FiltersByDataset(Config.model_validate({"filters": filters})).of)
    for one in trajectories:
        filtering.add(one)
    return {record.id: record for record in filtering.records()}
