"""The head of a finished attempt's line: everything that is recorded of it beside its messages."""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.core.errors import RolloutError
from rollout.core.messages import JSON
from rollout.core.task import Task
from rollout.engine.counts import UNJUDGED, Counts
from rollout.engine.plan import Plan
from rollout.scoring.panel import Verdict
from rollout.trajectories.line import SCHEMA_VERSION, Head
from rollout.trajectories.stop import StopReason, status_of

UNSCORED = {
    StopReason.ERROR: "the conversation failed",
    StopReason.CUT: "the run did not wait for it, or could not go on with it",
}
"""Why what ended so has no score."""


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
    verdict: Verdict
    prompts: list[tuple[int, str]]
    """The blobs of system prompt and tools, each with the turn from which on it was sent."""
    states: list[str | None] | None
    """The state that each step started from, where states are recorded."""
    user_calls: list[dict[str, Any]]
    captions: list[JSON] | None
    """See `ContextView.captions`."""
    ended_properly: bool
    seconds: float


def make_head(ending: Ending) -> Head:
    """The head of the line."""
    plan, count, verdict = ending.plan, ending.count, ending.verdict
    status = status_of(ending.stop)
    metadata: dict[str, Any] = {
        "total_turns": count.turns,
        "stop_reason": str(ending.stop),
        "tool_call_count": count.tool_calls,
        "status": str(status),
        "scored": verdict.scored,
        "unscored": verdict.unscored,
        "scores": [score.record() for score in verdict.scores],
        "reward": None,
        "error": None if ending.error is None else _describe(ending.error),
        "dataset": plan.name,
        "mode": plan.mode,
        "model": plan.agent_name,
        "user_model": plan.user_name,
        "seed": ending.seed,
        "usage": {who: msgspec.to_builtins(getattr(count, who)) for who in ("agent", "user", "judge")},
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
        "timings": {
            "seconds": round(ending.seconds, 3),
            "model_seconds": round(count.model_seconds, 3),
            "retries": count.retries,
        },
        "schema_version": SCHEMA_VERSION,
    }
    if len(ending.prompts) > 1:
        metadata["prompts"] = [{"turn": turn, "prompt": prompt} for turn, prompt in ending.prompts]
    if ending.states is not None:
        metadata["states"] = ending.states
    if ending.user_calls:
        metadata["user_calls"] = ending.user_calls
    is_success = verdict.is_success(status, ended_properly=ending.ended_properly)
    head = Head(ending.trajectory, ending.task.id, is_success, metadata)
    metadata["reward"] = plan.reward(head)
    return head


def _describe(error: RolloutError) -> JSON:
    return {"kind": error.kind, "text": str(error), "notes": getattr(error, "__notes__", [])}
