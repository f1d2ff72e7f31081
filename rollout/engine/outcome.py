"""The record of a finished attempt: `metadata` is written here and nowhere else.

It is made in two steps. `unscored_trajectory` is what scorers read; `make_head` adds their verdict and the reward.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rollout.core.errors import RolloutError
from rollout.core.messages import JSON, Message, Toolset, message_to_json
from rollout.core.task import Task
from rollout.engine.counts import UNJUDGED, Counts
from rollout.engine.plan import Plan
from rollout.scoring.panel import Verdict
from rollout.trajectories.labels import read_prompt
from rollout.trajectories.line import SCHEMA_VERSION, Head
from rollout.trajectories.stop import StopReason, status_of
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import NodeBody

UNSCORED = {
    StopReason.ERROR: "the conversation failed",
    StopReason.CUT: "the run did not wait for it, or could not go on with it",
    StopReason.CORRECTED: "it ends at a person's correction",
}
"""Why an attempt with this end has no score."""


class Ending(msgspec.Struct, kw_only=True):
    """Everything that is known of an attempt when it has ended."""

    trajectory: str
    plan: Plan
    task: Task
    seed: int
    branch: JSON
    count: Counts
    stop: StopReason
    error: RolloutError | None
    tools: Toolset
    """Those that were offered last."""
    prompts: list[tuple[int, str]]
    """The blobs of system prompt and tools, each with the turn from which on it was sent."""
    states: list[str | None] | None
    """The state that each step started from, where states are recorded."""
    user_calls: list[dict[str, Any]]
    captions: list[JSON] | None
    """See `ContextView.captions`."""
    ended_properly: bool
    started: float
    """By `time.perf_counter`."""


def unscored_trajectory(
    ending: Ending, nodes: Sequence[NodeBody], image_url: Callable[[str], str] | None = None
) -> Trajectory:
    """The trajectory as scorers read it: everything on record but the verdict and what follows from it."""
    plan, count = ending.plan, ending.count
    metadata: dict[str, Any] = {
        "total_turns": count.turns,
        "stop_reason": str(ending.stop),
        "tool_call_count": count.tool_calls,
        "status": str(status_of(ending.stop)),
        "scored": False,
        "unscored": None,
        "scores": [],
        "reward": None,
        "error": None if ending.error is None else _describe(ending.error),
        "dataset": plan.name,
        "mode": plan.mode,
        "model": plan.agent_name,
        "user_model": plan.user_name,
        "seed": ending.seed,
        "usage": _usage(count),
        "cost": round(count.cost, 9),
        "generations": count.generations,
        "tool_errors": count.tool_errors,
        "marks": [mark for mark in count.marks if mark != UNJUDGED],
        "unjudged": count.marks.count(UNJUDGED),
        "reasoning": {"rule": str(plan.viewing.rule), "present": count.has_reasoning},
        "view": plan.viewing.record(len(ending.task.messages), ending.captions),
        "tokens": count.tokens.record(),
        "group": ending.task.id,
        "branch": ending.branch,
        "prompt": ending.prompts[-1][1],
        "timings": _timings(ending),
        "schema_version": SCHEMA_VERSION,
    }
    if len(ending.prompts) > 1:
        metadata["prompts"] = [{"turn": turn, "prompt": prompt} for turn, prompt in ending.prompts]
    if ending.states is not None:
        metadata["states"] = ending.states
    if plan.author is not None:
        metadata["author"] = plan.author
    if ending.user_calls:
        metadata["user_calls"] = ending.user_calls
    return Trajectory(
        ending.trajectory,
        ending.task.id,
        _is_success(ending, Verdict()),
        metadata,
        nodes=nodes,
        image_url=image_url,
        prompt=functools.partial(_read_prompt, plan, ending.tools),
    )


def make_head(ending: Ending, unscored: Trajectory, verdict: Verdict) -> Head:
    """The head of the line: the record with the verdict, what judges cost, and the reward."""
    # The keys are there already, so they keep their order.
    metadata = {
        **unscored.metadata,
        "scored": verdict.scored,
        "unscored": verdict.unscored,
        "scores": [score.record() for score in verdict.scores],
        "timings": _timings(ending),
    }
    if verdict.asked:
        metadata |= {"usage": _usage(ending.count), "cost": round(ending.count.cost, 9)}
    scored = msgspec.structs.replace(unscored, success=_is_success(ending, verdict), metadata=metadata)
    metadata["reward"] = ending.plan.reward(scored)
    return Head(scored.id, scored.task_id, scored.success, metadata)


def correction_head(
    original: Trajectory, identifier: str, branch: JSON, messages: Sequence[Message], author: str
) -> Head:
    """The head of an attempt that is `original` up to a correction by a person, its last message. It has no score and
    no reward: where the correction leads to is not known yet."""
    place = len(messages) - 1
    answers = [message for message in messages[original.opening :] if message.role == "assistant"]
    metadata = {
        **original.metadata,
        "total_turns": sum(message.role == "user" for message in messages),
        "stop_reason": str(StopReason.CORRECTED),
        "tool_call_count": sum(len(message.tool_calls) for message in answers),
        "status": str(status_of(StopReason.CORRECTED)),
        "scored": False,
        "unscored": UNSCORED[StopReason.CORRECTED],
        "scores": [],
        "reward": None,
        "error": None,
        "usage": {},
        "cost": 0.0,
        "generations": len(answers),
        "tool_errors": {},
        "marks": [],
        "unjudged": 0,
        "tokens": {},
        "branch": branch,
        "author": author,
        "corrected": {"message": place, "answer": message_to_json(original.messages[place])},
        "timings": {"seconds": 0.0, "model_seconds": 0.0, "retries": 0},
    }
    for name in ("states", "user_calls"):
        metadata.pop(name, None)
    return Head(identifier, original.task_id, False, metadata)


def _is_success(ending: Ending, verdict: Verdict) -> bool:
    return verdict.is_success(status_of(ending.stop), ended_properly=ending.ended_properly)


def _usage(count: Counts) -> JSON:
    return {who: msgspec.to_builtins(getattr(count, who)) for who in ("agent", "user", "judge")}


def _timings(ending: Ending) -> JSON:
    return {
        "seconds": round(time.perf_counter() - ending.started, 3),
        "model_seconds": round(ending.count.model_seconds, 3),
        "retries": ending.count.retries,
    }


def _read_prompt(plan: Plan, tools: Toolset) -> tuple[str | None, list[JSON]]:
    found = read_prompt(plan.prompt(tools))
    return found.system, found.tools


def _describe(error: RolloutError) -> JSON:
    check = {} if (keys := getattr(error, "check", None)) is None else {"check": keys}
    return {"kind": error.kind, "text": str(error), "notes": getattr(error, "__notes__", []), **check}
