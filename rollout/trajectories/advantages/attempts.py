"""Attempts as estimators need them: reward, steps, where each step was made and what state it started from.

They are read off a `RolloutTree` while it is in memory, or off saved lines afterwards; both give the same. A step that
several attempts share has the same key in each of them, and is one node of the forest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from rollout.core.messages import Message
from rollout.trajectories.advantages.forest import Forest
from rollout.trajectories.advantages.rows import Floats, Ints, Rows
from rollout.trajectories.line import UNREWARDED
from rollout.trajectories.rewards import RECORDED, RewardRule, reward_rule
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import NodeBody, RolloutTree

Anchor = Literal["state", "observation", "both"]
"""What makes two steps start from the same place: the world's state (`record_states`), what was last shown to the
agent, or both together."""


class Step(msgspec.Struct, frozen=True):
    """One answer of the agent."""

    key: tuple[int, int]
    """Who made it, and its place there: the same in every attempt that shares it."""
    state: str | None
    """The key of the world's state that it started from; None where it was not recorded."""
    observation: str
    """A hash of what the agent was shown since its last answer."""
    surprisal: float | None = None
    """The mean of −log p over its sampled tokens; None without logprobs."""

    def anchor(self, kind: Anchor) -> str | None:
        """What it started from."""
        if kind == "observation":
            return self.observation
        return self.state if kind == "state" or self.state is None else f"{self.state}:{self.observation}"


class Attempt(msgspec.Struct, frozen=True):
    """One attempt at a task."""

    group: str
    number: int
    chain: int
    """The number of the attempt that it grew from in the end: its own where it started again."""
    reward: float | None
    steps: tuple[Step, ...]


def attempts_of_tree(tree: RolloutTree, rewards: Mapping[int, float | None] | None = None) -> list[Attempt]:
    """The attempts of a tree. `rewards`, by attempt number, are taken instead of the leaves' own;
    a leaf that failed or was cut has none in any case."""
    chains = tree.chains()
    attempts = []
    for leaf in tree.leaves:
        path = leaf.node.path()
        reward = leaf.reward if rewards is None else rewards.get(leaf.number)
        attempts.append(
            Attempt(
                tree.task_id,
                leaf.number,
                chains[leaf.number],
                None if leaf.status in UNREWARDED else reward,
                _steps([(node.body, (node.episode, node.place)) for node in path]),
            )
        )
    return attempts


def _steps(path: Iterable[tuple[NodeBody, tuple[int, int]]]) -> tuple[Step, ...]:
    steps, state, shown = [], None, _Shown()
    for body, key in path:
        state = body.state_after(state)
        if body.kind == "generation":
            surprisal = body.generation.surprisal if body.generation is not None else None
            steps.append(Step(key, state, shown.take(), surprisal))
        elif body.said is not None:
            shown.add(body.said)
    return tuple(steps)


def attempts_of_lines(lines: Iterable[Trajectory], reward: str | RewardRule = RECORDED) -> list[Attempt]:
    """The attempts that lines of one run hold, in their order. Lines have no logprobs, so steps have no surprisal."""
    reader = LineReader(reward)
    return [reader.attempt_of(line) for line in lines]


class LineReader:
    """Reads the lines of one run and one dataset as attempts. All lines of a group must go through the same reader."""

    def __init__(self, reward: str | RewardRule = RECORDED) -> None:
        self._rule = reward_rule(reward) if isinstance(reward, str) else reward
        self._owners: dict[tuple[str, int], str] = {}
        self._counts: dict[str, int] = {}
        self._read = 0

    def attempt_of(self, line: Trajectory) -> Attempt:
        """The attempt that a line holds. Raises BadLine where its messages cannot be read, and ValueError where it
        contradicts an earlier line or its own metadata."""
        messages = line.messages
        group, branch = line.group, line.branch
        number = self._counts.get(group, 0) if branch is None else branch.number
        self._counts[group] = self._counts.get(group, 0) + 1
        owner = self._owners.setdefault((group, number), line.id)
        self._read += 1
        if len(self._owners) < self._read:
            raise ValueError(
                f"{line.id}: task {group} has its attempt {number} twice (the other is {owner}); expected lines of one "
                "run and one dataset"
            )
        lineage = () if branch is None else branch.lineage
        steps = _line_steps(line, messages, number, lineage)
        return Attempt(group, number, lineage[0][0] if lineage else number, self._rule(line), steps)


