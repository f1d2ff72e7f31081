"""Observers of a run: the display, the log, later the viewer. They are notified, never asked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from rollout.core.messages import Message
from rollout.trajectories.line import Head
from rollout.trajectories.tree import NodeBody


class Observer(Protocol):
    """Called on the event loop for everything that happens: it must return at once."""

    def episode_began(self, dataset: str, trajectory: str, opening: Sequence[Message], is_resumed: bool) -> None: ...

    def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None: ...

    def episode_ended(self, dataset: str, trajectory: str, head: Head | None) -> None:
        """`head` is None where the episode was paused."""
        ...


class Progress(msgspec.Struct):
    """The numbers of a run as it goes, counted from this command's start."""

    total: int = 0
    """Trajectories that the run has to make, those of earlier commands included."""
    finished_before: int = 0
    done: int = 0
    failed: int = 0
    running: int = 0
    succeeded: int = 0
    generations: int = 0
    turns: int = 0
    tool_calls: int = 0
    tokens: int = 0
    retries: int = 0
    cost: float = 0.0
    started: float = msgspec.field(default_factory=time.monotonic)

    def episode_began(self, dataset: str, trajectory: str, opening: Sequence[Message], is_resumed: bool) -> None:
        self.running += 1

    def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None:
        if body.generation is not None:
            self.generations += 1
            self.tokens += body.generation.usage.completion_tokens
            self.cost += body.generation.cost
            self.retries += len(body.generation.failures)
        if body.kind == "tool":
            self.tool_calls += 1
        elif body.kind == "user":
            self.turns += 1

    def episode_ended(self, dataset: str, trajectory: str, head: Head | None) -> None:
        self.running -= 1
        if head is None:
            return
        if head.status == "failed":
            self.failed += 1
        else:
            self.done += 1
            self.succeeded += head.success
            self.turns += 1

    @property
    def finished(self) -> int:
        """Trajectories that need no more work, those of earlier commands included."""
        return self.finished_before + self.done + self.failed

    @property
    def elapsed(self) -> float:
        return max(1e-9, time.monotonic() - self.started)

    @property
    def remaining(self) -> float | None:
        """Seconds until the end at the present pace; None while nothing is done yet."""
        finished = self.done + self.failed
        left = self.total - self.finished_before - finished
        return self.elapsed / finished * left if finished else None
