"""Sums over trajectories: cost, tokens, generations, tool calls and turns.

One record serves a single trajectory (what its episode added) and any number of them added up. Where attempts branch
from one another, the part of a path that they share belongs to the trajectory that grew it, so that sums over all
trajectories count it once.
"""

from __future__ import annotations

import msgspec


class Sums(msgspec.Struct, frozen=True, gc=False):
    """What trajectories add up to."""

    scored: int = 0
    """Trajectories in which something was checked: 0 or 1 for a single one."""
    cost: float = 0.0
    """Dollars, for all models: agent, user and judges."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    generations: int = 0
    """Answers of the agent."""
    tool_calls: int = 0
    turns: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.scored + other.scored,
            self.cost + other.cost,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.generations + other.generations,
            self.tool_calls + other.tool_calls,
            self.turns + other.turns,
        )

    def __sub__(self, other: Sums) -> Sums:
        return Sums(
            self.scored - other.scored,
            self.cost - other.cost,
            self.prompt_tokens - other.prompt_tokens,
            self.completion_tokens - other.completion_tokens,
            self.generations - other.generations,
            self.tool_calls - other.tool_calls,
            self.turns - other.turns,
        )
