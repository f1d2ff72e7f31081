"""Rollout: one engine that collects agent trajectories.

Everything public is an attribute of this package and loaded when it is first used, so `import rollout` costs next to
nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollout.core.messages import Message, ToolCall
    from rollout.core.task import Action, Task, call
    from rollout.core.tools import tool
    from rollout.core.world import World
    from rollout.environments.environment import Environment
    from rollout.scoring.function import scorer
    from rollout.trajectories.score import Score
    from rollout.trajectories.trajectory import Trajectory

_PLACES = {
    "Action": "rollout.core.task",
    "Environment": "rollout.environments.environment",
    "Message": "rollout.core.messages",
    "Score": "rollout.trajectories.score",
    "Task": "rollout.core.task",
    "ToolCall": "rollout.core.messages",
    "Trajectory": "rollout.trajectories.trajectory",
    "World": "rollout.core.world",
    "call": "rollout.core.task",
    "scorer": "rollout.scoring.function",
    "tool": "rollout.core.tools",
}
__all__ = [
    "Action",
    "Environment",
    "Message",
    "Score",
    "Task",
    "ToolCall",
    "Trajectory",
    "World",
    "call",
    "scorer",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'rollout' has no attribute {name!r}")
    found = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
