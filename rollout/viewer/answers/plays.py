"""Responses about conversations in which a person plays a role."""

from __future__ import annotations

from typing import Literal

import msgspec

from rollout.core.messages import JSON
from rollout.viewer.answers.pages import PageMessage
from rollout.viewer.answers.people import ShownGrowthState


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation in which a person plays the agent or the user."""

    number: int
    dataset: str
    task_id: str
    id: str
    """The id of the conversation's attempt."""
    role: Literal["agent", "user"]
    state: ShownGrowthState
    waits_for: Literal["agent", "user"] | None
    """Whose turn it is; null if the conversation has ended, or if that is unknown."""
    brief: str | None
    """The user's instructions, for a person who plays the user."""
    system: str | None
    """The system prompt, for a person who plays the agent, when it is their turn."""
    messages: tuple[PageMessage, ...]
    tools: tuple[JSON, ...]
    """The agent's current tools, in the form that a model receives."""
    error: str | None
