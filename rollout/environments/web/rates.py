"""The rates of web rollouts: from statuses, and for comparison the WebGym-compatible ones over steps.

Both are defined in docs/reference/web-metrics.md. `WebRates` counts what the engine recorded: what failed, what was
cut, what was scored. `calculate_rollout_metrics` has the WebGym-compatible rates: `success_rate`, `avg_steps`,
`avg_chars_per_response`, `goback_rate`, `crashed_rate` and `blocked_rate` of the last `chunk_size` trajectories, with
WebGym's crash rules, which guess from lengths. Where the two disagree, `RuleDifferences` says how many trajectories
each rule counts otherwise.

Each trajectory is read once and leaves a `StepCount`; whatever its length, that is all that is kept of it.
"""

from __future__ import annotations

import re
import warnings
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.messages import JSON
from rollout.environments.web.steps import INVALID_STEP, INVALID_URL, NONE, blocked_verdict, steps_of
from rollout.trajectories.line import Head
from rollout.trajectories.passk import pass_table
from rollout.trajectories.pt import read_pt
from rollout.trajectories.stop import Status
from rollout.trajectories.trajectory import Trajectory

LEAST_STEPS = 10
"""A shorter trajectory that neither answers nor is blocked counts as crashed."""
GROUPS = (("easy", 3), ("medium", 6))
"""Difficulty groups with the highest difficulty of each; above them is hard."""
_ITERATION = re.compile(r"iteration(\d+)$")


class StepCount(msgspec.Struct, frozen=True, gc=False):
    """What the rates need to know of one trajectory."""

    steps: int
    characters: int
    gobacks: int
    invalid: int
    is_crashed: bool
    is_blocked: bool
    is_success: bool


# ---- WebGym-compatible -----------------------------------------------------------------------------------------------


def is_crashed(keys: Sequence[str], is_blocked: bool) -> bool:
    """WebGym's four rules, over the keys of a trajectory's actions and whether its last reward says blocked."""
    if not keys or keys[0] == INVALID_URL or NONE in keys:
        return True
    return len(keys) < LEAST_STEPS and keys[-1] != "answer" and not is_blocked


def count_steps(steps: Sequence[Any]) -> StepCount:
    """Count one trajectory: steps as we save them, or WebGym's own objects with the same names.

    A missing action counts as `none`, a missing response as empty, a missing reward as 0 and not blocked.
    """
    keys = [str(_in(_in(_in(step, "action"), "action"), "key", NONE)) for step in steps]
    last = _in(steps[-1], "reward") if steps else None
    blocked = bool(_in(last, "is_blocked", False))
    return StepCount(
        len(keys),
        sum(len(_in(_in(step, "response"), "raw_response", "")) for step in steps),
        keys.count("goback"),
        keys.count(INVALID_STEP),
        is_crashed(keys, blocked),
        blocked,
        _in(last, "reward", 0) == 1,
    )


class WebGymSums(msgspec.Struct):
    """What the WebGym-compatible rates are quotients of. Crashed trajectories are only `seen`; of the `valid` ones,
    those that are not blocked are `open`."""

    total: int = 0
    """All that ever came, also what was taken out again."""
    seen: int = 0
    valid: int = 0
    open: int = 0
    solved: int = 0
    steps: int = 0
    characters: int = 0
    gobacks: int = 0

    def take(self, count: StepCount, weight: int = 1) -> None:
        """Put a trajectory in, or with the weight -1 out again."""
        self.total += weight > 0
        self.seen += weight
        if count.is_crashed:
            return
        self.valid += weight
        if count.is_blocked:
            return
        self.open += weight
        self.solved += weight * count.is_success
        self.steps += weight * count.steps
        self.characters += weight * count.characters
        self.gobacks += weight * count.gobacks

    def rates(self) -> dict[str, float]:
        """The rates; 0 where nothing is behind one."""
        return {
            "success_rate": _ratio(self.solved, self.open),
            "avg_steps": _ratio(self.steps, self.open),
            "avg_chars_per_response": _ratio(self.characters, self.steps),
            "goback_rate": _ratio(self.gobacks, self.steps),
            "crashed_rate": _ratio(self.seen - self.valid, self.seen),
            "blocked_rate": _ratio(self.valid - self.open, self.valid),
            "total_trajectories": self.total,
        }


