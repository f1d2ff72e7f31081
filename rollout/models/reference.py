"""Reference models: policies that answer from a task's reference instead of from what the agent is shown.

A `Request` holds what is sent to a model and nothing else, so no model can read the answer key from it. A policy that
plays the answer key, such as `builtin/oracle`, keeps this second contract: with each request the episode passes a
`Reference` to `play`. A reference model has no `generate`, so it can be an agent but never a user or a judge.

The registry decides who gets one. It hands out `builtin/oracle`, and a plug-in that derives from `ReferenceModel` in a
dataset that says `agent.reveal_reference: true`. Any other plug-in is wrapped so that only its `generate` is reachable,
whatever methods it defines.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rollout.core.messages import Message, Toolset
from rollout.core.task import Task
from rollout.models.model import Capability, Model, Request
from rollout.trajectories.generation import Generation

__all__ = ["AgentModel", "Reference", "ReferenceModel"]


class Reference(msgspec.Struct, frozen=True):
    """The answer key of a task, and the episode's position in it."""

    task: Task
    """The whole task: reference actions, the user's brief, good replies, `task_info`."""
    turn: int
    """The conversation turn, as reference actions count turns."""
    path: Sequence[Message]
    """The whole conversation as recorded. `Request.messages` may be a part of it, or written in another form. It grows
    with the episode: read it during the call and keep no reference."""
    tools: Toolset
    """The tools that the agent has. `Request.tools` is empty where they are listed in the system prompt."""


class ReferenceModel:
    """Base class of models that answer from the reference.

    An implementation derives every answer from the request and the reference and keeps no state of an episode. So a
    resumed or branched episode gets the same answers as one that was never interrupted.
    """

    name: str
    capabilities: frozenset[Capability] = frozenset()

    async def play(self, request: Request, reference: Reference) -> Generation:
        """Answer the conversation. Raises the same errors as `Model.generate`."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release what the model holds. Called once, by the registry that made it."""


AgentModel = Model | ReferenceModel
"""Anything that can answer for an agent."""
