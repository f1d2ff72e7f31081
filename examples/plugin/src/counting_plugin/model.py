"""The model `presser`: presses until the target is shown, and sometimes stops too early."""

import random

import rollout


async def presser(request: rollout.Request) -> rollout.Message | str:
    """A real one would ask a server here. One that keeps a connection open is a class: see `rollout.Model`."""
    target = str(request.messages[0].content).split()[-1]
    if request.messages[-1].content == target or random.Random(request.seed).random() < 0.2:
        return "Done."
    return rollout.Message(role="assistant", tool_calls=(rollout.ToolCall(f"press_{len(request.messages)}", "press"),))
