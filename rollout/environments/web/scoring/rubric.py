"""Scoring by a judge model that is shown what the agent saw: the facts of `task_info.rubric`, the reference answer.

Solved means that every fact holds, that the trajectory shows every claim of the answer, and that the answer matches
`definite_answer` where the task has one. One call asks for all of it. A judge that takes images gets the last
screenshots; any other reads the observations. No browser is held meanwhile: the world is closed first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.web.scoring.answer import NO_ANSWER, reference_answer
from rollout.environments.web.scoring.blocking import Blocking, find_blocking
from rollout.environments.web.scoring.steps import JudgedStep, given_answer, read_steps
from rollout.environments.web.scoring.verdict import (
    MAX_EVIDENCE,
    PROMPT,
    JudgedPicture,
    Question,
    WebVerdict,
    cut_steps,
    read_rubric,
)
from rollout.scoring.judge import NO_JUDGE, Judge, Judged
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory

NAME = "rubric"
KEPT = 256


class WebJudge:
    """Asks the judge once about a trajectory, for all who want to know."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._kept: OrderedDict[str, Judged[WebVerdict]] = OrderedDict()
        """Verdicts that were asked for the rubric's sake and that hold one about blocking."""

    async def judge_answer(self, task: Task, trajectory: Trajectory) -> tuple[Judged[WebVerdict], Question]:
        """The verdict on facts and answer, and where the rules are unsure also on blocking, with what was asked."""
        question, urls = await self._question(task, trajectory, read_rubric(task), reference_answer(task))
        judged = await self._ask(question, urls, trajectory)
        if question.asks_blocked:
            self._kept[trajectory.id] = judged
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return judged, question

    async def judge_blocking(self, task: Task, trajectory: Trajectory) -> tuple[Judged[WebVerdict], bool]:
        """The verdict on blocking, and whether it was asked for here: else it is already paid for."""
        kept = self._kept.pop(trajectory.id, None)
        if kept is not None:
            return kept, False
        question, urls = await self._question(task, trajectory, (), "")
        return await self._ask(question, urls, trajectory), True

    async def _ask(self, question: Question, urls: Sequence[str], trajectory: Trajectory) -> Judged[WebVerdict]:
        text = question.text(trajectory.seed)
        return await self._judge.ask(NAME, PROMPT, text, question.read, seed=trajectory.seed, image_urls=urls)

    async def _question(
        self, task: Task, trajectory: Trajectory, facts: tuple[str, ...], reference: str
    ) -> tuple[Question, list[str]]:
        steps = read_steps(task, trajectory)
        pictures = _last_pictures(steps, self._judge.max_images) if self._judge.sees_images else []
        urls: list[str] = []
        if trajectory.image_url is None:
            pictures = []
        elif pictures:
            urls = await asyncio.to_thread(lambda show: [show(each.image) for each in pictures], trajectory.image_url)
        question = Question(
            "\n".join(message.content or "" for message in task.messages if message.role == "user"),
            cut_steps(steps),
            given_answer(trajectory),
            facts,
            reference,
            find_blocking(steps).is_blocked is None,
            tuple(pictures),
        )
        return question, urls


