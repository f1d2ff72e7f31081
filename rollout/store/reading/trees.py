"""Trees as the journal holds them: nodes are hung where they were, attempts are leaves.

Also the nodes that an attempt branched from are read, where the owner of these failed later and is no leaf.
"""

from __future__ import annotations

import msgspec

from rollout.store.damage import missing, reading
from rollout.store.reading.episodes import Branch, SavedLeaf
from rollout.store.reading.reader import JournalReader
from rollout.tasks.source import attempt_number
from rollout.trajectories.line import Head
from rollout.trajectories.stop import Status
from rollout.trajectories.tree import Beginning, Leaf, Node, NodeKey, RolloutTree


class StoredTree(msgspec.Struct, kw_only=True):
    """A tree that is read from the journal, attempt by attempt."""

    tree: RolloutTree
    nodes: dict[NodeKey, Node] = {}
    """Nodes that were read from the journal, by their keys."""
    numbers: dict[int, int] = {}
    """The number of each episode."""
    beginnings: dict[int, Beginning] = {}
    """What the first generations of episodes begin with, where others had sampled it."""

    def take_in(self, journal: JournalReader, saved: SavedLeaf, number: int) -> None:
        """Make an attempt part of the tree, where it was."""
        start, node = self._read_nodes(journal, saved.episode, number)
        reason = saved.branch.reason if saved.branch is not None else "init"
        self.tree.add_leaf(leaf_of(node, number, saved.head, start, reason, self.beginnings.get(saved.episode)))

    def start_of(self, journal: JournalReader, branch: Branch | None) -> tuple[Node, Beginning | None]:
        """The node that an episode starts from, and what its first generation begins with."""
        if branch is None:
            return self.tree.trunk, None
        start = self.tree.trunk if branch.is_at_trunk else self.node_at(journal, (branch.parent, branch.place))
        begun = branch.beginning
        if begun is None:
            return start, None
        return start, Beginning(self.node_at(journal, (begun.owner, begun.place)), begun.tokens)

    def began(self, episode: int, number: int, beginning: Beginning | None) -> None:
        """Note which attempt an episode is, and what it begins with."""
        self.numbers[episode] = number
        if beginning is not None:
            self.beginnings[episode] = beginning

    def node_at(self, journal: JournalReader, key: NodeKey) -> Node:
        """The node with this key, read from the journal if it was not yet."""
        episode, place = key
        with reading(journal.path):
            if key not in self.nodes:
                owner = journal.trajectory_of(episode)
                self._read_nodes(journal, episode, attempt_number(self.tree.task_id, owner))
            if key not in self.nodes:
                raise missing(f"node {place} of episode {episode}")
        return self.nodes[key]

    def _read_nodes(self, journal: JournalReader, episode: int, number: int) -> tuple[Node, Node]:
        """Hang an episode's nodes into the tree; the node that it starts from, and its last."""
        start, beginning = self.start_of(journal, journal.branch(episode))
        self.began(episode, number, beginning)
        node = start
        for place, body in enumerate(journal.nodes(episode)):
            node = self.tree.append(node, body, episode, place)
            self.nodes[episode, place] = node
        return start, node


def leaf_of(node: Node, number: int, head: Head, start: Node, reason: str, beginning: Beginning | None) -> Leaf:
    """Where an attempt ended, with what is on record of it."""
    continues = None if beginning is None else beginning.generation
    return Leaf(node, number, Status(head.status), head.reward, start, reason, head, continues)


def read_tree(journal: JournalReader, dataset: str, task_id: str) -> RolloutTree | None:
    """The tree of a task with its finished attempts; None where it was never begun."""
    found, saved = journal.saved_leaves(dataset, task_id)
    if not found:
        return None
    stored = StoredTree(tree=RolloutTree(task_id, journal.opening(found)))
    for trajectory, leaf in sorted(saved.items(), key=lambda item: attempt_number(task_id, item[0])):
        stored.take_in(journal, leaf, attempt_number(task_id, trajectory))
    return stored.tree
