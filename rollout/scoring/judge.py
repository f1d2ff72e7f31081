"""Asking a judge model: one JSON object as the answer, asked for again while it is not that, and no verdict otherwise.

An answer that is empty, cut, or not what was asked for is no verdict. The judge is told what was wrong with it and is
asked again, and after the last try there is none; nor is there where the judge cannot be asked at all. What nobody
judged is neither a pass nor a 0: the scorers leave it unscored. Every answer is kept, to be paid for and journalled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from rollout.core import seeds
from rollout.core.errors import DeadlineError, JudgeError, ModelError, describe_error
from rollout.core.messages import NO_TOOLS, Message, encode_for_model, encode_message
from rollout.models.model import Model, Request, Sampling
from rollout.trajectories.generation import Generation

T = TypeVar("T")
NO_JUDGE = "unjudged: no judge model is set (scoring.judge)"
_FENCE = re.compile(r"^```(?:json)?\s*\n(.*)\n```$", re.DOTALL)


class Judged(msgspec.Struct, Generic[T], frozen=True):
    """What came of asking a judge."""

    verdict: T | None
    """None: there is no verdict, and `problem` says why."""
    problem: str = ""
    asked: tuple[Generation, ...] = ()
    """Every answer, the useless ones included."""

    @property
    def model(self) -> str:
        """Who gave the verdict."""
        return self.asked[-1].model if self.asked else ""


class Judge:
    """A model that judges, and how it is asked."""

    def __init__(
        self,
        model: Model,
        attempts: int = 3,
        max_tokens: int | None = None,
        *,
        sees_images: bool = False,
        max_images: int = 8,
    ) -> None:
        self.sees_images = sees_images
        self.max_images = max_images
        """Screenshots that it is shown at most, where it sees images."""
        self._model = model
        self._attempts = attempts
        self._sampling = Sampling(temperature=0.0, max_tokens=max_tokens)

    async def ask(
        self,
        name: str,
        prompt: str,
        question: str,
        read: Callable[[Generation], T],
        *,
        seed: int,
        image_urls: Sequence[str] = (),
    ) -> Judged[T]:
        """Ask until `read` makes a verdict of an answer; it raises JudgeError on one that is none.

        `name` is the scorer's; the requests' seeds come from it and from `seed`, the trajectory's own.
        """
        asked: list[Generation] = []
        messages = [Message(role="system", content=prompt), Message(role="user", content=question)]
        wire = [encode_message(messages[0]), encode_for_model(messages[1], image_urls)]
        problem = ""
        for attempt in range(self._attempts):
            request = Request(messages, wire, NO_TOOLS, self._sampling, seeds.derive(seed, name, attempt))
            try:
                generation = await self._model.generate(request)
            except (ModelError, DeadlineError) as error:
                return Judged(None, f"unjudged: the judge could not be asked: {error}", tuple(asked))
            asked.append(generation)
            try:
                return Judged(read(generation), asked=tuple(asked))
            except Exception as error:  # noqa: BLE001 - an answer that cannot be read is no verdict, however it fails
                problem = str(error) if isinstance(error, JudgeError) else describe_error(error)
                said = generation.message.content or "(nothing)"
                again = [
                    Message(role="assistant", content=said),
                    Message(role="user", content=f"That cannot be used: {problem}. Answer again, as asked."),
                ]
                messages += again
                wire += map(encode_message, again)
        return Judged(None, f"unjudged after {self._attempts} tries: {problem}", tuple(asked))


def read_object(generation: Generation, form: type[T]) -> T:
    """The one JSON object of a judge's answer, in a form. Raises JudgeError where the answer is anything else."""
    if generation.finish_reason not in ("stop", "unknown"):
        raise JudgeError(f"the answer ended by {generation.finish_reason}")
    text = (generation.message.content or "").strip()
    if not text:
        raise JudgeError("the answer is empty")
    fenced = _FENCE.match(text)
    try:
        return msgspec.json.decode(fenced.group(1) if fenced else text, type=form)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        raise JudgeError(f"it is not the JSON object that was asked for: {error}") from error


def flat(text: str) -> str:
    """A text with every run of white space as one blank: the form in which quotations are looked for."""
    return " ".join(text.split())
