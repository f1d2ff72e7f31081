"""Assertions before a judge: a verdict is used only if it is one, and no verdict is neither a pass nor a 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollout.core.errors import ConfigError
from rollout.core.messages import NO_TOOLS, Message
from rollout.environments.empty import EmptyWorld
from rollout.models.model import Request
from rollout.scoring.assertions import AssertionScorer
from rollout.scoring.judge import Judge, make_nonce
from rollout.tasks.jsonl import parse_task
from rollout.testing import StubServer
from rollout.trajectories.generation import FinishReason, Generation
from rollout.trajectories.score import Score
from tests.conftest import read_lines, roll_out, stub_config, write_tasks
from tests.scoring.nonces import read_nonce, with_nonce
from tests.trajectories.lines import trajectory

ASSERTIONS = ["The agent greets the user.", "The agent gives the due date."]
TRAJECTORY = trajectory(
    Message(role="user", content="Hi"), Message(role="assistant", content="Hello! Your Atlas is due on Monday.")
)


def verdicts(*entries: tuple[int, bool, str]) -> str:
    return json.dumps({"verdicts": [{"statement": s, "holds": h, "quote": q} for s, h, q in entries]})


GOOD = verdicts((1, True, "Hello!"), (2, True, "is due\n on Monday"))
HALF = verdicts((1, True, "Hello!"), (2, False, "due on Monday"))


class Saying:
    """A judge that says what it is told to, answer after answer; it adds the nonce where it signs."""

    name = "judge"
    capabilities: frozenset[Any] = frozenset()

    def __init__(self, *answers: str | tuple[str, FinishReason], signs: bool = True) -> None:
        self._answers = list(answers)
        self._signs = signs
        self.requests: list[Request] = []

    async def generate(self, request: Request) -> Generation:
        self.requests.append(msgspec.structs.replace(request, messages=tuple(request.messages)))
        answer = self._answers.pop(0)
        text, finish = answer if isinstance(answer, tuple) else (answer, "stop")
        text = with_nonce(text, read_nonce(request)) if self._signs else text
        return Generation(Message(role="assistant", content=text), finish, cost=0.5, model="judge")  # type: ignore[arg-type]

    async def close(self) -> None:
        pass


async def judged(
    *answers: str | tuple[str, FinishReason], attempts: int = 1, signs: bool = True
) -> tuple[Score, Saying]:
    judge = Saying(*answers, signs=signs)
    task = parse_task({"id": "t", "messages": [], "task_info": {"nl_assertions": ASSERTIONS}})
    score = await AssertionScorer(Judge(judge, attempts)).score(task, TRAJECTORY, EmptyWorld(NO_TOOLS))
    assert score is not None
    return score, judge


async def test_verdict_with_quotes_is_the_score() -> None:
    score, judge = await judged(GOOD)
    assert (score.value, score.partial) == (1.0, 1.0)
    assert score.evidence["verdicts"][0] == {"assertion": ASSERTIONS[0], "holds": True, "quote": "Hello!"}
    shown = judge.requests[0].messages[-1].content or ""
    assert "due on Monday" in shown
    assert "2. The agent gives the due date." in shown
    score, _ = await judged(HALF)
    assert (score.value, score.partial) == (0.0, 0.5)
    assert ASSERTIONS[1] in score.reason


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "yes",
        "PASS",
        '{"verdicts": []}',
        '{"verdicts": [{"statement": 1, "holds": true}]}',
        verdicts((1, True, "Hello!")),
        verdicts((1, True, "Hello!"), (1, True, "Hello!")),
        verdicts((2, True, "Hello!"), (1, True, "Hello!")),
        verdicts((1, True, "Hello!"), (2, True, "The due date is Tuesday")),
        verdicts((1, True, "Hello!"), (2, True, "")),
        verdicts((1, True, "Hello!"), (2, True, " e ")),
        GOOD.replace("true", '"yes"'),
        GOOD.replace("true", "1"),
        GOOD[:-3],
        GOOD + GOOD,
        (GOOD, "length"),
        (GOOD, "content_filter"),
    ],
)
async def test_what_is_no_verdict_judges_nothing(answer: Any) -> None:
    score, _ = await judged(answer)
    assert score.value is None
    assert not score.is_pass
    assert score.reason.startswith("unjudged")
    assert len(score.asked) == 1, "and is paid for all the same"


async def test_judge_is_told_what_was_wrong_and_asked_again() -> None:
    score, judge = await judged("hm", (GOOD, "length"), f"```json\n{HALF}\n```", attempts=3)
    assert score.value == 0.0
    assert [generation.cost for generation in score.asked] == [0.5, 0.5, 0.5]
    assert "not the JSON object" in (judge.requests[1].messages[-1].content or "")
    assert len({request.seed for request in judge.requests}) == 3


@pytest.mark.parametrize("nonce", [None, "", "0" * 24, "nonce", 7])
async def test_a_verdict_without_the_nonce_judges_nothing(nonce: Any) -> None:
    answer = GOOD if nonce is None else json.dumps({"nonce": nonce, **json.loads(GOOD)})
    score, judge = await judged(answer, answer, attempts=2, signs=False)
    assert score.value is None
    assert score.reason.startswith("unjudged after 2 tries")
    assert "nonce" in score.reason
    assert "nonce" in (judge.requests[1].messages[-1].content or ""), "the judge is told"
    assert read_nonce(judge.requests[0]) not in (judge.requests[1].messages[-1].content or "")


async def test_nonce_is_the_same_for_the_same_question_and_follows_from_every_text_in_it() -> None:
    assert read_nonce((await judged(GOOD))[1].requests[0]) == read_nonce((await judged(HALF))[1].requests[0])
    shown = ["Hello!", "You may pass.", ""]
    nonces = {make_nonce(7, "nl_assertions", "prompt", each) for each in shown}
    nonces |= {make_nonce(8, "nl_assertions", "prompt", shown[0]), make_nonce(7, "nl_assertions", "promp", "tHello!")}
    assert len(nonces) == 5


async def test_assertions_without_a_judge_are_unjudged() -> None:
    task = parse_task({"id": "t", "messages": [], "task_info": {"nl_assertions": ASSERTIONS}})
    score = await AssertionScorer(None).score(task, TRAJECTORY, EmptyWorld(NO_TOOLS))
    assert score is not None
    assert score.value is None
    odd = parse_task({"id": "t", "messages": [], "task_info": {"nl_assertions": "It greets."}})
    with pytest.raises(ConfigError, match="list of texts"):
        await AssertionScorer(None).score(odd, TRAJECTORY, EmptyWorld(NO_TOOLS))
    no_task = parse_task({"id": "t", "messages": []})
    assert await AssertionScorer(None).score(no_task, TRAJECTORY, EmptyWorld(NO_TOOLS)) is None


# ---- in a run ---------------------------------------------------------------------------------------------------


def judged_config(url: str, path: Path) -> dict[str, Any]:
    config = stub_config(url, path, tools=[], scoring={"judge": "judge", "judge_attempts": 2})
    config["models"]["judge"] = {"api_base": url, "input_cost_per_token": 0.001, "output_cost_per_token": 0.001}
    return config


def asserting_task(path: Path) -> Path:
    task = {"id": "a", "messages": [{"role": "user", "content": "Hi"}], "task_info": {"nl_assertions": ["It greets."]}}
    return write_tasks(path, task)


@pytest.mark.parametrize(
    ("answer", "success", "scored", "asked"),
    [
        (verdicts((1, True, "Hello there")), True, True, 1),
        (verdicts((1, False, "Hello there")), False, True, 1),
        ("I think it passes", False, False, 2),
    ],
)
async def test_judge_of_a_run_is_charged_recorded_and_fails_closed(
    tmp_path: Path, answer: str, success: bool, scored: bool, asked: int
) -> None:
    rules = [
        {"when": {"model": "judge"}, "reply": {"content": with_nonce(answer, "{nonce}")}},
        {"when": {"model": "agent"}, "reply": {"content": "Hello there"}},
    ]
    async with StubServer({"rules": rules}) as stub:
        opened = await roll_out(judged_config(stub.url, asserting_task(tmp_path / "tasks.jsonl")))
    (line,) = read_lines(Path("out.jsonl"))
    metadata = line["metadata"]
    assert (line["success"], metadata["scored"]) == (success, scored)
    assert ("unjudged after 2 tries" in (metadata["unscored"] or "")) is not scored
    assert metadata["scores"][0]["name"] == "nl_assertions"
    assert "asked" not in metadata["scores"][0]
    usage = metadata["usage"]["judge"]
    assert usage["completion_tokens"] > 0
    assert metadata["cost"] == pytest.approx(0.001 * (usage["prompt_tokens"] + usage["completion_tokens"]))
    assert opened.engine.control.cost == pytest.approx(metadata["cost"])
    assert opened.summary is not None
    assert (opened.summary.total.scored, opened.summary.total.unscored) == (int(scored), int(not scored))
    assert stub.stats.by_model == {"agent": 1, "judge": asked}


async def test_judge_that_cannot_be_reached_leaves_the_work_unscored(tmp_path: Path) -> None:
    async with StubServer({"rules": [{"when": {"model": "agent"}, "reply": {"content": "Hello"}}]}) as stub:
        config = judged_config(stub.url, asserting_task(tmp_path / "tasks.jsonl"))
        config["models"]["judge"]["api_base"] = "http://127.0.0.1:9/v1"
        config["retries"]["attempts"] = 1
        await roll_out(config)
    (line,) = read_lines(Path("out.jsonl"))
    assert (line["metadata"]["status"], line["metadata"]["scored"], line["success"]) == ("completed", False, False)
    assert "the judge could not be asked" in line["metadata"]["unscored"]
