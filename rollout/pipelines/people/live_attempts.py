"""The present state of attempts that people requested: ended, running, or not begun."""

from __future__ import annotations

from typing import Literal

import msgspec

from rollout.pipelines.people.growth import Growth
from rollout.store.reading.reader import JournalReader
from rollout.trajectories.line import Head
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import NodeBody, NodeKey

AttemptState = Literal["waiting", "going on", "ended"]


class RequestedAttempt(msgspec.Struct, frozen=True):
    """One attempt of a growth."""

    id: str
    state: AttemptState
    messages: int
    head: Head | None = None
    """Its record, if it has ended."""


def requested_attempts(journal: JournalReader, growth: Growth) -> list[RequestedAttempt]:
    """The attempts of a growth, in order."""
    tree = journal.tree_of(growth.dataset, growth.task_id)
    if tree is None:
        return [RequestedAttempt(name, "waiting", 0) for name in growth.ids]
    begun, opening = journal.begun_attempts(tree), len(journal.opening(tree))
    return [_attempt(journal, growth.dataset, name, begun.get(name), opening) for name in growth.ids]


def _attempt(journal: JournalReader, dataset: str, name: str, episode: int | None, opening: int) -> RequestedAttempt:
    if episode is None:
        return RequestedAttempt(name, "waiting", 0)
    found = journal.head(dataset, name)
    messages = opening + journal.count_messages(episode)
    if found is None:
        return RequestedAttempt(name, "going on", messages)
    return RequestedAttempt(name, "ended", messages, found[0])


def live_trajectory(journal: JournalReader, growth: Growth) -> tuple[Trajectory, list[tuple[NodeKey, NodeBody]]]:
    """The first attempt of a growth so far, and the nodes behind its opening; none before it begins."""
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
