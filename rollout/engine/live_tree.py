"""A tree that is being grown: what is open of it, and what earlier commands made of it."""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.core.messages import JSON
from rollout.core.task import Task
from rollout.engine.plan import Plan
from rollout.store.reading.episodes import Branch, SavedBeginning, SavedLeaf
from rollout.store.reading.trees import StoredTree
from rollout.tasks.source import trajectory_id
from rollout.trajectories.tree import Beginning, Node, path_messages


class LiveTree(StoredTree, kw_only=True):
    """A tree, and its place in the journal."""

    plan: Plan
    task: Task
    id: int = 0
    """The tree's id in the journal; 0 until its first new episode."""
    next_number: int = 0
    open: int = 0
    """Episodes of it that are due or live."""
    saved: dict[str, SavedLeaf] = msgspec.field(default_factory=dict)
    """Attempts of earlier commands that have not been taken into the tree yet."""


class DueEpisode(msgspec.Struct):
    """An episode that is due."""

    live_tree: LiveTree
    start: Node
    number: int
    reason: str
    temperature: float | None = None
    beginning: Beginning | None = None

    @property
    def trajectory(self) -> str:
        """The id of the trajectory that it grows."""
        return trajectory_id(self.live_tree.task.id, self.number)

    @property
    def branch(self) -> Branch | None:
        """How it starts, as the journal notes it; None for a first chain."""
        if self.start is self.live_tree.tree.trunk and self.reason == "init" and self.beginning is None:
            return None
        begun = self.beginning
        saved = (
            None if begun is None else SavedBeginning(begun.generation.episode, begun.generation.place, begun.tokens)
        )
        return Branch(self.start.episode, self.start.place, self.reason, saved)

    def describe(self) -> JSON:
        """Where it begins, for its record."""
        told: dict[str, Any] = {"number": self.number, "reason": self.reason}
        shared = self.start if self.beginning is None else self.beginning.generation
        if shared is not self.live_tree.tree.trunk:
            told["parent"] = trajectory_id(self.live_tree.task.id, self.live_tree.numbers[shared.episode])
            told["shared_messages"] = len(path_messages(self.start))
            told["lineage"] = self._lineage()
        if self.temperature is not None:
            told["temperature"] = self.temperature
        if self.beginning is not None:
            told["token_offset"] = self.beginning.tokens
        return told

    def _lineage(self) -> list[tuple[int, int]]:
        """Whose steps it begins with: the number of each attempt on the way, the first chain first, with how many of
        the path's steps it made. None of them is whole where only a step's first tokens are shared."""
        numbers, beginnings = self.live_tree.numbers, self.live_tree.beginnings
        made: dict[int, int] = {}

        def add(episode: int) -> None:
            if numbers[episode] not in made:
                if episode in beginnings:
                    add(beginnings[episode].generation.episode)
                made[numbers[episode]] = 0

        for node in self.start.path()[self.live_tree.tree.trunk.depth + 1 :]:
            add(node.episode)
            made[numbers[node.episode]] += node.body.kind == "generation"
        if self.beginning is not None:
            add(self.beginning.generation.episode)
        return list(made.items())
