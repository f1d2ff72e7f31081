"""Monte Carlo tree search: attempts go where earlier ones from there were worth most, and where few have been.

A state is a node before which the agent generates; its actions are the generations that were grown from it. Each
simulation goes down from the trunk by UCT: at a state with `width` actions it follows the one with the highest

    value + exploration * sqrt(ln(visits of the state) / visits of the action)

and at the first state that has fewer it starts a new attempt, which is played to its end. The value of an action is the
mean over the attempts that went through it. Several attempts can be started at once: each counts as a visit worth 0
where it passes until it is known (virtual loss), so that the next one goes elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec
from pydantic import Field, PrivateAttr, field_validator

from rollout.core import seeds
from rollout.core.errors import ConfigError
from rollout.strategies.points import before, path_generations, sound_leaves
from rollout.strategies.shipped import ShippedStrategy
from rollout.strategies.strategy import Expansion
from rollout.trajectories.rewards import RewardRule, reward_rule
from rollout.trajectories.trajectory import trajectory_of
from rollout.trajectories.tree import Leaf, Node, RolloutTree


class Mcts(ShippedStrategy):
    """`simulations` attempts, `parallel` at once, from states chosen by UCT."""

    grows_by: ClassVar[str] = "simulations"
    simulations: int = Field(16, ge=1)
    """Attempts in all."""
    parallel: int = Field(2, ge=1)
    """Attempts that are started at once."""
    width: int = Field(2, ge=1)
    """Generations that are tried at a state before the search goes on below it."""
    exploration: float = Field(1.0, ge=0)
    """How much is made of what was seldom tried."""
    value: str = "partial"
    """What an attempt is worth, by a rule of rewards: partial, success, scores, score:NAME, partial:NAME,
    module:function. An attempt that nothing is known of counts as a visit and has no part in a mean."""

    _rule: RewardRule = PrivateAttr()

    @field_validator("value")
    @classmethod
    def _is_a_rule(cls, value: str) -> str:
        try:
            reward_rule(value)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return value

    def model_post_init(self, context: Any) -> None:
        # Now: a function that was given as an object is only found while the run is opened.
        self._rule = reward_rule(self.value)

    @property
    def most(self) -> int:
        return self.simulations

    def after(self, tree: RolloutTree) -> Iterable[Expansion]:
        wanted = min(self.parallel, self.simulations - len(tree.leaves))
        if wanted <= 0:
            return []
        search = self._search(tree)
        return [search.simulate() for _ in range(wanted)]

    def _search(self, tree: RolloutTree) -> _Search:
        search = _Search(self, tree)
        for leaf in sound_leaves(tree):
            reward = leaf.reward
            if leaf.head is not None:
                reward = self._rule(trajectory_of(leaf.head, [node.body for node in leaf.node.path()[1:]]))
            search.take_in(leaf, reward)
        return search


class _Action(msgspec.Struct):
    """A generation, and what came of the attempts through it."""

    state: Node
    """Where it was generated."""
    then: Node | None = None
    """The state after it; None where every attempt ended with it."""
    visits: int = 0
    known: int = 0
    total: float = 0.0

    @property
    def value(self) -> float:
        return self.total / self.known if self.known else 0.0


class _Search:
    """The statistics of one tree, for one round."""

    def __init__(self, params: Mcts, tree: RolloutTree) -> None:
        self._params = params
        self._tree = tree
        self._actions: dict[Node, _Action] = {}
        self._from: dict[Node, list[_Action]] = {}
        self._pending: dict[Node, int] = {}
        self._chance = seeds.stream(tree.seed, "mcts", len(tree.leaves))

    def take_in(self, leaf: Leaf, value: float | None) -> None:
        """Count an attempt at every action on its way."""
        path = path_generations(leaf)
        for node, following in zip(path, [*path[1:], None], strict=True):
            action = self._actions.get(node)
            if action is None:
                action = self._actions[node] = _Action(before(node))
                self._from.setdefault(action.state, []).append(action)
            if following is not None:
                action.then = before(following)
            action.visits += 1
            if value is not None:
                action.known += 1
                action.total += value

    def simulate(self) -> Expansion:
        """Choose a state to start an attempt from, and count the attempt as lost until it is known."""
        state = self._tree.trunk
        closed = self._closed()
        way: list[_Action] = []
        # Where there is nothing left to expand at all, the attempt is a fresh chain.
        while self._width(state) >= self._params.width and state not in closed:
            action = self._best(state, closed)
            way.append(action)
            assert action.then is not None
            state = action.then
        for action in way:
            action.visits += 1
            action.known += 1
        self._pending[state] = self._pending.get(state, 0) + 1
        return Expansion(state, 1, "init" if state is self._tree.trunk else "uct")

    def _width(self, state: Node) -> int:
        return len(self._from.get(state, ())) + self._pending.get(state, 0)

    def _best(self, state: Node, closed: set[Node]) -> _Action:
        """The open action that UCT prefers; by chance where several are equal."""
        open_ = [action for action in self._from[state] if action.then is not None and action.then not in closed]
        visits = sum(action.visits for action in self._from[state]) + self._pending.get(state, 0)
        scores = [
            action.value + self._params.exploration * math.sqrt(math.log(visits) / action.visits) for action in open_
        ]
        best = max(scores)
        return self._chance.choice([action for action, score in zip(open_, scores, strict=True) if score == best])

    def _closed(self) -> set[Node]:
        """The states at which and below which nothing can be expanded."""
        closed: set[Node] = set()
        for state in sorted({*self._from, *self._pending}, key=lambda node: -node.depth):
            if self._width(state) >= self._params.width and all(
                action.then is None or action.then in closed for action in self._from.get(state, ())
            ):
                closed.add(state)
        return closed