def webgym_rates(counts: Iterable[StepCount], chunk_size: int | None = None) -> dict[str, float]:
    """WebGym's six rates over the last `chunk_size` of the trajectories (None or 0: all), in one pass."""
    if chunk_size is not None and chunk_size < 0:
        raise ConfigError(f"chunk_size: expected a number of trajectories, or None for all, got {chunk_size}")
    window: deque[StepCount] = deque()
    sums = WebGymSums()
    for count in counts:
        sums.take(count)
        if chunk_size:
            window.append(count)
            if len(window) > chunk_size:
                sums.take(window.popleft(), -1)
    return sums.rates()


def calculate_rollout_metrics(
    save_path: str | Path,
    split: str,
    chunk_size: int | None = None,
    is_train: bool = True,
    existing_trajs: Iterable[Sequence[Any] | None] | None = None,
) -> dict[str, float] | None:
    """The WebGym-compatible rates of all saved iterations of a split, or of `existing_trajs`.

    Iterations are read in their order from `<save_path>/<split>_trajectories`, a trajectory at a time. None, with a
    warning, where there is no such folder. `is_train` changes nothing, as in WebGym.
    """
    if existing_trajs is None:
        folder = Path(save_path) / f"{split}_trajectories"
        if not folder.is_dir():
            warnings.warn(f"{folder}: there is no such folder, so there are no metrics", stacklevel=2)
            return None
        existing_trajs = chain.from_iterable(map(read_pt, saved_iterations(folder, split).values()))
    return webgym_rates((count_steps(steps) for steps in existing_trajs if steps is not None), chunk_size)


def saved_iterations(folder: Path, split: str) -> dict[int, Path]:
    """The `.pt` files of a split by their iterations, in order. Files of single ranks and checkpoints are left out."""
    found = {
        int(match[1]): path
        for path in folder.glob(f"{split}_trajectories.pt.iteration*")
        if (match := _ITERATION.search(path.name))
    }
    return dict(sorted(found.items()))


def _in(value: Any, name: str, default: Any = None) -> Any:
    found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return default if found is None else found


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0


# ---- from statuses ---------------------------------------------------------------------------------------------------


class Rates(msgspec.Struct):
    """What came of some trajectories, by what the engine recorded. A rate is None where nothing is behind it."""

    trajectories: int = 0
    completed: int = 0
    truncated: int = 0
    cut: int = 0
    failed: int = 0
    filtered: int = 0
    answered: int = 0
    """The agent gave an answer."""
    scored: int = 0
    """Not failed, and something was checked."""
    solved: int = 0
    checked_for_blocking: int = 0
    blocked: int = 0
    steps: int = 0
    """Answers of the agent in all that did not fail."""
    characters: int = 0
    gobacks: int = 0
    invalid_steps: int = 0
    success_rate: float | None = None
    """solved / scored"""
    crashed_rate: float | None = None
    """failed / trajectories"""
    blocked_rate: float | None = None
    """blocked / checked_for_blocking"""
    cut_rate: float | None = None
    truncated_rate: float | None = None
    answered_rate: float | None = None
    avg_steps: float | None = None
    """steps / trajectories that did not fail"""
    avg_chars_per_response: float | None = None
    goback_rate: float | None = None
    """gobacks / steps"""
    invalid_step_rate: float | None = None

    def take(self, head: Head, count: StepCount) -> None:
        """Count one trajectory."""
        status = head.status
        self.trajectories += 1
        setattr(self, status, getattr(self, status) + 1)
        if status == Status.FAILED:
            return
        self.answered += head.stop_reason == "answered"
        self.scored += head.scored
        self.solved += head.scored and head.success
        blocked = blocked_verdict(head)
        self.checked_for_blocking += blocked is not None
        self.blocked += blocked is True
        # The step that stands for the end of a trajectory that was cut is none of the agent's.
        self.steps += count.steps - (status == Status.CUT)
        self.characters += count.characters
        self.gobacks += count.gobacks
        self.invalid_steps += count.invalid

    def close(self) -> None:
        """Work out the rates."""
        alive = self.trajectories - self.failed
        self.success_rate = _rate(self.solved, self.scored)
        self.crashed_rate = _rate(self.failed, self.trajectories)
        self.blocked_rate = _rate(self.blocked, self.checked_for_blocking)
        self.cut_rate = _rate(self.cut, self.trajectories)
        self.truncated_rate = _rate(self.truncated, self.trajectories)
        self.answered_rate = _rate(self.answered, alive)
        self.avg_steps = _rate(self.steps, alive)
        self.avg_chars_per_response = _rate(self.characters, self.steps)
        self.goback_rate = _rate(self.gobacks, self.steps)
        self.invalid_step_rate = _rate(self.invalid_steps, self.steps)


