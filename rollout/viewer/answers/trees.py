"""Answers about trees: all attempts at a task."""

from __future__ import annotations

import msgspec


class TreeLeaf(msgspec.Struct, frozen=True, kw_only=True):
    """Where an attempt ended."""

    id: str
    number: int
    author: str | None
    status: str
    success: bool
    scored: bool
    reward: float | None
    stop_reason: str


class TreeNode(msgspec.Struct, frozen=True, kw_only=True):
    """A chain of nodes within which nothing branches."""

    id: str
    parent: str | None
    kind: str
    """The kind of its first node: `opening`, `generation`, `user`, `tool`, …"""
    title: str
    text: str
    steps: int
    """Answers of the agent in it."""
    message: int
    """The place of its first message on the path."""
    leaf: TreeLeaf | None
    """Set where an attempt ends."""
    first_leaf: str | None
    """An attempt whose path leads through it."""
    reason: str
    """Why it was begun."""
    value: float | None
    """The mean reward of the attempts below it."""
    visits: int
    """How many attempts are below it."""
    author: str | None


class TreePage(msgspec.Struct, frozen=True):
    """All attempts at a task."""

    task_id: str
    nodes: tuple[TreeNode, ...]
    leaves: int
