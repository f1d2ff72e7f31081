"""A scorer that reads what happened: the books that were lent, by the calls and their results."""

from __future__ import annotations

import json

import rollout


@rollout.scorer
def lent(task: rollout.Task, trajectory: rollout.Trajectory) -> bool:
    """Whether exactly the books that were asked for were lent."""
    results = {message.tool_call_id: message.content or "" for message in trajectory.messages if message.role == "tool"}
    loans: dict[str, list[str]] = {}
    for call in (call for message in trajectory.messages for call in message.tool_calls):
        if call.name == "lend_book" and "is lent to" in results.get(call.id, ""):
            arguments = json.loads(call.arguments)
            loans.setdefault(arguments["member"], []).append(arguments["title"])
    return bool(loans == task.info["loans"])
