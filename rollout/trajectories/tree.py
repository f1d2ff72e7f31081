"""The append-only tree: all attempts at one task.

A node owns only what is new (one message, and for a generation how it came about) and points at its parent. Nothing is
copied when a path grows, branches or is resumed, so the cost of a turn does not depend on how long the path is. What
the model was sent, what a person reads and what is exported are views that walk a path; none of them changes it.

A node's key is (episode, place): the episode that grew it and its place in that episode's part of the path. It is the
primary key in the journal, too.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from rollout.core.messages import JSON, Message, ToolCall, WorldEnd
from rollout.trajectories.generation import Generation, Prefix, Tokens
from rollout.trajectories.line import Head
from rollout.trajectories.stop import Status

NodeKind = Literal[
    "root", "opening", "user", "generation", "tool", "judge", "user_call", "user_tool", "observation", "note", "aside"
]
"""A note is an instruction that the agent's program adds to the conversation; an aside is an answer of its model that
is no part of the conversation."""
NodeKey = tuple[int, int]
"""Episode and place."""
OPENING = -1
"""The episode of the nodes that no episode grew: the root and the opening."""
PERSON = "person"
"""Why an episode begins where a person asked to go on, or put a correction."""
UserEnd = Literal["stop", "transfer", "out_of_scope", "script_end", "silent"]
End = UserEnd | WorldEnd | Literal["max_turns", "judged_complete"]


class NodeBody(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What is written down of a node."""

    kind: NodeKind
    message: Message | None = None
    """None for the root, for a generation (which holds its own), for a judge, and for a user who adds nothing."""
    generation: Generation | None = None
    """How the message came about, where a model made it: the agent's answers, a model user's words."""
    end: End | None = None
    """Set where this node ended the conversation: the user's wish, words that come too late, a judge's verdict, a
    call that was the world's last."""
    error_kind: str | None = None
    """Set where a tool result is an error observation."""
    is_undone: bool = False
    """Whether the call that this answers was undone, so that a replay leaves it out."""
    marks: tuple[str, ...] = ()
    """Remarks made at the time, such as faults of the simulated user."""
    state_key: str | None = None
    """The key of the world's state when this was added, where it is recorded (`record_states`): on the last result of
    each round of calls, and on the first node of a path."""
    data: JSON | None = None
    """The facts of an observation beside its text (`ToolResult.data`). None where the world gave none, and in journals
    of versions that did not keep them."""
    added: float = 0.0
    """When it was added to the path, in seconds since 1970; 0 in journals of versions that did not keep it."""
    author: str | None = None
    """The person who wrote this; None for what a model, a program or a world wrote."""

    @property
    def is_private(self) -> bool:
        """Whether only the user knows of it: a call of its own tools, or the answer to one."""
        return self.kind == "user_call" or self.kind == "user_tool"

    def state_after(self, before: str | None) -> str | None:
        """The key of the state here, given the one before: only calls change a world. None: unknown."""
        return self.state_key or (None if self.kind == "tool" or self.kind == "user_tool" else before)

    @property
    def said(self) -> Message | None:
        """The message that this node adds to the conversation. A model user's raw words stay in its generation, and
        what a user does with its own tools stays between it and them."""
        kind, generation = self.kind, self.generation
        if kind == "generation" and generation is not None:
            return generation.message
        return None if kind == "user_call" or kind == "user_tool" else self.message

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that this node asks for: the agent's answer, or the user's own call."""
        said = self.message if self.kind == "user_call" else self.said
        return said.tool_calls if said is not None and self.kind in ("generation", "user_call") else ()


class Node:
    """One node of a tree."""

    __slots__ = ("body", "depth", "episode", "parent", "place", "snapshot")

    def __init__(self, body: NodeBody, parent: Node | None, episode: int, place: int) -> None:
        self.body = body
        self.parent = parent
        self.episode = episode
        self.place = place
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.snapshot: Any = None
        """The world's state here, where it may be branched from. Opaque, and only in memory."""

    def __repr__(self) -> str:
        return f"Node({self.episode}.{self.place} {self.body.kind})"

    def up(self) -> Iterator[Node]:
        """This node, its parent, and so on to the root."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def path(self) -> list[Node]:
        """From the root to this node."""
        nodes = list(self.up())
        nodes.reverse()
        return nodes


class Leaf(msgspec.Struct, frozen=True):
    """Where an attempt ended, and what became of it."""

    node: Node
    number: int
    """The attempt's number within the tree."""
    status: Status
    reward: float | None
    """By the dataset's rule; None where nothing could be checked."""
    start: Node
    """The node that it was grown from."""
    reason: str = "init"
    head: Head | None = None
    """What is on record of it."""
    continues: Node | None = None
    """The generation of another attempt whose first tokens its own first generation begins with."""

    def own_nodes(self) -> list[Node]:
        """The nodes that this attempt added, in order."""
        nodes = []
        for node in self.node.up():
            if node is self.start:
                break
            nodes.append(node)
        nodes.reverse()
        return nodes


