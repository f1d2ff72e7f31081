"""All rows of a task as one tree of tokens: what they share is there once.

Nodes are spans of rows (`token_rows.TokenSpan`): what a step sampled, or the context between two steps. Where other
steps went on from inside a step's answer, it is cut there: each piece is of the step that sampled it. Two rows share a
node where they share all nodes before it, and its ids, step, mask and logprobs. Nodes are in the order of a
depth-first walk, parents before their children.

The weight of a node is the number of rows that go through it over the number of trajectories: for trajectories of one
row each, leaves below / leaves in all. So the sum over the nodes' tokens, each with its node's weight, is the mean over
trajectories of any loss that a token has by itself and what stands before it. An advantage is not such a thing where
each trajectory has its own; a node has the mean of the advantages of those that share it, which leaves every loss that
is linear in the advantage as it was.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from rollout.trajectories.rows.exchange import StepKey
from rollout.trajectories.rows.token_rows import TokenRow, TokenSpan


class TokenNode(msgspec.Struct, frozen=True):
    """A span of tokens that some rows share."""

    parent: int
    """-1 where a row begins with it."""
    span: TokenSpan
    ids: array[int]
    logprobs: array[float] | None
    weight: float
    advantages: array[float] | None
    position: int
    """How many tokens stand before it on each of its rows."""


class TokenTree(msgspec.Struct, frozen=True):
    """The rows of a task."""

    nodes: list[TokenNode]
    trajectories: list[str]
    """Each once, in the order of their rows."""
    ends: list[tuple[int, int]]
    """For each row the number of its trajectory and the node where it ends."""
    exact: list[bool]
    """For each row."""

    def rows(self) -> Iterator[TokenRow]:
        """The rows again, without their own advantages."""
        for (trajectory, end), is_exact in zip(self.ends, self.exact, strict=True):
            path: list[TokenNode] = []
            while end >= 0:
                path.append(self.nodes[end])
                end = path[-1].parent
            path.reverse()
            ids, logprobs = array("I"), array("d")
            has_logprobs = True
            for node in path:
                ids += node.ids
                if node.logprobs is None:
                    has_logprobs = False
                else:
                    logprobs += node.logprobs
            yield TokenRow(
                self.trajectories[trajectory],
                ids,
                tuple(node.span for node in path),
                logprobs if has_logprobs else None,
                is_exact=is_exact,
            )


class _Growing:
    """A node in the making."""

    def __init__(self, part: _RowPart | None, position: int) -> None:
        self.part = part
        self.position = position
        self.children: dict[_Identity, _Growing] = {}
        self.rows: list[int] = []
        """The rows that go through it."""
        self.total: array[float] | None = None
        """The sum of their advantages."""


_Identity = tuple[int, StepKey | None, bool, bytes, bytes | None]


class _RowPart(msgspec.Struct, frozen=True):
    span: TokenSpan
    ids: array[int]
    logprobs: array[float] | None
    advantages: array[float] | None

    @property
    def identity(self) -> _Identity:
        scores = None if self.logprobs is None else self.logprobs.tobytes()
        return (self.span.length, self.span.key, self.span.is_learnt, self.ids.tobytes(), scores)


def build_tree(rows: Sequence[TokenRow]) -> TokenTree:
    """The tree of these rows."""
    root = _Growing(None, 0)
    beginnings = _Beginnings(rows)
    places: dict[str, int] = {}
    ends: list[_Growing] = []
    for number, row in enumerate(rows):
        places.setdefault(row.trajectory, len(places))
        node = root
        for part in _parts(row, beginnings):
            below = node.children.get(part.identity)
            if below is None:
                before = 0 if node.part is None else node.part.span.length
                below = node.children[part.identity] = _Growing(part, node.position + before)
            below.rows.append(number)
            if part.advantages is not None:
                below.total = part.advantages if below.total is None else _sum(below.total, part.advantages)
            node = below
        ends.append(node)
    nodes, numbers = _in_order(root, len(places))
    return TokenTree(
        nodes,
        list(places),
        [(places[row.trajectory], numbers[id(end)]) for row, end in zip(rows, ends, strict=True)],
        [row.is_exact for row in rows],
    )


def _in_order(root: _Growing, trajectories: int) -> tuple[list[TokenNode], dict[int, int]]:
    nodes: list[TokenNode] = []
    numbers: dict[int, int] = {}
    due = [(child, -1) for child in reversed(root.children.values())]
    while due:
        growing, parent = due.pop()
        assert growing.part is not None
        numbers[id(growing)] = len(nodes)
        count = len(growing.rows)
        mean = None if growing.total is None else array("d", (value / count for value in growing.total))
        part = growing.part
        weight = count / trajectories
        nodes.append(TokenNode(parent, part.span, part.ids, part.logprobs, weight, mean, growing.position))
        due += [(child, numbers[id(growing)]) for child in reversed(growing.children.values())]
    return nodes, numbers


class _Beginnings:
    """Which steps were given the first tokens of others, and where that cuts them."""

    def __init__(self, rows: Iterable[TokenRow]) -> None:
        self._given: dict[StepKey, tuple[StepKey, int]] = {}
        self._taken: dict[StepKey, set[int]] = {}
        for row in rows:
            for span in row.spans:
                if span.key is not None and span.given is not None:
                    self._given[span.key] = span.given
                    self._taken.setdefault(span.given[0], set()).add(span.given[1])

    def pieces(self, span: TokenSpan) -> Iterator[TokenSpan]:
        """The span, cut wherever one of these steps begins to differ from another."""
        if span.key is None:
            yield span
            return
        begin = 0
        for end in [*sorted(cut for cut in self._cuts(span.key) if cut < span.length), span.length]:
            yield TokenSpan(end - begin, self._owner(span.key, begin), span.is_learnt)
            begin = end

    def _cuts(self, step: StepKey) -> set[int]:
        cuts = self._taken.get(step, set())
        if step not in self._given:
            return cuts
        giver, count = self._given[step]
        return cuts | {count} | {cut for cut in self._cuts(giver) if cut < count}

    def _owner(self, step: StepKey, place: int) -> StepKey:
        """The step that sampled the token at this place."""
        while step in self._given and place < self._given[step][1]:
            step = self._given[step][0]
        return step


def _parts(row: TokenRow, beginnings: _Beginnings) -> Iterable[_RowPart]:
    begin = 0
    for span in (piece for whole in row.spans for piece in beginnings.pieces(whole)):
        end = begin + span.length
        yield _RowPart(
            span,
            row.ids[begin:end],
            None if row.logprobs is None else row.logprobs[begin:end],
            None if row.advantages is None else row.advantages[begin:end],
        )
        begin = end


def _sum(one: array[float], other: array[float]) -> array[float]:
    return array("d", map(sum, zip(one, other, strict=True)))
