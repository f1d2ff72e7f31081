"""Advantages from rewards, for trainers: vectorised, over arrays, with adapters from trees and saved lines.

`rows` says which rows belong together; `groups`, `tree_values` and `steps` hold the estimators; `attempts` makes their
arrays from a `RolloutTree` or from saved lines, and `estimators` gives every step of every attempt its advantage by the
name of an estimator. docs/how-to/advantages.md has each formula and where it was published.
"""

from rollout.core.extras import missing_extra

try:
    import numpy as _numpy  # noqa: F401 - only to say what is missing
except ImportError as error:
    raise missing_extra("computing advantages", "train") from error

from rollout.trajectories.advantages.attempts import (
    Attempt,
    LineReader,
    attempts_of_lines,
    attempts_of_tree,
    forest_of,
    leaf_rows,
    step_rows,
)
from rollout.trajectories.advantages.estimators import ESTIMATORS, step_advantages
from rollout.trajectories.advantages.forest import Forest
from rollout.trajectories.advantages.groups import (
    GroupStatistics,
    constant_rows,
    group_statistics,
    grpo,
    inter_intra,
    rloo,
)
from rollout.trajectories.advantages.rows import Advantages, Rows
from rollout.trajectories.advantages.steps import discounted_returns, gigpo, turn_gae
from rollout.trajectories.advantages.tree_values import at2po, child_value, leaf_mean, tree_rl

__all__ = [
    "ESTIMATORS",
    "Advantages",
    "Attempt",
    "Forest",
    "GroupStatistics",
    "LineReader",
    "Rows",
    "at2po",
    "attempts_of_lines",
    "attempts_of_tree",
    "child_value",
    "constant_rows",
    "discounted_returns",
    "forest_of",
    "gigpo",
    "group_statistics",
    "grpo",
    "inter_intra",
    "leaf_mean",
    "leaf_rows",
    "rloo",
    "step_advantages",
    "step_rows",
    "tree_rl",
    "turn_gae",
]
