"""A tree that is being grown: what is open of it, and what earlier commands made of it.

Attempts that the journal holds are hung into the tree where they were, whatever the strategy would say now: their
nodes, and those that they branched from, also where the owner of these failed later and is no leaf.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.core.messages import JSON
from rollout.core.task import Task
from rollout.engine.plan import Plan
from rollout.store.damage import missing, reading
from rollout.store.reader import Branch, JournalReader, SavedBeginning, SavedLeaf
from rollout.strategies.strategy import Beginning
from rollout.tasks.source import attempt_number, trajectory_id
from rollout.trajectories.line import Head
from rollout.trajectories.rewards import recorded_reward
from rollout.trajectories.stop import Status
from rollout.trajectories.tree import Leaf, Node, RolloutTree, path_messages


class LiveTree(msgspec.Struct):
    """A tree, and its place in the journal."""

    plan: Plan
    task: Task
    tree: RolloutTree
    id: int = 0
    """The tree's id in the journal; 0 until its first new episode."""
    next_number: int = 0
    open: int = 0
    """Episodes of it that are due or live."""
    saved: dict[str, SavedLeaf] = {}
    """Attempts of earlier commands that have not been taken into the tree yet."""
    nodes: dict[tuple[int, int], Node] = {}
    """Nodes that were read from the journal, by their keys."""
    numbers: dict[int, int] = {}
    """The number of each episode."""
    beginnings: dict[int, Beginning] = {}
    """What the first generations of episodes begin with, where others had sampled it."""

    def take_in(self, journal: JournalReader, saved: SavedLeaf, number: int) -> None:
        """Make an attempt of an earlier command part of the tree, where it was."""
        start, node = self._read_nodes(journal, saved.episode, number)
        reason = saved.branch.reason if saved.branch is not None else "init"
        self.tree.add_leaf(leaf_of(node, number, saved.head, start, reason, self.beginnings.get(saved.episode)))

    def start_of(self, journal: JournalReader, branch: Branch | None) -> tuple[Node, Beginning | None]:
        """The node that an episode starts from, and what its first generation begins with."""
        if branch is None:
            return self.tree.trunk, None
        start = self.tree.trunk if branch.is_at_trunk else self._node_at(journal, branch.parent, branch.place)
        begun = branch.beginning
        if begun is None:
            return start, None
        return start, Beginning(self._node_at(journal, begun.owner, begun.place), begun.tokens)

    def began(self, episode: int, number: int, beginning: Beginning | None) -> None:
        """Note which attempt an episode is, and what it begins with."""
        self.numbers[episode] = number
        if beginning is not None:
            self.beginnings[episode] = beginning

    def _node_at(self, journal: JournalReader, episode: int, place: int) -> Node:
        with reading(journal.path):
            if (episode, place) not in self.nodes:
                owner = journal.trajectory_of(episode)
                self._read_nodes(journal, episode, attempt_number(self.task.id, owner))
            if (episode, place) not in self.nodes:
                raise missing(f"node {place} of episode {episode}")
        return self.nodes[episode, place]

    def _read_nodes(self, journal: JournalReader, episode: int, number: int) -> tuple[Node, Node]:
        """Hang an episode's nodes into the tree; the node that it starts from, and its last."""
        start, beginning = self.start_of(journal, journal.branch(episode))
        self.began(episode, number, beginning)
        node = start
        for place, body in enumerate(journal.nodes(episode)):
            node = self.tree.append(node, body, episode, place)
            self.nodes[episode, place] = node
        return start, node


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


def leaf_of(node: Node, number: int, head: Head, start: Node, reason: str, beginning: Beginning | None) -> Leaf:
    """Where an attempt ended, with what is on record of it."""
    continues = None if beginning is None else beginning.generation
    return Leaf(node, number, Status(head.status), recorded_reward(head), start, reason, head, continues)