class RuleDifferences(msgspec.Struct):
    """How many trajectories WebGym's rules count otherwise than their statuses say."""

    crashed_without_failure: int = 0
    """Crashed for WebGym (short and without an answer, or an empty reply), though nothing failed."""
    failed_without_crash: int = 0
    """Failed, but long enough to count as sound."""
    unscored_as_unsolved: int = 0
    """Attempts without a verdict; they count as not solved."""
    blocked_left_out: int = 0
    """The site kept the agent out; they do not count in WebGym's success."""

    def take(self, head: Head, count: StepCount) -> None:
        """Count one trajectory."""
        has_failed = head.status == Status.FAILED
        self.crashed_without_failure += count.is_crashed and not has_failed
        if count.is_crashed:
            return
        self.failed_without_crash += has_failed
        self.blocked_left_out += count.is_blocked
        self.unscored_as_unsolved += not (has_failed or count.is_blocked or head.scored)


class WebRates:
    """Both kinds of rates of one dataset, fed a trajectory at a time: the section `web` of metrics.json."""

    name = "web"

    def __init__(self, *, ends_with_answer: bool = True) -> None:
        """`ends_with_answer`: whether episodes end with an `answer`. Without one there are no WebGym-compatible rates:
        WebGym takes a short trajectory without an answer for a crash."""
        self._webgym = WebGymSums() if ends_with_answer else None
        self._differences = RuleDifferences()
        self._all = Rates()
        self._groups: dict[str, Rates] = {}
        self._attempts: dict[str, tuple[int, int]] = {}

    def take(self, trajectory: Trajectory, info: JSON | None) -> None:
        """Count a trajectory: see `steps_of`."""
        self.take_steps(trajectory, steps_of(trajectory, info))

    def take_steps(self, head: Head, steps: Sequence[JSON]) -> None:
        """Count a trajectory whose steps are made already."""
        count = count_steps(steps)
        if self._webgym is not None:
            self._webgym.take(count)
            self._differences.take(head, count)
        group = difficulty_group(steps[0]["observation"]["task"]["difficulty"] if steps else None)
        for rates in (self._all, self._groups.setdefault(group, Rates())):
            rates.take(head, count)
        scored = head.status != Status.FAILED and head.scored
        tried, solved = self._attempts.get(head.task_id, (0, 0))
        self._attempts[head.task_id] = (tried + scored, solved + (scored and head.success))

    def result(self) -> JSON:
        """What was found."""
        for rates in (self._all, *self._groups.values()):
            rates.close()
        compatible: JSON = {}
        if self._webgym is not None:
            sums, differences = self._webgym.rates(), msgspec.to_builtins(self._differences)
            # `seed` and `seed_differences` are the names of earlier versions.
            compatible = {
                "webgym": sums,
                "webgym_differences": differences,
                "seed": sums,
                "seed_differences": differences,
            }
        return {
            "by_status": msgspec.to_builtins(self._all),
            "by_difficulty": {
                name: msgspec.to_builtins(self._groups[name])
                for name in ("easy", "medium", "hard", "unknown")
                if name in self._groups
            },
            "pass_k": msgspec.to_builtins(pass_table(self._attempts.values())),
            **compatible,
        }


def difficulty_group(difficulty: Any) -> str:
    """The group of a task's difficulty: easy to 3, medium to 6, hard above; `unknown` where it has none."""
    if not isinstance(difficulty, int | float) or isinstance(difficulty, bool):
        return "unknown"
    return next((name for name, highest in GROUPS if difficulty <= highest), "hard")


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None
