"""The scorer `few_calls`: passes attempts that make at most 10 calls."""

import rollout


@rollout.scorer
def few_calls(trajectory: rollout.Trajectory) -> rollout.Score:
    """Reads the trajectory only, so it works in every environment."""
    count = sum(len(message.tool_calls) for message in trajectory.messages)
    return rollout.Score("few_calls", float(count <= 10), f"{count} calls")
