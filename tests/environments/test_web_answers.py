"""The agent's answer against the wanted one: what counts as the same, and what never does."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rollout.core.errors import ConfigError
from rollout.core.messages import NO_TOOLS, Message, ToolCall
from rollout.environments.empty import EmptyWorld
from rollout.environments.web.scoring.answer import AnswerScorer
from rollout.environments.web.scoring.texts import is_contained, is_number, is_same, normalized, numbers
from rollout.tasks.jsonl import parse_task
from rollout.trajectories.score import Score
from rollout.trajectories.stop import StopReason
from rollout.trajectories.trajectory import Trajectory
from tests.trajectories.lines import trajectory


def answering(*calls: str | None, failed: bool = False) -> Trajectory:
    """A trajectory whose agent calls `answer` with these arguments; None is a click."""
    messages = [Message(role="user", content="How much?"), Message(role="user", content="URL: http://shop.test/")]
    for number, arguments in enumerate(calls):
        call = ToolCall(f"c{number}", "click" if arguments is None else "answer", arguments or '{"element": 1}')
        messages.append(Message(role="assistant", tool_calls=(call,)))
        messages.append(Message(role="tool", content="…", tool_call_id=call.id))
    return trajectory(*messages, reason=StopReason.AGENT_DONE, errors={3: "bad_arguments"} if failed else {})


def said(text: str) -> str:
    return json.dumps({"text": text})


async def scored(info: dict[str, Any], path: Trajectory, *, has_judge: bool = False) -> Score | None:
    task = parse_task({"id": "t", "messages": [{"role": "user", "content": "How much?"}], "task_info": info})
    return await AnswerScorer(has_judge=has_judge).score(task, path, EmptyWorld(NO_TOOLS))


async def value(answer: str, equals: Any, match: str = "normalized") -> float | None:
    score = await scored({"answer": {"equals": equals, "match": match}}, answering(None, said(answer)))
    assert score is not None
    return score.value


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        ("Blue Mug", "  the blue   mug. "),
        ("$1,250.00", "1250"),
        ("January 31, 2025", "2025-01-31"),
        ("Zürich", "zurich"),
        ("Straße", "STRASSE"),
        ("don't stop", "Don’t stop!"),
        ("Tom & Jerry", "Tom and Jerry"),
        ("Acme™ Drill", "acme drill"),
        ("5 percent", "5%"),
        ("2:30 PM", "2:30 p.m."),
        ("−5", "-5"),
        ("C++", "c++."),
    ],
)
async def test_forms_of_one_answer_are_the_same(wanted: str, answer: str) -> None:
    assert await value(answer, wanted) == 1.0
    assert await value(f"I found it: {answer}", wanted) == 0.0
    assert await value(f"I found it: {answer}", wanted, "contains") == 1.0
    assert await value(answer, [f"not {wanted}", wanted]) == 1.0


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        ("5", "-5"),
        ("5", "5%"),
        ("12", "12.50"),
        ("12", "January 12"),
        ("C", "C++"),
        ("C", "C#"),
        ("Vitamin", "Vitamin A"),
        ("14:30", "14 30"),
        ("1.2", "12"),
        ("?", "!"),
        ("が", "か"),
        ("2025-01-31", "2025-01-30"),
    ],
)
async def test_other_answers_are_not(wanted: str, answer: str) -> None:
    assert await value(answer, wanted) == 0.0
    if wanted not in ("Vitamin", "?"):
        assert await value(f"I think {answer}.", wanted, "contains") == 0.0


async def test_exact_is_as_written() -> None:
    assert await value(" Blue Mug\n", "Blue Mug", "exact") == 1.0
    assert await value("blue mug", "Blue Mug", "exact") == 0.0


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        ("It costs $1,299.50.", True),
        ("1299.5", True),
        ("1299.50 EUR (that is, 1,299.5)", True),
        ("-1299.5", False),
        ("1299", False),
        ("Between 1000 and 1299.50", False),
        ("On January 12, 2025 it cost 1299.50", True),
        ("v1299.5.1", False),
        ("", False),
    ],
)
def test_number_is_the_only_one_said(answer: str, fits: bool) -> None:
    assert is_number(Decimal("1299.5"), answer) is fits


def test_numbers_that_a_text_says() -> None:
    assert numbers("2.3 million of 5kg bags, 3/4 full at 10:30, covid-19, 10-12 days") == [2_300_000, 5]


async def test_no_answer_is_a_0_with_the_reason() -> None:
    for path in (answering(None), answering(said("  ")), answering('{"text": 5}'), answering("broken")):
        score = await scored({"answer": {"equals": "5"}}, path)
        assert score is not None
        assert (score.value, score.reason) == (0.0, "the agent gave no answer")


async def test_the_first_answer_that_was_taken_counts() -> None:
    score = await scored({"answer": {"equals": "b"}}, answering(said("a"), said("b")))
    assert score is not None
    assert score.value == 0.0
    score = await scored({"answer": {"equals": "b"}}, answering(said("a"), said("b"), failed=True))
    assert score is not None
    assert score.value == 1.0


async def test_definite_answer_is_contained_unless_a_judge_reads_it() -> None:
    info = {"definite_answer": "42 km"}
    score = await scored(info, answering(said("The trail is 42 KM long.")))
    assert score is not None
    assert score.value == 1.0
    assert await scored(info, answering(said("42 km")), has_judge=True) is None
    assert await scored({"definite_answer": ""}, answering(said("42 km"))) is None
    both = await scored({**info, "answer": {"equals": "26 miles"}}, answering(said("42 km")), has_judge=True)
    assert both is not None
    assert both.value == 0.0


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("5", "task t: task_info.answer"),
        ({}, "equals"),
        ({"equals": ""}, "task_info.answer.equals: is empty"),
        ({"equals": []}, "is empty"),
        ({"equals": "5", "match": "fuzzy"}, "fuzzy"),
        ({"equals": "5", "near": True}, "near"),
        ({"equals": "five", "match": "number"}, "'five' is not a number"),
        ({"equals": [True]}, "bool"),
    ],
)
async def test_what_is_wrong_with_a_task_is_named(answer: Any, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await scored({"answer": answer}, answering(said("5")))
    assert told in str(caught.value)
    assert "task t" in str(caught.value)


@given(st.text() | st.text("aAthe n%&'.-:/+# 0159,pm$€éß™\ue001janfeb", max_size=14))
@example("5 % %")
@example("0/Am")
@example("the The")
@example("a an b")
def test_normal_form_is_stable(text: str) -> None:
    form = normalized(text)
    assert normalized(form) == form


@given(st.text(min_size=1))
def test_a_text_is_the_same_as_itself_and_contains_itself(text: str) -> None:
    assert is_same(text, text)
    assert is_same(text, f"  {text}\n") or not normalized(text)
    if normalized(text):
        assert is_contained(text, text)


@given(st.integers(-(10**12), 10**12), st.integers(0, 99))
def test_a_number_is_found_however_it_is_written(whole: int, cents: int) -> None:
    number = Decimal(f"{whole}.{cents:02}")
    assert numbers(f"{whole:,}.{cents:02}") == [number]
    assert is_number(number, f"The price: {whole}.{cents:02}.")
    assert is_same(f"{whole:,}.{cents:02}", f"{number.normalize():f}")


@given(st.integers(-999, 999), st.integers(-999, 999))
def test_different_numbers_are_never_the_same(one: int, other: int) -> None:
    assert is_same(str(one), str(other)) is (one == other)
    assert is_contained(str(one), f"It is {other}.") is (one == other)
