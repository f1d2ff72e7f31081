"""Rewards: one number for a finished trajectory, computed from its record by a rule.

The rule of a dataset (`reward`) is applied when an attempt ends, and its result is part of the record. Everything that
needs rewards later takes the recorded one (`recorded`), unless it is asked for another rule.

A reward is None where nothing is known: infrastructure broke, the run did not wait for it, nothing was checked, a
judge gave no verdict. None is not 0: such a trajectory is left out of every statistic of its group.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import math
from collections.abc import Callable, Collection
from typing import Any

from rollout.core.errors import ConfigError, describe_error
from rollout.core.plugins import import_object, is_reference
from rollout.core.spelling import suggest
from rollout.trajectories.line import UNREWARDED, Head
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory

log = logging.getLogger(__name__)
RewardRule = Callable[[Trajectory], float | None]
RECORDED = "recorded"
RULES = ("success", "scores", "partial", "score:NAME", "partial:NAME", "module:function")
"""The rules that a dataset may choose from."""


def reward_rule(name: str) -> RewardRule:
    """The rule of a name.

    `recorded`: the reward by the dataset's own rule, as the run recorded it. `success`: 1 solved, 0 not. `scores`: the
    mean of the scores that decide `success`. `partial`: the same of their partial credit, and of the score itself where
    it has none. `score:NAME` and `partial:NAME`: of one score alone, whether it decides or not. Where a score that is
    asked for could not be given, there is no reward. `module:function`: what a function of yours returns for the
    trajectory: a number, a bool, or None where it cannot tell.
    """
    read: RewardRule
    if name == RECORDED:
        read = recorded_reward
    elif name == "success":
        read = _success
    elif name in ("scores", "partial"):
        read = _deciding(partial=name == "partial")
    elif (score := score_of(name)) is not None:
        read = _named(score, partial=name.startswith("partial"))
    elif is_reference(name):
        read = _function(name)
    else:
        raise _unknown(repr(name))
    return lambda trajectory: None if trajectory.status in UNREWARDED else read(trajectory)


def score_of(rule: str) -> str | None:
    """The score that the rules `score:NAME` and `partial:NAME` are about; None for other rules."""
    kind, _, name = rule.partition(":")
    return name if kind in ("score", "partial") and name else None


def default_rule(custom: Collection[str]) -> RewardRule:
    """The rule of a dataset that names none: `success`, and the value of the score where a single custom scorer
    decides. `custom` are the names of the custom scorers."""

    def read(head: Head) -> float | None:
        if head.status in UNREWARDED:
            return None
        deciding = [score for score in head.scores if score.decides] if custom else []
        if len(deciding) == 1 and deciding[0].name in custom:
            return _value(deciding[0], partial=False)
        return _success(head)

    return read


def recorded_reward(head: Head) -> float | None:
    """The reward that a run recorded; in runs of earlier versions, which recorded none, by `success`."""
    return head.reward


def _success(head: Head) -> float | None:
    return float(head.success) if head.scored else None


def _deciding(partial: bool) -> Callable[[Head], float | None]:
    def read(head: Head) -> float | None:
        values = [_value(score, partial) for score in head.scores if score.decides]
        known = [value for value in values if value is not None]
        # The mean of values that a foreign line holds may be beyond what a float can be.
        with contextlib.suppress(OverflowError):
            return math.fsum(known) / len(known) if known and len(known) == len(values) else None
        return None

    return read


def _named(name: str, partial: bool) -> Callable[[Head], float | None]:
    """The value of one score. The first attempt that has scores, but not this one, is logged."""
    is_reported = False

    def read(head: Head) -> float | None:
        nonlocal is_reported
        score = head.score(name)
        if score is None and head.scores and not is_reported:
            hint = suggest(name, [score.name for score in head.scores], "its scores")
            log.warning("reward: %s has no score %r, so no reward; %s", head.id, name, hint)
            is_reported = True
        return None if score is None else _value(score, partial)

    return read


def _value(score: Score, partial: bool) -> float | None:
    value = score.partial if partial and score.partial is not None else score.value
    # A scorer may return anything that is a float; what cannot be compared is no reward.
    return value if value is not None and math.isfinite(value) else None


def _function(name: str) -> RewardRule:
    """The rule that a function of the user's gives. The work is done and paid for when it is asked, so whatever goes
    wrong in it leaves an attempt without a reward; the first time is logged."""
    try:
        function = import_object(name)
    except ConfigError as error:
        raise _unknown(f"{name!r}: {error}") from error
    if not callable(function):
        raise ConfigError(f"reward: {name} is not a function of a trajectory")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        raise ConfigError(f"reward: {name} is async; a reward is computed from the trajectory, without waiting")
    is_reported = False

    def read(trajectory: Trajectory) -> float | None:
        nonlocal is_reported
        try:
            return _checked(function(trajectory))
        except Exception as error:  # noqa: BLE001 - a function of the user's may raise anything
            if not is_reported:
                log.warning("reward: %s failed for %s: %s", name, trajectory.id, describe_error(error))
                is_reported = True
            return None

    return read


def _unknown(what: str) -> ConfigError:
    return ConfigError(f"reward: there is no rule {what}; expected one of {', '.join((RECORDED, *RULES))}")


def _checked(found: Any) -> float | None:
    if found is None:
        return None
    reward = float(found)
    if not math.isfinite(reward):
        raise ValueError(f"it returned {found!r}, which is not a finite number")
    return reward
