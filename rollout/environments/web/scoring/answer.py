"""Scoring by the agent's answer: `task_info.answer`, or `definite_answer` where no judge reads it.

`answer` is `{"equals": "…" | ["…", …], "match": "normalized"}`, and any of several texts will do. `exact` takes the
text as written, `normalized` (the default) and `contains` see through its form, `number` wants this number and no
other; see `rollout.environments.web.scoring.texts`. Without `answer`, a `definite_answer` must be contained, unless a
judge is set: then the rubric's call asks whether the answer matches.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

import msgspec

from rollout.core.errors import ConfigError
from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.web.scoring.steps import given_answer
from rollout.environments.web.scoring.texts import is_contained, is_number, is_same
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory

Match = Literal["exact", "normalized", "contains", "number"]
NO_ANSWER = "the agent gave no answer"
MAX_SHOWN = 300
MAX_ANSWER = 20_000
"""Characters of an answer that are looked at. What is longer is no answer."""


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `task_info.answer` asks for."""

    equals: str | int | float | list[str | int | float]
    match: Match = "normalized"

    @property
    def texts(self) -> list[str]:
        """All that will do."""
        return [str(each) for each in (self.equals if isinstance(self.equals, list) else [self.equals])]


class AnswerScorer:
    """1 where the agent's answer is the wanted one."""

    name = "answer"
    needs_world = False

    def __init__(self, *, has_judge: bool = False) -> None:
        self._has_judge = has_judge

    def applies(self, task: Task) -> bool:
        return "answer" in task.info or (bool(definite_answer(task)) and not self._has_judge)

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        if not self.applies(task):
            return None
        wanted = wanted_answer(task)
        fits = _matcher(task, wanted)
        answer = given_answer(trajectory)
        evidence: dict[str, Any] = {"wanted": wanted.texts, "match": wanted.match}
        if answer is None:
            return Score(self.name, 0.0, NO_ANSWER, evidence=evidence)
        evidence["answer"] = _short(answer)
        if len(answer) > MAX_ANSWER:
            return Score(self.name, 0.0, f"the answer has more than {MAX_ANSWER} characters", evidence=evidence)
        if any(fits(text, answer) for text in wanted.texts):
            return Score(self.name, 1.0, "the answer is the wanted one", evidence=evidence)
        texts = " or ".join(repr(_short(text)) for text in wanted.texts)
        reason = f"the answer {_short(answer)!r} is not the wanted {texts} ({wanted.match})"
        return Score(self.name, 0.0, reason, evidence=evidence)


def definite_answer(task: Task) -> str:
    """The reference answer of a task in WebGym's form; empty where it has none."""
    return str(task.info.get("definite_answer") or "").strip()


def reference_answer(task: Task) -> str:
    """The answer that a judge compares with: `definite_answer`, or `reference_answer`, which is too free in its words
    to be looked for without a judge. Empty where the task has neither."""
    return definite_answer(task) or str(task.info.get("reference_answer") or "").strip()


def wanted_answer(task: Task) -> Wanted:
    """What a task wants answered. Raises ConfigError with the task and the key."""
    if "answer" not in task.info:
        return Wanted(definite_answer(task), "contains")
    where = f"task {task.id}: task_info.answer"
    try:
        wanted = msgspec.convert(task.info["answer"], Wanted)
    except msgspec.ValidationError as error:
        raise ConfigError(f'{where}: {error}; expected {{"equals": "…", "match": "normalized"}}') from None
    if not wanted.texts or not all(text.strip() for text in wanted.texts):
        raise ConfigError(f"{where}.equals: is empty; expected a text, or a list of texts of which any will do")
    return wanted


def _matcher(task: Task, wanted: Wanted) -> Callable[[str, str], bool]:
    if wanted.match == "exact":
        return lambda text, answer: text.strip() == answer
    if wanted.match == "normalized":
        return is_same
    if wanted.match == "contains":
        return is_contained
    for text in wanted.texts:
        if not _is_numeral(text):
            where = f"task {task.id}: task_info.answer.equals"
            raise ConfigError(f"{where}: {text!r} is not a number, as match: number needs; write it like -12.5")
    return lambda text, answer: is_number(Decimal(text), answer)


def _is_numeral(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False


def _short(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
