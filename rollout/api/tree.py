"""The tree of a task for people: a text that shows where attempts share their beginning and where they part."""

from __future__ import annotations

from collections.abc import Iterator

from rollout.core.messages import Message
from rollout.core.printable import printable
from rollout.store.trajectory_files import TrajectoryFiles
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import Leaf, Node, RolloutTree

WIDTH = 100


class TaskTree:
    """All finished attempts at a task."""

    def __init__(self, tree: RolloutTree, files: TrajectoryFiles) -> None:
        self.nodes = tree
        """The tree itself, node by node."""
        self._files = files

    @property
    def task_id(self) -> str:
        return self.nodes.task_id

    @property
    def trajectories(self) -> list[Trajectory]:
        """The attempts, by number."""
        return self._files.open_tree(self.nodes)

    def draw(self, width: int = WIDTH) -> str:
        """The tree as text: one line for each message, and at the end of each attempt its result. What attempts share
        is drawn once."""
        children = _children(self.nodes)
        ends: dict[int, list[Leaf]] = {}
        for leaf in self.nodes.leaves:
            ends.setdefault(id(leaf.node), []).append(leaf)
        count = len(self.nodes.leaves)
        lines = [f"{self.task_id}: {count} attempt{'' if count == 1 else 's'}"]
        stack: list[tuple[Node, str, str]] = [(self.nodes.root, "", "")]
        while stack:
            node, first, rest = stack.pop()
            # A chain goes down at one level; only where attempts part the level changes.
            while True:
                for text in _describe(node):
                    lines.append(_cut(first + text, width))
                    first = rest
                lines += [_cut(rest + _result(leaf), width) for leaf in ends.get(id(node), ())]
                below = children.get(id(node), [])
                if len(below) != 1:
                    break
                node = below[0]
            for place, child in reversed(list(enumerate(below))):
                is_last = place == len(below) - 1
                stack.append((child, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  ")))
        return "\n".join(lines)


def _children(tree: RolloutTree) -> dict[int, list[Node]]:
    """The nodes below each node, in the order of the attempts that grew them."""
    children: dict[int, list[Node]] = {}
    seen: set[int] = set()
    for leaf in tree.leaves:
        for node in leaf.node.up():
            if id(node) in seen or node.parent is None:
                break
            seen.add(id(node))
            children.setdefault(id(node.parent), []).append(node)
    return children


def _describe(node: Node) -> Iterator[str]:
    said = node.body.said
    if said is None:
        return
    if said.role == "tool":
        yield f"  → {_one_line(said.content)}"
        return
    if said.content:
        who = {"assistant": "agent", "user": "note" if node.body.kind == "note" else "user"}.get(said.role, said.role)
        yield f"{who}: {_one_line(said.content)}"
    yield from _calls(said)


def _calls(message: Message) -> Iterator[str]:
    for call in message.tool_calls:
        yield f"{_one_line(call.name)}({_one_line(call.arguments)})"


def _result(leaf: Leaf) -> str:
    reward = "no reward" if leaf.reward is None else f"reward {leaf.reward:g}"
    head = leaf.head
    if head is None:
        return f"[{leaf.number}] {leaf.status}, {reward}"
    solved = " ✓" if head.success else " ✗" if head.scored else ""
    return f"[{leaf.number}]{solved} {head.status} ({head.stop_reason}), {reward}"


def _one_line(text: str | None) -> str:
    return printable(" ".join((text or "").split()))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