class RubricScorer:
    """1 where the judge sees every fact hold and the answer borne out."""

    name = NAME
    needs_world = False

    def __init__(self, judge: WebJudge | None) -> None:
        self._judge = judge
        self.asks_models = judge is not None

    def applies(self, task: Task) -> bool:
        info = task.info
        if self._judge is None:
            # Without a judge, what the task can check without one has to do.
            return bool(info.get("rubric")) and not (info.get("checks") or "answer" in info)
        return bool(info.get("rubric") or reference_answer(task))

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        if not self.applies(task):
            return None
        read_rubric(task)  # raises where it is malformed, with any judge
        if given_answer(trajectory) is None:
            return Score(self.name, 0.0, NO_ANSWER, 0.0)
        if self._judge is None:
            return Score(self.name, None, NO_JUDGE)
        try:
            judged, question = await self._judge.judge_answer(task, trajectory)
        except OSError as error:
            return Score(self.name, None, f"unjudged: a screenshot cannot be read: {error}")
        if judged.verdict is None:
            return Score(self.name, None, judged.problem, asked=judged.asked)
        return self._score(question, judged, judged.verdict)

    def _score(self, question: Question, judged: Judged[WebVerdict], verdict: WebVerdict) -> Score:
        places = {step.number: step.message for step in question.steps}
        told: list[dict[str, Any]] = [
            {
                "fact": fact,
                "holds": one.holds,
                "step": one.step,
                "message": None if one.step is None else places.get(one.step),
                "source": one.source,
                "image": question.image_of(one),
                "evidence": one.evidence[:MAX_EVIDENCE],
            }
            for fact, one in zip(question.facts, verdict.facts or (), strict=True)
        ]
        evidence: dict[str, Any] = {"judge": judged.model, "facts": told}
        if question.pictures:
            evidence["images"] = [each.image for each in question.pictures]
        problems = [f"does not hold: {each['fact']}" for each in told if not each["holds"]]
        if verdict.claims is not None:
            evidence["claims"] = _said(verdict.claims.supported, verdict.claims.evidence)
            if not verdict.claims.supported:
                problems.append(f"the answer claims what nothing shows: {verdict.claims.evidence[:MAX_EVIDENCE]}")
        if verdict.reference is not None:
            evidence["reference"] = _said(verdict.reference.matches, verdict.reference.evidence)
            if not verdict.reference.matches:
                problems.append(f"the answer is not the reference answer: {verdict.reference.evidence[:MAX_EVIDENCE]}")
        share = round(sum(each["holds"] for each in told) / len(told), 4) if told else None
        reason = "; ".join(problems) or "every fact holds, and the answer is borne out"
        return Score(self.name, float(not problems), reason, share, evidence=evidence, asked=judged.asked)


class BlockedScorer:
    """1 where the site kept the agent out, 0 where it did not. It decides nothing: a blocked agent has not failed."""

    name = "blocked"
    needs_world = False
    is_advisory = True

    def __init__(self, judge: WebJudge | None) -> None:
        self._judge = judge
        self.asks_models = judge is not None

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        steps = read_steps(task, trajectory)
        found = find_blocking(steps)
        if found.is_blocked is not None:
            reason = f"blocked: {found.rule}" if found.is_blocked else "not blocked"
            return Score(self.name, float(found.is_blocked), reason, evidence=_signs(found))
        unsure = f"the rules are unsure ({found.rule})"
        if self._judge is None:
            return Score(self.name, None, f"{unsure}, and {NO_JUDGE}", evidence=_signs(found))
        try:
            judged, is_asked = await self._judge.judge_blocking(task, trajectory)
        except OSError as error:
            return Score(self.name, None, f"{unsure}; unjudged: a screenshot cannot be read: {error}")
        asked = judged.asked if is_asked else ()
        verdict = None if judged.verdict is None else judged.verdict.blocked
        if verdict is None:
            return Score(self.name, None, f"{unsure}; {judged.problem}", evidence=_signs(found), asked=asked)
        message = next(step.message for step in steps if step.number == verdict.step)
        evidence = {"rule": "judge", "judge": judged.model, "message": message, "seen": verdict.evidence[:MAX_EVIDENCE]}
        reason = f"{'blocked' if verdict.blocked else 'not blocked'}, says the judge"
        return Score(self.name, float(verdict.blocked), reason, evidence=evidence, asked=asked)


def _last_pictures(steps: Sequence[JudgedStep], limit: int) -> list[JudgedPicture]:
    """The last different screenshots in order, the very last one among them."""
    found: dict[str, int] = {}
    for step in reversed(steps):
        for name in reversed(step.images):
            if len(found) < limit:
                found.setdefault(name, step.number)
    return [JudgedPicture(number, name) for name, number in reversed(found.items())]


def _said(is_so: bool, evidence: str) -> dict[str, Any]:
    return {"holds": is_so, "evidence": evidence[:MAX_EVIDENCE]}


def _signs(found: Blocking) -> dict[str, Any]:
    return {"rule": found.rule, "message": found.message, "seen": found.seen}
