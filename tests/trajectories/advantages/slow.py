"""The same estimators once more, slowly: plain Python over dictionaries and recursion, written from the formulas."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

Reward = float | None


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def std(values: Sequence[float], ddof: int) -> float:
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - ddof))


def by_group(rewards: Sequence[Reward], groups: Sequence[Hashable]) -> dict[Hashable, list[float]]:
    found: dict[Hashable, list[float]] = defaultdict(list)
    for reward, group in zip(rewards, groups, strict=True):
        if reward is not None:
            found[group].append(reward)
    return found


def grpo(
    rewards: Sequence[Reward], groups: Sequence[Hashable], *, scale: bool = True, ddof: int = 1, eps: float = 1e-6
) -> list[Reward]:
    known = by_group(rewards, groups)

    def one(reward: Reward, group: Hashable) -> Reward:
        if reward is None:
            return None
        others = known[group]
        if len(set(others)) == 1:
            return 0.0
        centred = reward - mean(others)
        return centred / (std(others, ddof) + eps) if scale else centred

    return [one(*pair) for pair in zip(rewards, groups, strict=True)]


def rloo(rewards: Sequence[Reward], groups: Sequence[Hashable]) -> list[Reward]:
    values: list[Reward] = []
    for place, reward in enumerate(rewards):
        others = [
            other
            for number, other in enumerate(rewards)
            if number != place and other is not None and groups[number] == groups[place]
        ]
        values.append(None if reward is None else reward - mean(others) if others else 0.0)
    return values


class Tree:
    """Nodes by number with their children, and the leaves that end in each."""

    def __init__(self, parents: Sequence[int], leaves: Sequence[int], rewards: Sequence[Reward]) -> None:
        self.parents = parents
        self.children: dict[int, list[int]] = defaultdict(list)
        for node, parent in enumerate(parents):
            self.children[parent].append(node)
        self.ends: dict[int, list[float]] = defaultdict(list)
        for node, reward in zip(leaves, rewards, strict=True):
            if reward is not None:
                self.ends[node].append(reward)

    def below(self, node: int) -> list[float]:
        """The rewards of all leaves at a node and below it."""
        return self.ends[node] + [reward for child in self.children[node] for reward in self.below(child)]

    def root(self, node: int) -> int:
        return node if self.parents[node] < 0 else self.root(self.parents[node])

    def leaf_mean(self, node: int) -> Reward:
        below = self.below(node)
        return mean(below) if below else None

    def child_value(self, node: int, heat: Callable[[int], float]) -> Reward:
        items = [(reward, math.exp(heat(node))) for reward in self.ends[node]]
        for child in self.children[node]:
            value = self.child_value(child, heat)
            if value is not None:
                items.append((value, math.exp(heat(child))))
        if not items:
            return None
        return math.fsum(value * weight for value, weight in items) / math.fsum(weight for _, weight in items)


def against(tree: Tree, node: int, value: Callable[[int], Reward], kind: str) -> Reward:
    own = value(node)
    if own is None or tree.parents[node] < 0:
        return None
    parent, root = value(tree.parents[node]), value(tree.root(node))
    assert parent is not None
    assert root is not None
    return {"nothing": own, "parent": own - parent, "root": own - root, "both": 2 * own - parent - root}[kind]


def returns(rewards: Sequence[float], gamma: float) -> list[float]:
    return [
        math.fsum(gamma**later * reward for later, reward in enumerate(rewards[step:])) for step in range(len(rewards))
    ]


def gigpo(
    episodes: Sequence[tuple[str, Sequence[float] | None, Sequence[str | None]]],
    *,
    weight: float,
    gamma: float,
    scale: bool,
    across_steps: bool,
) -> list[list[Reward]]:
    """Each episode is a group, its step rewards (None: unknown) and its anchors."""
    weighted: list[tuple[Any, ...]] = []
    for group, rewards, anchors in episodes:
        times = len(anchors) if across_steps else 1
        weighted += [(None if rewards is None else math.fsum(rewards), group)] * times
    flat = grpo([total for total, _ in weighted], [group for _, group in weighted], scale=scale)
    step_returns: list[Reward] = []
    step_groups: list[Hashable] = []
    for number, (group, rewards, anchors) in enumerate(episodes):
        own = [None] * len(anchors) if rewards is None else returns(rewards, gamma)
        step_returns += own
        step_groups += [
            (group, anchor) if anchor is not None else (group, None, number, step)
            for step, anchor in enumerate(anchors)
        ]
    step_flat = grpo(step_returns, step_groups, scale=scale)
    values: list[list[Reward]] = []
    place = 0
    for number, (_, rewards, anchors) in enumerate(episodes):
        row: list[Reward] = []
        for _ in anchors:
            episode = flat[place] if across_steps else flat[number]
            step = step_flat[place]
            row.append(None if rewards is None or episode is None or step is None else episode + weight * step)
            place += 1
        values.append(row)
    return values


def gae(rewards: Sequence[float], values: Sequence[float], after: float, gamma: float, lam: float) -> list[float]:
    """By the definition: a sum over all later surprises."""
    following = [*values[1:], after]
    surprises = [
        reward + gamma * coming - value for reward, coming, value in zip(rewards, following, values, strict=True)
    ]
    return returns(surprises, gamma * lam)