def _line_steps(
    line: Trajectory, messages: Sequence[Message], number: int, lineage: Sequence[tuple[int, int]]
) -> tuple[Step, ...]:
    """The steps of a line. Each is known by the attempt that made it and its place on the path."""
    answers = sum(message.role == "assistant" for message in messages)
    # What the assistant says in a task's opening was not said by the trained model.
    given = 0 if line.generations is None else answers - line.generations
    shared = sum(count for _, count in lineage)
    if shared > answers - given:
        raise ValueError(f"{line.id}: shares {shared} steps but has {answers - given}; its metadata is not its own")
    owners = [owner for owner, count in lineage for _ in range(count)]
    states = line.states
    steps: list[Step] = []
    shown = _Shown()
    for message in messages:
        if message.role != "assistant" or given > 0:
            given -= message.role == "assistant"
            shown.add(message)
            continue
        place = len(steps)
        state = states[place] if place < len(states) else None
        steps.append(Step((owners[place] if place < len(owners) else number, place), state, shown.take()))
    return tuple(steps)


class _Shown:
    """What the agent is shown between two answers, by its words: ids of calls and pixels differ where nothing else
    does."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, message: Message) -> None:
        self._hash.update(msgspec.msgpack.encode((message.role, message.content)))

    def take(self) -> str:
        key = self._hash.hexdigest()
        self._hash = hashlib.blake2b(digest_size=16)
        return key


# ---- the arrays ------------------------------------------------------------------------------------------------------


def leaf_rows(attempts: Sequence[Attempt]) -> tuple[Floats, Rows]:
    """Rewards and rows: each attempt a row, the attempts at a task a group."""
    rewards = np.array([attempt.reward for attempt in attempts], dtype=np.float64)
    return rewards, Rows(np.array([attempt.group for attempt in attempts], dtype=np.str_))


def step_rows(attempts: Sequence[Attempt], anchor: Anchor = "both") -> tuple[Floats, Rows, list[str | None]]:
    """Rewards, rows and anchors of all steps, attempt by attempt. The reward of an attempt stands on its last step."""
    rewards, groups, owners, anchors = [], [], [], []
    for place, attempt in enumerate(attempts):
        count = len(attempt.steps)
        rewards += [0.0] * (count - 1) + [np.nan if attempt.reward is None else attempt.reward] * (count > 0)
        groups += [attempt.group] * count
        owners += [place] * count
        anchors += [step.anchor(anchor) for step in attempt.steps]
    rows = Rows(np.array(groups, dtype=np.str_), trajectories=np.array(owners, dtype=np.intp))
    return np.array(rewards, dtype=np.float64), rows, anchors


def forest_of(attempts: Sequence[Attempt]) -> tuple[Forest, Floats, list[Ints]]:
    """The attempts as a forest, a tree for each task; the surprisal of each node (nan where unknown); and for each
    attempt the nodes of its steps."""
    parents: list[int] = []
    surprisals: list[float] = []
    nodes: dict[tuple[str, tuple[int, int] | None], int] = {}
    leaves: list[int] = []
    paths: list[Ints] = []

    def place_of(group: str, key: tuple[int, int] | None, parent: int, surprisal: float | None) -> int:
        found = nodes.get((group, key))
        if found is None:
            found = nodes[group, key] = len(parents)
            parents.append(parent)
            surprisals.append(np.nan if surprisal is None else surprisal)
        elif parents[found] != parent:
            raise ValueError(
                f"task {group}: step {key} follows two different steps; these attempts are not of one tree"
            )
        return found

    for attempt in attempts:
        node = place_of(attempt.group, None, -1, None)
        path = []
        for step in attempt.steps:
            node = place_of(attempt.group, step.key, node, step.surprisal)
            path.append(node)
        leaves.append(node)
        paths.append(np.array(path, dtype=np.intp))
    return Forest(parents, leaves), np.array(surprisals, dtype=np.float64), paths
