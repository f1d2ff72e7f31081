"""Where a tree can branch: nodes after which the agent generates."""

from __future__ import annotations

from rollout.trajectories.stop import Status
from rollout.trajectories.tree import Leaf, Node, RolloutTree


def chain_of(tree: RolloutTree, leaf: Leaf) -> int:
    """The number of the first chain that an attempt grew from, its own where it began at the trunk."""
    owner = {node.episode: leaf.number for leaf in tree.leaves for node in leaf.own_nodes()[:1]}
    by_number = {leaf.number: leaf for leaf in tree.leaves}
    while leaf.start is not tree.trunk:
        leaf = by_number[owner[leaf.start.episode]]
    return leaf.number


def generation_points(tree: RolloutTree) -> list[Node]:
    """The agent's generations of a tree, in the order they were grown; branching before one is `node.parent`."""
    return [node for leaf in tree.leaves for node in leaf.own_nodes() if node.body.kind == "generation"]


def branch_points(tree: RolloutTree, chain: int) -> list[Node]:
    """The nodes of a chain, and of what grew from it, from which another generation can start: the trunk among them."""
    points = [tree.trunk]
    for leaf in tree.leaves:
        if leaf.status in (Status.FAILED, Status.CUT) or chain_of(tree, leaf) != chain:
            continue
        points += [
            node.parent
            for node in leaf.own_nodes()
            if node.body.kind == "generation" and node.parent is not None and node.parent is not tree.trunk
        ]
    return list(dict.fromkeys(points))
