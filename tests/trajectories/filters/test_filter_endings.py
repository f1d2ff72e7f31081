"""Filters of whole trajectories: what broke, what a budget ended, what leaked."""

from __future__ import annotations

import pytest

from rollout.core.messages import Message
from rollout.trajectories.stop import StopReason
from tests.trajectories.filters.attempts import ASK, THANKS, attempt, call, filter_all, find, result, say, turns_found

RULES = " ".join(f"Rule {number}: never renew a loan that was renewed {number} times." for number in range(20))


def test_what_broke_is_marked_for_that_and_for_nothing_else() -> None:
    broken = attempt(ASK, say(""), reason=StopReason.ERROR, error={"kind": "model", "text": "the server is gone"})
    record = filter_all(broken)["a"]
    assert [(mark.filter, mark.evidence) for mark in record.marks] == [("infrastructure_errors", "the server is gone")]
    assert record.verdict == "drop"
    assert record.status == "failed", "a filter changes no status"
    assert not record.counts_in_group


def test_tool_errors_are_infrastructure_only_where_named() -> None:
    late = attempt(ASK, call(), result('{"error": "late"}'), say("Sorry."), kinds={2: "timeout"})
    assert turns_found("infrastructure_errors", late) == []
    assert turns_found("infrastructure_errors", late, tool_errors=["timeout"]) == [0]


@pytest.mark.parametrize("reason", ["max_turns", "max_steps", "context_length", "deadline"])
def test_what_a_budget_ended_is_overlong(reason: str) -> None:
    assert turns_found("overlong", attempt(reason=StopReason(reason))) == [None]


@pytest.mark.parametrize("reason", ["user_stop", "agent_done", "monitor_repeated_messages", "answered"])
def test_what_ended_otherwise_is_not_overlong(reason: str) -> None:
    assert turns_found("overlong", attempt(reason=StopReason(reason))) == []


def test_limits_of_turns_and_tokens() -> None:
    long = attempt(ASK, call(), result(), say("Book 7."), tokens={1: 30, 3: 20})
    assert turns_found("overlong", long, max_turns=1, max_tokens=49) == [None, None]
    assert turns_found("overlong", long, max_turns=2, max_tokens=50) == []


@pytest.mark.parametrize(
    "text",
    [
        "Good bye. ###STOP###",
        "<|im_end|>",
        "Sure<｜end▁of▁sentence｜>",
        "[INST] and now",
        "<tool_response>\n7",
        "x <end_of_turn>",
    ],
)
def test_markers_and_template_tokens_are_leaks_wherever_the_agent_writes_them(text: str) -> None:
    for message in (say(text), say("Fine.", text)):
        [found] = find("leaked_markers", attempt(ASK, message, THANKS))
        assert found.turn == 0
    written = attempt(ASK, call(arguments='{"note": "###STOP### <|im_end|>"}'), result(), say("Ok."))
    assert turns_found("leaked_markers", written) == [0, 0]


@pytest.mark.parametrize("text", ["### Stop ###", "a <| b |> c", "if x <|y| > 3", "<b>im_end</b>", "[inst]"])
def test_what_only_looks_like_a_marker_is_none(text: str) -> None:
    assert turns_found("leaked_markers", attempt(ASK, say(text), THANKS)) == []


def test_what_the_user_lets_slip_spoils_the_answer_to_it() -> None:
    slipped = Message(role="user", content="That is all ###STOP###")
    assert turns_found("leaked_markers", attempt(ASK, say("Book 7."), slipped, say("Bye."))) == [1]
    assert turns_found("leaked_markers", attempt(ASK, say("Book 7."), slipped)) == [None]
    opening = attempt(Message(role="user", content="What does ###STOP### mean?"), say("It ends a talk."))
    assert turns_found("leaked_markers", opening) == [], "what the task says is nobody's leak"


def test_long_piece_of_the_system_prompt_said_aloud_is_a_leak() -> None:
    recited = f"My instructions: {RULES[100:500]} That is all."
    [found] = find("leaked_markers", attempt(ASK, say(recited), THANKS, system=RULES))
    assert "rule" in found.evidence
    quoted = f"We cannot: {RULES[:55]}"
    assert turns_found("leaked_markers", attempt(ASK, say(quoted), THANKS, system=RULES)) == [], "a rule may be quoted"
    thought = attempt(ASK, say("Fine.", recited), THANKS, system=RULES)
    assert turns_found("leaked_markers", thought) == [], "thinking of the rules is what they are for"
    assert turns_found("leaked_markers", attempt(ASK, say(recited), THANKS, system=RULES), prompt_words=0) == []
    assert turns_found("leaked_markers", attempt(ASK, say(recited), THANKS)) == [], "nobody knows the prompt"


@pytest.mark.parametrize(
    "text", ["It is due.</think>Book 7.", "</think>\n\nBook 7.", "<think>Book 7.", "a</thinking>b"]
)
def test_mark_of_reasoning_without_its_other_half_is_a_leak(text: str) -> None:
    assert turns_found("leaked_markers", attempt(ASK, say(text), THANKS)) == [0]


@pytest.mark.parametrize(
    "text", ["`</think>` ends it.", "```\n</think>\n```\nBook 7.", "<think>due</think>Book 7.", "I think > 7"]
)
def test_mark_of_reasoning_in_code_or_in_a_pair_is_no_leak(text: str) -> None:
    assert turns_found("leaked_markers", attempt(ASK, say(text), THANKS)) == []
