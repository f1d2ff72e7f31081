"""A tree that is being grown: what is open of it, and what earlier commands made of it.

Attempts that the journal holds are hung into the tree where they were, whatever the strategy would say now: their
nodes, and those that they branched from, also where the owner of these failed later and is no leaf.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.engine.plan import Plan
from rollout.engine.reader import Branch, JournalReader, SavedLeaf
from rollout.messages import JSON
from rollout.models.model import Prefix
from rollout.tasks.source import attempt_number, trajectory_id
from rollout.tasks.task import Task
from rollout.trajectories.line import Head
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

    def take_in(self, journal: JournalReader, saved: SavedLeaf, number: int) -> None:
        """Make an attempt of an earlier command part of the tree, where it was."""
        start, node = self._read_nodes(journal, saved.episode, number)
        reason = saved.branch.reason if saved.branch is not None else "init"
        self.tree.add_leaf(leaf_of(node, number, saved.head, start, reason))

    def node_at(self, journal: JournalReader, branch: Branch) -> Node:
        """The node that an episode branched from."""
        if (branch.parent, branch.place) not in self.nodes:
            owner = journal.trajectory_of(branch.parent)
            self._read_nodes(journal, branch.parent, attempt_number(self.task.id, owner))
        return self.nodes[branch.parent, branch.place]

    def _read_nodes(self, journal: JournalReader, episode: int, number: int) -> tuple[Node, Node]:
        """Hang an episode's nodes into the tree; the node that it starts from, and its last."""
        branch = journal.branch(episode)
        node = start = self.tree.trunk if branch is None else self.node_at(journal, branch)
        self.numbers[episode] = number
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
    prefix: Prefix | None = None

    @property
    def trajectory(self) -> str:
        """The id of the trajectory that it grows."""
        return trajectory_id(self.live_tree.task.id, self.number)

    @property
    def branch(self) -> Branch | None:
        """Where it starts, as the journal notes it; None where that is the trunk."""
        if self.start is self.live_tree.tree.trunk:
            return None
        return Branch(self.start.episode, self.start.place, self.reason)

    def describe(self) -> JSON:
        """Where it begins, for its record."""
        told: dict[str, Any] = {"number": self.number, "reason": self.reason}
        if self.branch is not None:
            told["parent"] = trajectory_id(self.live_tree.task.id, self.live_tree.numbers[self.start.episode])
            told["shared_messages"] = len(path_messages(self.start))
            told["lineage"] = self._lineage()
        if self.temperature is not None:
            told["temperature"] = self.temperature
        if self.prefix is not None:
            told["token_offset"] = len(self.prefix.ids)
        return told

    def _lineage(self) -> list[tuple[int, int]]:
        """Whose steps it begins with: the number of each attempt on the way, the first chain first, with how many of
        the path's steps it made."""
        made: dict[int, int] = {}
        for node in self.start.path()[self.live_tree.tree.trunk.depth + 1 :]:
            number = self.live_tree.numbers[node.episode]
            made[number] = made.get(number, 0) + (node.body.kind == "generation")
        return list(made.items())


def leaf_of(node: Node, number: int, head: Head, start: Node, reason: str) -> Leaf:
    """Where an attempt ended, with what is on record of it."""
    reward = float(head.success) if head.metadata["scored"] else None
    return Leaf(node, number, Status(head.status), reward, start, reason, head)
