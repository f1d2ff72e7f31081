"""Rewards: one number for a finished trajectory, computed from its record by a rule.

The rule of a dataset (`reward`) is applied when an attempt ends, and its result is part of the record. Everything that
needs rewards later takes the recorded one (`recorded`), unless it is asked for another rule.

A reward is None where nothing is known: infrastructure broke, the run did not wait for it, nothing was checked, a
judge gave no verdict. None is not 0: such a trajectory is left out of every statistic of its group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.trajectories.line import UNREWARDED, Head

RewardRule = Callable[[Head], float | None]
RECORDED = "recorded"
RULES = ("success", "scores", "partial", "score:NAME", "partial:NAME")
"""The rules that a dataset may choose from."""


def reward_rule(name: str) -> RewardRule:
    """The rule of a name.

    `recorded`: the reward by the dataset's own rule, as the run recorded it. `success`: 1 solved, 0 not. `scores`: the
    mean of the scores that decide `success`. `partial`: the same of their partial credit, and of the score itself where
    it has none. `score:NAME` and `partial:NAME`: of one score alone, whether it decides or not. Where a score that is
    asked for could not be given, there is no reward.
    """
    kind, _, score = name.partition(":")
    read: RewardRule
    if name == RECORDED:
        read = recorded_reward
    elif name == "success":
        read = _success
    elif name in ("scores", "partial"):
        read = _deciding(partial=name == "partial")
    elif kind in ("score", "partial") and score:
        read = _named(score, partial=kind == "partial")
    else:
        raise ConfigError(f"reward: there is no rule {name!r}; expected one of {', '.join((RECORDED, *RULES))}")
    return lambda head: None if head.status in UNREWARDED else read(head)


def default_rule(custom: Collection[str]) -> RewardRule:
    """The rule of a dataset that names none: `success`, and the value of the score where a single custom scorer
    decides. `custom` are the names of the custom scorers."""

    def read(head: Head) -> float | None:
        if head.status in UNREWARDED:
            return None
        deciding = [score for score in head.metadata.get("scores") or () if score.get("decides")]
        if len(deciding) == 1 and deciding[0]["name"] in custom:
            return _value(deciding[0], partial=False)
        return _success(head)

    return read


def recorded_reward(head: Head) -> float | None:
    """The reward that a run recorded; in runs of earlier versions, which recorded none, by `success`."""
    return head.reward


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
    # A scorer may return anything that is a float; what cannot be compared is no reward.
    return float(value) if value is not None and math.isfinite(value) else None
