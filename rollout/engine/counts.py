"""Counters of one path: turns, steps, calls, tokens, cost. Fed node by node, live and on resume alike."""

from __future__ import annotations

from rollout.trajectories.generation import Generation, Usage
from rollout.trajectories.sums import Sums
from rollout.trajectories.token_path import TokenPath
from rollout.trajectories.tree import NodeBody

UNJUDGED = "unjudged"
"""The mark of a verdict that was asked for and was none."""
MASKED = "masked_secret"
"""The mark of an answer in which a registered secret was masked."""


class Counts:
    """The counters of one path."""

    def __init__(self) -> None:
        self.turns = 0
        self.steps = 0
        self.generations = 0
        self.tool_calls = 0
        self.tool_results = 0
        self.tool_errors: dict[str, int] = {}
        self.marks: list[str] = []
        self.agent = Usage()
        self.user = Usage()
        self.judge = Usage()
        self.cost = 0.0
        self.model_seconds = 0.0
        self.retries = 0
        self.has_reasoning = False
        self.tokens = TokenPath()

    def saw(self, body: NodeBody) -> None:
        """Count a generation: the agent's, the user's or a judge's."""
        generation: Generation | None = body.generation
        assert generation is not None
        self.cost += generation.cost
        self.model_seconds += generation.latency
        self.retries += len(generation.failures)
        if body.kind == "user" or body.kind == "user_call":
            self.user += generation.usage
            return
        if body.kind == "judge":
            self.judge += generation.usage
            return
        self.agent += generation.usage
        if body.kind == "aside":
            return
        self.generations += 1
        self.tool_calls += len(generation.message.tool_calls)
        self.has_reasoning = self.has_reasoning or generation.message.reasoning is not None
        if not generation.is_scripted:
            self.tokens.take(generation, self.turns)

    def sums(self, *, is_scored: bool = False) -> Sums:
        """What the path adds up to."""
        used = self.agent + self.user + self.judge
        return Sums(
            scored=int(is_scored),
            cost=self.cost,
            prompt_tokens=used.prompt_tokens,
            completion_tokens=used.completion_tokens,
            generations=self.generations,
            tool_calls=self.tool_calls,
            turns=self.turns,
        )
