"""The tree of a task as text: where attempts share their beginning, where they part, and how each ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from rollout.core.messages import Message
from rollout.core.printable import printable
from rollout.trajectories.tree import Leaf, Node, RolloutTree

LineKind = Literal["head", "agent", "user", "call", "result", "error", "solved", "unsolved", "ended"]


class TreeLine(msgspec.Struct, frozen=True):
    """A line of the drawing."""

    branch: str
    """The strokes before the text."""
    text: str
    kind: LineKind

    def __str__(self) -> str:
        return self.branch + self.text


def draw_tree(tree: RolloutTree, width: int) -> Iterator[TreeLine]:
    """The lines of the drawing, none longer than `width`: one for each message, and at the end of each attempt its
    result. What attempts share is drawn once."""
    return (_cut(line, width) for line in _draw(tree))


def _draw(tree: RolloutTree) -> Iterator[TreeLine]:
    children = _children(tree)
    ends: dict[int, list[Leaf]] = {}
    for leaf in tree.leaves:
        ends.setdefault(id(leaf.node), []).append(leaf)
    count = len(tree.leaves)
    yield TreeLine("", f"{_one_line(tree.task_id)}: {count} attempt{'' if count == 1 else 's'}", "head")
    stack: list[tuple[Node, str, str]] = [(tree.root, "", "")]
    while stack:
        node, first, rest = stack.pop()
        # A chain goes down at one level; only where attempts part the level changes.
        while True:
            for text, kind in _describe(node):
                yield TreeLine(first, text, kind)
                first = rest
            yield from (TreeLine(rest, *_result(leaf)) for leaf in ends.get(id(node), ()))
            below = children.get(id(node), [])
            if len(below) != 1:
                break
            node = below[0]
        for place, child in reversed(list(enumerate(below))):
            is_last = place == len(below) - 1
            stack.append((child, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  ")))


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


def _describe(node: Node) -> Iterator[tuple[str, LineKind]]:
    said = node.body.said
    if said is None:
        return
    if said.role == "tool":
        yield f"  → {_one_line(said.content)}", "error" if node.body.error_kind else "result"
        return
    if said.content:
        who = {"assistant": "agent", "user": "note" if node.body.kind == "note" else "user"}.get(said.role, said.role)
        yield f"{who}: {_one_line(said.content)}", "agent" if said.role == "assistant" else "user"
    yield from ((call, "call") for call in _calls(said))


def _calls(message: Message) -> Iterator[str]:
    for call in message.tool_calls:
        yield f"{_one_line(call.name)}({_one_line(call.arguments)})"


def _result(leaf: Leaf) -> tuple[str, LineKind]:
    reward = "no reward" if leaf.reward is None else f"reward {leaf.reward:g}"
    head = leaf.head
    if head is None:
        return f"[{leaf.number}] {leaf.status}, {reward}", "ended"
    kind: LineKind = "solved" if head.success else "unsolved" if head.scored else "ended"
    solved = {"solved": " ✓", "unsolved": " ✗"}.get(kind, "")
    return f"[{leaf.number}]{solved} {head.status} ({head.stop_reason}), {reward}", kind


def _one_line(text: str | None) -> str:
    return printable(" ".join((text or "").split()))


def _cut(line: TreeLine, width: int) -> TreeLine:
    if len(str(line)) <= width:
        return line
    # Deep in a tree there may be more strokes than fit.
    branch = line.branch if len(line.branch) < width else "…" + line.branch[len(line.branch) - width // 2 :]
    left = max(width - len(branch) - 1, 0)
    return TreeLine(branch, line.text if len(line.text) <= left + 1 else line.text[:left] + "…", line.kind)
