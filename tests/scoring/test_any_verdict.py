"""Whatever a judge answers is a verdict or none: nothing that it writes is an error of ours."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rollout.core.messages import Message
from rollout.models.model import Request
from rollout.scoring.judge import Judge, read_object
from rollout.trajectories.generation import Generation
from tests.models.hostile import BYTES, DEEP, damaged
from tests.scoring.nonces import read_nonce, with_nonce


class Form(msgspec.Struct):
    verdict: bool
    reason: str = ""
    scores: dict[str, float] = {}


class Saying:
    """A model that says one thing."""

    name = "judge"
    capabilities: frozenset[Any] = frozenset()

    def __init__(self, text: str | None) -> None:
        self._text = text

    async def generate(self, request: Request) -> Generation:
        b",".join(request.wire).decode()
        text = self._text and with_nonce(self._text, read_nonce(request))
        return Generation(Message(role="assistant", content=text))

    async def close(self) -> None:
        """Nothing is held."""


ANSWERS = st.one_of(
    st.none(),
    st.text(),
    st.sampled_from([DEEP, f"```json\n{DEEP}\n```", '{"verdict": true}', '{"verdict": "yes"}', '{"verdict": 1e999}']),
    (damaged({"verdict": True, "scores": {"a": 0.5}}) | BYTES).map(lambda body: body.decode("utf-8", "replace")),
)


@given(ANSWERS)
async def test_any_answer_of_a_judge_is_a_verdict_or_unjudged(text: str | None) -> None:
    judged = await Judge(Saying(text), attempts=2).ask("x", "p", "q", lambda made: read_object(made, Form), seed=1)
    assert (judged.verdict is None) == judged.problem.startswith("unjudged after 2 tries")
    assert judged.verdict is None or isinstance(judged.verdict, Form)


async def test_a_reader_that_stumbles_over_an_answer_leaves_it_unjudged() -> None:
    def stumbles(made: Generation) -> bool:
        raise KeyError("criterion 7")

    judged = await Judge(Saying("{}"), attempts=2).ask("x", "p", "q", stumbles, seed=1)
    assert judged.verdict is None
    assert "KeyError: 'criterion 7'" in judged.problem
