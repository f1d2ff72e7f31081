"""Scorers that are plain functions: they run beside the conversations, under the time limit of scoring."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

import rollout
from rollout.scoring.function import FunctionScorer

WAIT = 10.0
"""Longer than anything here takes; a scorer that holds the loop up comes back after it all the same."""
language: contextvars.ContextVar[str] = contextvars.ContextVar("language", default="none")


class Shop(rollout.World):
    def setup(self) -> None:
        language.set("Welsh")


async def polite(request: rollout.Request) -> str:
    return "Done."


def scored(scorer: FunctionScorer, *tasks: str, model: Any = polite, **timeouts: float) -> list[rollout.Trajectory]:
    """The trajectories of a run with one scorer."""
    environment = rollout.Environment(tasks=list(tasks) or ["Hello"], world=Shop, scorers=[scorer])
    return list(rollout.run(environment, model=model, config={"timeouts": timeouts}, progress=False).trajectories)


def test_other_attempts_go_on_while_a_synchronous_scorer_works() -> None:
    is_scoring, others_went_on = threading.Event(), threading.Event()

    async def model(request: rollout.Request) -> str:
        if request.messages[-1].content == "Second.":
            await asyncio.to_thread(is_scoring.wait, WAIT)
            others_went_on.set()
        return "Done."

    @rollout.scorer
    def patient(task: rollout.Task) -> bool:
        is_scoring.set()
        return others_went_on.wait(WAIT)

    assert [one.reward for one in scored(patient, "First.", "Second.", model=model)] == [1.0, 1.0]


def test_a_synchronous_scorer_that_hangs_is_given_up() -> None:
    release = threading.Event()

    @rollout.scorer
    def hangs(world: Shop) -> bool:
        return release.wait(WAIT)

    try:
        (attempt,) = scored(hangs, scoring=0.2)
    finally:
        release.set()
    assert (attempt.status, attempt.reward) == ("completed", None)
    assert attempt.scores[0].reason == "no answer within 0.2 s (timeouts.scoring)"


@pytest.mark.parametrize("kind", [KeyError, StopIteration, SystemExit, asyncio.CancelledError])
def test_whatever_a_scorer_raises_leaves_the_attempt_unscored(kind: type[BaseException]) -> None:
    @rollout.scorer(name="broken")
    def raises(task: rollout.Task) -> float:
        raise kind("no")

    (attempt,) = scored(raises)
    assert (attempt.status, attempt.reward) == ("completed", None)
    assert attempt.scores[0].name == "broken"
    assert kind.__name__ in attempt.scores[0].reason


def test_a_scorer_has_the_context_of_its_attempt() -> None:
    @rollout.scorer
    def greeted(world: Shop) -> bool:
        return language.get() == "Welsh"

    @rollout.scorer
    async def awaited(world: Shop) -> bool:
        return language.get() == "Welsh"

    assert [one.reward for scorer in (greeted, awaited) for one in scored(scorer)] == [1.0, 1.0]
