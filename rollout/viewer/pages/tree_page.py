"""All attempts at a task as one tree: those of the run, and those that people added.

People's attempts are in a journal of their own, with copies of the attempts that they were grown from. A copied node is
merged with its original here. A chain of nodes without branches is one entry, so a tree of hundreds of attempts has
hundreds of entries, not thousands.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import msgspec

from rollout.core.errors import JournalError
from rollout.store.reading.reader import JournalReader
from rollout.store.reading.trees import read_tree
from rollout.trajectories.tree import OPENING, Leaf, Node, NodeBody, NodeKey, RolloutTree
from rollout.viewer.answers.trees import TreeLeaf, TreeNode, TreePage
from rollout.viewer.errors import not_found
from rollout.viewer.open_runs import OpenRun

log = logging.getLogger(__name__)
MOST_TITLE = 120
MOST_TEXT = 1_200


class _Placed(msgspec.Struct):
    """A node of the merged tree."""

    key: NodeKey
    parent: NodeKey | None
    body: NodeBody
    message: int
    children: list[NodeKey]
    ends: list[Leaf]
    reason: str = ""
    """Why the attempt was begun, on its first node."""
    visits: int = 0
    rewards: list[float] = []
    first_leaf: str | None = None


class _Merged:
    """The nodes of several trees of one task."""

    def __init__(self) -> None:
        self.nodes: dict[NodeKey, _Placed] = {}
        self.paths: dict[str, list[NodeKey]] = {}
        """The path of each attempt, by its id."""
        self.leaves = 0

    def add(self, tree: RolloutTree, originals: dict[int, str]) -> None:
        """Add a tree. `originals`: maps its copied episodes to the attempts that they are copies of."""
        for leaf in tree.leaves:
            self._add_leaf(leaf, originals)

    def _add_leaf(self, leaf: Leaf, originals: dict[int, str]) -> None:
        assert leaf.head is not None
        name = leaf.head.id
        path: list[NodeKey] = []
        message = 0
        own = {id(node) for node in leaf.own_nodes()[:1]}
        for place, node in enumerate(leaf.node.path()[1:]):
            key = self._key(node, place, originals)
            parent = path[-1] if path else None
            if key not in self.nodes:
                self.nodes[key] = _Placed(key, parent, node.body, message, [], [])
                if parent is not None:
                    self.nodes[parent].children.append(key)
            placed = self.nodes[key]
            if id(node) in own:
                placed.reason = leaf.reason
            placed.visits += 1
            placed.first_leaf = placed.first_leaf or name
            if leaf.reward is not None:
                placed.rewards.append(leaf.reward)
            path.append(key)
            message += node.body.said is not None
        if path:
            self.nodes[path[-1]].ends.append(leaf)
        self.paths[name] = path
        self.leaves += 1

    def _key(self, node: Node, place: int, originals: dict[int, str]) -> NodeKey:
        """The key of a node; of a copy, that of the original at the same place of its path."""
        original = self.paths.get(originals.get(node.episode, ""))
        if original is not None and place < len(original):
            return original[place]
        return node.episode, node.place


def read_tree_page(run: OpenRun, dataset: str, task: str) -> TreePage:
    """The tree of a task; empty where each attempt failed. Raises RequestRefused where the task was never begun."""
    merged = _Merged()
    with run.reading() as journal:
        tree = read_tree(journal, dataset, task)
    if tree is not None:
        merged.add(tree, {})
    try:
        if run.has_people:
            with run.reading_people() as journal:
                added = read_tree(journal, dataset, task)
                originals = {} if added is None else _originals(journal, added, set(merged.paths))
            if added is not None:
                merged.add(added, originals)
    except JournalError as error:
        # What people added is damaged; the run itself is not.
        log.warning("%s", error)
    if tree is None and not merged.leaves:
        raise not_found(f"{run.name}: no attempt at the task {task[:200]!r} of {dataset[:200]!r} has begun")
    return TreePage(task, tuple(_entries(merged)), merged.leaves)


def _originals(journal: JournalReader, tree: RolloutTree, known: set[str]) -> dict[int, str]:
    episodes = {node.episode for leaf in tree.leaves for node in leaf.node.up() if node.episode != OPENING}
    names = {episode: journal.trajectory_of(episode) for episode in episodes}
    return {episode: name for episode, name in names.items() if name in known}


def _entries(merged: _Merged) -> Iterator[TreeNode]:
    """Chains of nodes, each behind its parent."""
    roots = [key for key, node in merged.nodes.items() if node.parent is None]
    stack: list[tuple[NodeKey, str | None]] = [(key, None) for key in reversed(roots)]
    while stack:
        key, above = stack.pop()
        chain = [merged.nodes[key]]
        # A node that people added begins its own entry, even as the only child.
        while len(chain[-1].children) == 1 and not chain[-1].ends:
            below = merged.nodes[chain[-1].children[0]]
            if below.visits != chain[-1].visits or below.body.author != chain[0].body.author:
                break
            chain.append(below)
        name = _name(key)
        ends = chain[-1].ends
        yield _entry(chain, name, above, ends[0] if ends else None)
        for leaf in ends[1:]:
            # Two attempts that end at the same node.
            yield _entry(chain[-1:], f"{name}/{leaf.number}", name, leaf)
        stack += [(child, name) for child in reversed(chain[-1].children)]


def _entry(chain: Sequence[_Placed], name: str, above: str | None, leaf: Leaf | None) -> TreeNode:
    first = chain[0]
    lines = [line for node in chain for line in _lines(node.body)]
    text = "\n".join(lines)
    return TreeNode(
        id=name,
        parent=above,
        kind=first.body.kind,
        title=_cut(lines[0] if lines else first.body.kind, MOST_TITLE),
        text=text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…",
        steps=sum(node.body.kind == "generation" for node in chain),
        message=first.message,
        leaf=None if leaf is None else _leaf(leaf),
        first_leaf=first.first_leaf,
        reason=first.reason,
        value=sum(first.rewards) / len(first.rewards) if first.rewards else None,
        visits=first.visits,
        author=first.body.author,
    )


def _leaf(leaf: Leaf) -> TreeLeaf:
    head = leaf.head
    assert head is not None
    return TreeLeaf(
        id=head.id,
        number=leaf.number,
        author=head.author,
        status=head.status,
        success=head.success,
        scored=head.scored,
        reward=leaf.reward,
        stop_reason=head.stop_reason,
    )


def _lines(body: NodeBody) -> Iterator[str]:
    """A node in a few lines: its speaker, text and calls."""
    said = body.said
    if said is None:
        return
    words = _cut(" ".join((said.content or "").split()), 4 * MOST_TITLE)
    if said.role == "tool":
        yield f"→ {words}"
        return
    if words:
        yield f"{'agent' if said.role == 'assistant' else said.role}: {words}"
    for call in said.tool_calls:
        yield _cut(f"{call.name}({call.arguments})", 2 * MOST_TITLE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _name(key: NodeKey) -> str:
    return f"{key[0]}.{key[1]}"
