"""Answers about conversations in which a person takes a part."""

from __future__ import annotations

from typing import Literal

import msgspec

from rollout.core.messages import JSON
from rollout.viewer.answers.pages import PageMessage
from rollout.viewer.answers.people import GrowthState


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation in which a person takes a part."""

    number: int
    dataset: str
    task_id: str
    id: str
    """The attempt that it becomes."""
    role: Literal["agent", "user"]
    state: GrowthState
    waits_for: Literal["agent", "user"] | None
    """Whose turn it is; null where it is over, or not known."""
    brief: str | None
    """What only the user knows, for a person who plays the user."""
    system: str | None
    """The system prompt, for a person who plays the agent, when it is their turn."""
    messages: tuple[PageMessage, ...]
    tools: tuple[JSON, ...]
    """The tools that the agent is offered now, as a model is sent them."""
    error: str | None
