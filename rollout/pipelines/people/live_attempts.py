"""The present state of attempts that people requested: ended, running, or not begun."""

from __future__ import annotations

from typing import Literal

import msgspec

from rollout.pipelines.people.growth import Growth
from rollout.store.reader import JournalReader
from rollout.trajectories.line import Head
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import NodeBody, NodeKey

AttemptState = Literal["waiting", "going on", "ended"]


class AskedAttempt(msgspec.Struct, frozen=True):
    """One attempt of a wish."""

    id: str
    state: AttemptState
    messages: int
    head: Head | None = None
    """What is on record of it when it has ended."""


def asked_attempts(journal: JournalReader, growth: Growth) -> list[AskedAttempt]:
    """The attempts of a wish, in order."""
    tree = journal.tree_of(growth.dataset, growth.task_id)
    begun = {} if tree is None else journal.begun_attempts(tree)
    return [_attempt(journal, growth.dataset, tree or 0, name, begun.get(name)) for name in growth.ids]


def _attempt(journal: JournalReader, dataset: str, tree: int, name: str, episode: int | None) -> AskedAttempt:
    if episode is None:
        return AskedAttempt(name, "waiting", 0)
    found = journal.head(dataset, name)
    said = sum(body.said is not None for body in journal.path_nodes(episode)) + len(journal.opening(tree))
    return AskedAttempt(name, "going on" if found is None else "ended", said, None if found is None else found[0])


def live_trajectory(journal: JournalReader, growth: Growth) -> tuple[Trajectory, list[tuple[NodeKey, NodeBody]]]:
    """The first attempt of a wish, as far as it is, and the nodes behind its opening; without any before it begins."""
    (name, *_) = growth.ids
    tree = journal.tree_of(growth.dataset, growth.task_id)
    episode = None if tree is None else journal.begun_attempts(tree).get(name)
    ended = journal.trajectory(growth.dataset, name)
    if tree is None:
        return Trajectory(name, growth.task_id, False, {}), []
    path = [] if episode is None else journal.keyed_path(episode)
    if ended is not None:
        return ended, path
    opening = [NodeBody("opening", message=message) for message in journal.opening(tree)]
    nodes = [*opening, *(body for _, body in path)]
    return Trajectory(name, growth.task_id, False, {"dataset": growth.dataset}, nodes=nodes), path
