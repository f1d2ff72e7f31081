"""Trees made by hand: what strategies see, without an engine."""

from __future__ import annotations

from collections.abc import Sequence

from rollout.core.messages import Message, ToolCall
from rollout.trajectories.generation import Generation, Tokens, Usage
from rollout.trajectories.stop import Status
from rollout.trajectories.tree import Leaf, Node, NodeBody, RolloutTree

Step = float | Sequence[float] | None
"""One generation: the surprisal of its one token, of several, or unknown."""


def make_tree(seed: int = 0) -> RolloutTree:
    return RolloutTree("task", (Message(role="user", content="Please."),), seed)


def generation(step: Step = None, ids: Sequence[int] = (), calls: bool = True, cost: float = 0.0) -> NodeBody:
    surprisals = () if step is None else (step,) if isinstance(step, (int, float)) else tuple(step)
    tokens = Tokens.of((), tuple(ids), tuple(-surprisal for surprisal in surprisals)) if surprisals else None
    asked = (ToolCall("c", "look", "{}"),) if calls else ()
    message = Message(role="assistant", content="So.", tool_calls=asked)
    return NodeBody("generation", generation=Generation(message, tokens=tokens, usage=Usage(10, 5), cost=cost))


TOOL = NodeBody("tool", message=Message(role="tool", content="{}", tool_call_id="c"))


def grow(
    tree: RolloutTree,
    steps: Sequence[Step | NodeBody],
    *,
    start: Node | None = None,
    reward: float | None = 0.0,
    status: Status = Status.COMPLETED,
    reason: str = "init",
    continues: Node | None = None,
) -> list[Node]:
    """Add an attempt: generations with a tool result after each but the last. Returns its generations."""
    number = len(tree.leaves)
    node = start = tree.trunk if start is None else start
    made, place = [], 0
    for at, step in enumerate(steps):
        is_last = at == len(steps) - 1
        body = step if isinstance(step, NodeBody) else generation(step, calls=not is_last)
        node = tree.append(node, body, number + 100, place)
        made.append(node)
        place += 1
        if not is_last:
            node = tree.append(node, TOOL, number + 100, place)
            place += 1
    tree.add_leaf(Leaf(node, number, status, reward, start, reason, continues=continues))
    return made
