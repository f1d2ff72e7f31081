"""Groups on their way to a trainer: each task's attempts, as soon as its tree is grown.

A group is delivered at least once. It counts as delivered when its consumer asks for the next one; what was grown but
not delivered when a run stopped is delivered again by the run that goes on with it, and nothing of it is paid for
again.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from typing import Any

import msgspec

from rollout.core.task import Task
from rollout.store.reading.trajectory_files import TrajectoryFiles
from rollout.trajectories.group import is_mixed
from rollout.trajectories.line import Head
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import Leaf, RolloutTree


class Group(msgspec.Struct, frozen=True, dict=True):
    """The attempts at one task."""

    dataset: str
    task: Task
    tree: RolloutTree
    tree_id: int
    """The tree's id in the journal."""
    files: TrajectoryFiles
    """The files of the run that its attempts refer to."""

    @property
    def leaves(self) -> list[Leaf]:
        """Where each attempt ended, by number."""
        return self.tree.leaves

    @property
    def heads(self) -> list[Head]:
        """The record of each attempt without its messages, by number."""
        return [leaf.head for leaf in self.tree.leaves if leaf.head is not None]

    @functools.cached_property
    def trajectories(self) -> list[Trajectory]:
        """The attempts with their messages, by number."""
        return self.files.open_tree(self.tree)

    @property
    def rewards(self) -> list[float | None]:
        """By number; None where nothing could be checked, or the attempt failed or was cut."""
        return [leaf.reward for leaf in self.tree.leaves]

    @property
    def is_useful(self) -> bool:
        """Whether its attempts have different rewards, so that there is something to learn by comparing them."""
        return is_mixed(self.rewards)

    def advantages(self, estimator: str = "grpo", **params: Any) -> list[list[float]]:
        """What each step was worth compared with the other attempts: for each attempt by number, a value for each of
        its answers; nan where an attempt has no reward. docs/how-to/advantages.md has the estimators and their
        parameters. Needs NumPy (the extra `train`)."""
        from rollout.trajectories.advantages import attempts_of_tree, step_advantages

        return [values.tolist() for values in step_advantages(attempts_of_tree(self.tree), estimator, **params)]


class GroupStream:
    """Groups that wait for their consumer. Where `ahead` of them wait, no new work begins."""

    def __init__(self, ahead: int) -> None:
        if ahead < 1:
            raise ValueError(f"ahead is {ahead}: no work would ever begin; expected 1 or more")
        self._ahead = ahead
        self._ready: deque[Group] = deque()
        self._arrived = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_over = False

    def put(self, group: Group) -> None:
        """Add a group. Never waits: what is grown is there."""
        self._ready.append(group)
        self._arrived.set()
        if len(self._ready) >= self._ahead:
            self._has_room.clear()

    def end(self) -> None:
        """Nothing more comes."""
        self._is_over = True
        self._arrived.set()

    def let_go(self) -> None:
        """The consumer is gone: nothing waits for room."""
        self._ahead = len(self._ready) + 1_000_000
        self._has_room.set()

    async def room(self) -> None:
        """Wait until new work may begin."""
        await self._has_room.wait()

    async def get(self) -> Group | None:
        """The next group; None where there is none any more."""
        while not self._ready:
            if self._is_over:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        group = self._ready.popleft()
        if len(self._ready) < self._ahead:
            self._has_room.set()
        return group
