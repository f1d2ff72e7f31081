"""The model `presser`: presses until the target is shown, and sometimes stops too early."""

from __future__ import annotations

import random

import rollout
from rollout.models.model import Capability


class Presser:
    """Keeps the `rollout.Model` contract. A real one would ask a server in `generate`."""

    name = "presser"
    capabilities: frozenset[Capability] = frozenset()

    async def generate(self, request: rollout.Request) -> rollout.Generation:
        target = str(request.messages[0].content).split()[-1]
        is_done = request.messages[-1].content == target or random.Random(request.seed).random() < 0.2
        calls = () if is_done else (rollout.ToolCall(f"press_{len(request.messages)}", "press"),)
        answer = rollout.Message(role="assistant", content="Done." if is_done else None, tool_calls=calls)
        return rollout.Generation(answer, "stop" if is_done else "tool_calls", model=self.name)

    async def close(self) -> None:
        """There is no connection to close."""
