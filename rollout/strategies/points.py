"""Points where a tree can branch: nodes after which the agent generates.

Branching before a generation is branching from its parent: the next thing there is generated again. What a failed or
cut attempt added is no such place: it is not known what would have become of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollout.trajectories.stop import Status
from rollout.trajectories.tree import Leaf, Node, RolloutTree


def sound_leaves(tree: RolloutTree) -> list[Leaf]:
    """The attempts that came to an end of their own or of a budget."""
    return [leaf for leaf in tree.leaves if leaf.status not in (Status.FAILED, Status.CUT)]


def own_generations(leaf: Leaf) -> list[Node]:
    """The agent's generations that an attempt added, in order."""
    return [node for node in leaf.own_nodes() if node.body.kind == "generation"]


def path_generations(leaf: Leaf) -> list[Node]:
    """The agent's generations from the trunk to a leaf, in order."""
    return [node for node in leaf.node.path() if node.body.kind == "generation"]


_ON_THE_WAY = frozenset({"observation", "note", "aside"})


def inner_generations(tree: RolloutTree) -> list[Node]:
    """The generations after which their attempt generated again, in the order they were grown."""
    return [node for leaf in sound_leaves(tree) for node in own_generations(leaf) if node is not _last(leaf)]


def _last(leaf: Leaf) -> Node | None:
    return next((node for node in leaf.node.up() if node.body.kind == "generation"), None)


def before(generation: Node) -> Node:
    """Where to branch for another generation in its place. What a world shows before anything was done, and what the
    agent's program asks on its way to the generation, is no place of its own: each attempt comes by it again."""
    node = generation.parent
    assert node is not None
    while node.body.kind in _ON_THE_WAY:
        assert node.parent is not None
        node = node.parent
    return node


def count_children(tree: RolloutTree) -> dict[Node, int]:
    """How many generations were grown from each node."""
    children: dict[Node, int] = {}
    for leaf in tree.leaves:
        for node in own_generations(leaf):
            children[before(node)] = children.get(before(node), 0) + 1
    return children


def leaves_by_chain(tree: RolloutTree, count: int) -> list[list[Leaf]]:
    """For each of a tree's first chains, the sound attempts among it and what grew from it."""
    chains = tree.chains()
    leaves: list[list[Leaf]] = [[] for _ in range(count)]
    for leaf in sound_leaves(tree):
        if chains[leaf.number] < count:
            leaves[chains[leaf.number]].append(leaf)
    return leaves


def branch_points(tree: RolloutTree, leaves: Iterable[Leaf]) -> list[Node]:
    """The nodes of these attempts from which another generation can start, the trunk among them, each once."""
    return list(dict.fromkeys([tree.trunk, *(before(node) for leaf in leaves for node in own_generations(leaf))]))
