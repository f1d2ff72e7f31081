"""Rollout: one engine that collects agent trajectories.

Everything public is an attribute of this package and loaded when it is first used, so `import rollout` costs next to
nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollout.agents.agent import Agent, Session
    from rollout.api.export import export
    from rollout.api.run import arun, run, stream
    from rollout.api.runs import Run, Trajectories, load_run
    from rollout.api.stream import Stream
    from rollout.api.tree import TaskTree
    from rollout.core.errors import ConfigError, JournalError, RolloutError, ToolError
    from rollout.core.messages import Message, ToolCall, ToolSpec
    from rollout.core.task import Action, Task, call
    from rollout.core.tools import tool
    from rollout.core.world import World
    from rollout.engine.groups import Group
    from rollout.environments.environment import Environment
    from rollout.models.model import Capability, Model, Request
    from rollout.pipelines.people.marks import RunMarks
    from rollout.scoring.function import scorer
    from rollout.scoring.scorer import Scorer
    from rollout.trajectories.generation import Generation, Tokens, Usage
    from rollout.trajectories.person_marks import PersonMark
    from rollout.trajectories.score import Score
    from rollout.trajectories.token_view import SampledSpan, Segment, TokenKind, TokenView
    from rollout.trajectories.trajectory import Trajectory

_PLACES = {
    "Action": "rollout.core.task",
    "Agent": "rollout.agents.agent",
    "Capability": "rollout.models.model",
    "ConfigError": "rollout.core.errors",
    "Environment": "rollout.environments.environment",
    "Generation": "rollout.trajectories.generation",
    "Group": "rollout.engine.groups",
    "JournalError": "rollout.core.errors",
    "Message": "rollout.core.messages",
    "Model": "rollout.models.model",
    "PersonMark": "rollout.trajectories.person_marks",
    "Request": "rollout.models.model",
    "RolloutError": "rollout.core.errors",
    "Run": "rollout.api.runs",
    "RunMarks": "rollout.pipelines.people.marks",
    "SampledSpan": "rollout.trajectories.token_view",
    "Score": "rollout.trajectories.score",
    "Scorer": "rollout.scoring.scorer",
    "Segment": "rollout.trajectories.token_view",
    "Session": "rollout.agents.agent",
    "Stream": "rollout.api.stream",
    "Task": "rollout.core.task",
    "TaskTree": "rollout.api.tree",
    "TokenKind": "rollout.trajectories.token_view",
    "TokenView": "rollout.trajectories.token_view",
    "Tokens": "rollout.trajectories.generation",
    "ToolCall": "rollout.core.messages",
    "ToolError": "rollout.core.errors",
    "ToolSpec": "rollout.core.messages",
    "Trajectories": "rollout.api.runs",
    "Trajectory": "rollout.trajectories.trajectory",
    "Usage": "rollout.trajectories.generation",
    "World": "rollout.core.world",
    "arun": "rollout.api.run",
    "call": "rollout.core.task",
    "export": "rollout.api.export",
    "load_run": "rollout.api.runs",
    "run": "rollout.api.run",
    "scorer": "rollout.scoring.function",
    "stream": "rollout.api.run",
    "tool": "rollout.core.tools",
}
__all__ = [
    "Action",
    "Agent",
    "Capability",
    "ConfigError",
    "Environment",
    "Generation",
    "Group",
    "JournalError",
    "Message",
    "Model",
    "PersonMark",
    "Request",
    "RolloutError",
    "Run",
    "RunMarks",
    "SampledSpan",
    "Score",
    "Scorer",
    "Segment",
    "Session",
    "Stream",
    "Task",
    "TaskTree",
    "TokenKind",
    "TokenView",
    "Tokens",
    "ToolCall",
    "ToolError",
    "ToolSpec",
    "Trajectories",
    "Trajectory",
    "Usage",
    "World",
    "arun",
    "call",
    "export",
    "load_run",
    "run",
    "scorer",
    "stream",
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
