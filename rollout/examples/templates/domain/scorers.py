"""A scorer of your own, beside those that compare the tables and the calls."""

from __future__ import annotations

import rollout


@rollout.scorer
def looked_first(trajectory: rollout.Trajectory) -> bool:
    """Whether the agent looked a book up before it lent one."""
    names = [call.name for message in trajectory.messages for call in message.tool_calls]
    return "lend_book" not in names or "find_book" in names[: names.index("lend_book")]