class Beginning(msgspec.Struct, frozen=True):
    """The first tokens of a generation, from which others go on."""

    generation: Node
    tokens: int
    """How many."""

    @property
    def prefix(self) -> Prefix:
        """Them, as a model is given them."""
        generation = self.generation.body.generation
        assert generation is not None
        assert generation.tokens is not None
        tokens = generation.tokens
        return Prefix(tuple(tokens.completion_ids[: self.tokens]), tuple(tokens.logprobs[: self.tokens]))


class RolloutTree:
    """The attempts at one task. `trunk` is where a fresh attempt starts: the last node of the task's opening."""

    def __init__(self, task_id: str, opening: tuple[Message, ...], seed: int = 0) -> None:
        self.task_id = task_id
        self.seed = seed
        """What a strategy draws from."""
        self.root = Node(NodeBody("root"), None, OPENING, 0)
        node = self.root
        for place, message in enumerate(opening, 1):
            node = Node(NodeBody("opening", message=message), node, OPENING, place)
        self.trunk = node
        self.leaves: list[Leaf] = []
        """In the order of their numbers."""
        self._runs: dict[bytes, bytes] = {}
        """What prompts add, each once: attempts from one node are given the same ids there."""

    def append(self, parent: Node, body: NodeBody, episode: int, place: int) -> Node:
        """Grow the tree by one node."""
        if body.generation is not None and body.generation.tokens is not None:
            body = self._with_shared_run(body, body.generation, body.generation.tokens)
        return Node(body, parent, episode, place)

    def _with_shared_run(self, body: NodeBody, generation: Generation, tokens: Tokens) -> NodeBody:
        run = self._runs.setdefault(tokens.new, tokens.new)
        if run is tokens.new:
            return body
        tokens = msgspec.structs.replace(tokens, new=run)
        generation = msgspec.structs.replace(generation, tokens=tokens)
        return msgspec.structs.replace(body, generation=generation)

    def add_leaf(self, leaf: Leaf) -> None:
        """Note that an attempt ended."""
        bisect.insort(self.leaves, leaf, key=lambda leaf: leaf.number)

    def chains(self) -> dict[int, int]:
        """For each attempt, by number, the attempt that it grew from in the end: its own where it started again."""
        owners = {own[0].episode: leaf for leaf in self.leaves if (own := leaf.own_nodes())}
        chains: dict[int, int] = {}
        for leaf in self.leaves:
            found: Leaf | None = leaf
            while found is not None:
                chains[leaf.number] = found.number
                grown_from = found.continues or found.start
                first = next((node for node in grown_from.up() if node.parent is self.trunk), None)
                found = None if first is None else owners.get(first.episode)
        return chains


def path_messages(leaf: Node) -> list[Message]:
    """Every message said on the way to `leaf`, whole, with all reasoning: what is saved."""
    return [said for node in leaf.path() if (said := node.body.said) is not None]
