"""An advantage for every step of every attempt, by the name of an estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from rollout.core.errors import ConfigError
from rollout.trajectories.advantages import groups, steps, tree_values
from rollout.trajectories.advantages.attempts import Anchor, Attempt, forest_of, leaf_rows, step_rows
from rollout.trajectories.advantages.rows import Advantages, Floats

Estimate = Callable[..., list[Floats]]


def step_advantages(attempts: Sequence[Attempt], estimator: str = "grpo", **params: Any) -> list[Floats]:
    """For each attempt one number for each of its steps; nan for all of them where it has no reward.

    `params` are the estimator's own. The attempts at a task must be given together: they are its group.
    """
    estimate = ESTIMATORS.get(estimator)
    if estimate is None:
        raise ConfigError(f"advantage: there is no estimator {estimator!r}; expected one of {', '.join(ESTIMATORS)}")
    try:
        return estimate(attempts, **_checked(estimator, params))
    except TypeError as error:
        raise ConfigError(f"{estimator}: {error}") from error


def _checked(estimator: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters, where each is of the kind that its formula takes: a choice that does not exist would pass for
    another one, and the advantages would be of a formula that was not asked for."""
    takes = {**get_type_hints(FORMULAS[estimator]), **get_type_hints(ESTIMATORS[estimator])}
    checked = {}
    for name, value in params.items():
        kind = takes.get(name, Any)
        try:
            checked[name] = msgspec.convert(value.item() if isinstance(value, np.generic) else value, kind)
        except msgspec.ValidationError as error:
            choices = f"expected one of {', '.join(map(str, get_args(kind)))}, got {value!r}"
            problem = choices if get_origin(kind) is Literal else f"{error}: {value!r}"
            raise ConfigError(f"{estimator}: {name}: {problem}") from error
    return checked


def _grpo(attempts: Sequence[Attempt], **params: Any) -> list[Floats]:
    return _along(attempts, groups.grpo(*leaf_rows(attempts), **params))


def _rloo(attempts: Sequence[Attempt], **params: Any) -> list[Floats]:
    return _along(attempts, groups.rloo(*leaf_rows(attempts), **params))


def _inter_intra(attempts: Sequence[Attempt], **params: Any) -> list[Floats]:
    chains = np.array([attempt.chain for attempt in attempts], dtype=np.intp)
    return _along(attempts, groups.inter_intra(*leaf_rows(attempts), chains, **params))


def _tree_rl(attempts: Sequence[Attempt], **params: Any) -> list[Floats]:
    forest, _, paths = forest_of(attempts)
    rewards, _ = leaf_rows(attempts)
    return _at_nodes(rewards, paths, tree_values.tree_rl(forest, rewards, **params))


def _at2po(attempts: Sequence[Attempt], **params: Any) -> list[Floats]:
    forest, surprisals, paths = forest_of(attempts)
    rewards, _ = leaf_rows(attempts)
    return _at_nodes(rewards, paths, tree_values.at2po(forest, rewards, surprisals, **params))


def _gigpo(attempts: Sequence[Attempt], *, anchor: Anchor = "both", **params: Any) -> list[Floats]:
    rewards, rows, anchors = step_rows(attempts, anchor)
    values = steps.gigpo(rewards, rows, anchors, **params).values
    cuts = np.cumsum([len(attempt.steps) for attempt in attempts])[:-1]
    return np.split(values, cuts) if attempts else []


def _along(attempts: Sequence[Attempt], advantages: Advantages) -> list[Floats]:
    return [np.full(len(attempt.steps), value) for attempt, value in zip(attempts, advantages.values, strict=True)]


def _at_nodes(rewards: Floats, paths: Sequence[Any], advantages: Advantages) -> list[Floats]:
    """A node's advantage for each step. An attempt without a reward has none, also where others made its steps."""
    return [
        np.full(len(path), np.nan) if np.isnan(reward) else advantages.values[path]
        for reward, path in zip(rewards, paths, strict=True)
    ]


ESTIMATORS: dict[str, Estimate] = {
    "grpo": _grpo,
    "rloo": _rloo,
    "inter_intra": _inter_intra,
    "tree_rl": _tree_rl,
    "at2po": _at2po,
    "gigpo": _gigpo,
}
FORMULAS: dict[str, Callable[..., Advantages]] = {
    "grpo": groups.grpo,
    "rloo": groups.rloo,
    "inter_intra": groups.inter_intra,
    "tree_rl": tree_values.tree_rl,
    "at2po": tree_values.at2po,
    "gigpo": steps.gigpo,
}
"""What the parameters of each go to."""
