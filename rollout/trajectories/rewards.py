"""What a finished trajectory is worth: one number, read off its record by a rule that the caller names.

A reward is None where nothing is known: infrastructure broke, the run did not wait for it, nothing was checked, a
judge gave no verdict. None is not 0: such a trajectory is left out of every statistic of its group.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.trajectories.line import Head
from rollout.trajectories.stop import Status

UNREWARDED = frozenset({str(Status.FAILED), str(Status.CUT)})
"""Statuses that say nothing about the agent."""

RewardRule = Callable[[Head], float | None]
RULES = ("success", "scores", "partial", "score:NAME", "partial:NAME")


def reward_rule(name: str) -> RewardRule:
    """The rule of a name.

    `success`: 1 solved, 0 not. `scores`: the mean of the scores that decide `success`. `partial`: the same of their
    partial credit, and of the score itself where it has none. `score:NAME` and `partial:NAME`: of one score alone,
    whether it decides or not. Where a score that is asked for could not be given, there is no reward.
    """
    kind, _, score = name.partition(":")
    read: RewardRule
    if name == "success":
        read = _success
    elif name in ("scores", "partial"):
        read = _deciding(partial=name == "partial")
    elif kind in ("score", "partial") and score:
        read = _named(score, partial=kind == "partial")
    else:
        raise ConfigError(f"reward: there is no rule {name!r}; expected one of {', '.join(RULES)}")
    return lambda head: None if head.status in UNREWARDED else read(head)


def _success(head: Head) -> float | None:
    return float(head.success) if head.metadata.get("scored") else None


def _deciding(partial: bool) -> RewardRule:
    def read(head: Head) -> float | None:
        values = [_value(score, partial) for score in head.metadata.get("scores") or () if score.get("decides")]
        known = [value for value in values if value is not None]
        return math.fsum(known) / len(known) if known and len(known) == len(values) else None

    return read


def _named(name: str, partial: bool) -> RewardRule:
    def read(head: Head) -> float | None:
        found = [score for score in head.metadata.get("scores") or () if score["name"] == name]
        return _value(found[0], partial) if found else None

    return read


def _value(score: JSON, partial: bool) -> float | None:
    value = score.get("value")
    if partial and score.get("partial") is not None:
        value = score["partial"]
    return None if value is None else float(value)
