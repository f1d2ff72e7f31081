"""Filters of single turns: each finds what it is for, and leaves alone what only looks like it."""

from __future__ import annotations

import pytest

from rollout.core.messages import Message, ToolCall
from rollout.trajectories.filters.turns import read_turns
from rollout.trajectories.stop import StopReason
from tests.trajectories.filters.attempts import ASK, THANKS, attempt, call, find, result, say, turns_found

# ---- void turns ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [None, "", "  \n ", "…", "???", "\ufffd\ufffd\ufffd \ufffd", "\x00\x01\x02ok"])
def test_turn_that_says_nothing_and_calls_nothing_is_void(content: str | None) -> None:
    assert turns_found("void_turns", attempt(ASK, say(content), THANKS)) == [0]


@pytest.mark.parametrize(
    "content", ["Which member number do you have?", "No.", "7", "👍", "はい", "Done (7 of 7).", "Naïve – café\t…"]
)
def test_words_to_the_user_are_not_void(content: str) -> None:
    assert turns_found("void_turns", attempt(ASK, say(content), THANKS)) == []
    assert turns_found("void_turns", attempt(ASK, say(content), reason=StopReason.AGENT_DONE)) == []


def test_reasoning_alone_is_void_and_is_quoted() -> None:
    [found] = find("void_turns", attempt(ASK, say(None, "I should look at the loans."), THANKS))
    assert "only reasoning" in found.reason
    assert found.evidence == "I should look at the loans."


def test_call_without_words_is_not_void() -> None:
    assert turns_found("void_turns", attempt(ASK, call(), result(), say("Book 7."), THANKS)) == []


def test_answer_that_the_server_broke_off_is_not_the_agents_void_turn() -> None:
    broken = attempt(ASK, say(""), finish={1: "abort"})
    assert turns_found("void_turns", broken) == turns_found("premature_end", broken) == []
    assert turns_found("infrastructure_errors", broken) == [0]


def test_last_answer_can_be_asked_for_a_form() -> None:
    pattern = r"\\boxed\{"
    assert turns_found("void_turns", attempt(ASK, say("It is 7.")), answer_pattern=pattern) == [0]
    assert turns_found("void_turns", attempt(ASK, say(r"It is \boxed{7}.")), answer_pattern=pattern) == []
    question = attempt(ASK, say("Which one?"), THANKS, say(r"\boxed{7}"))
    assert turns_found("void_turns", question, answer_pattern=pattern) == [], "only the last answer has that form"


@pytest.mark.parametrize(
    "text",
    ["Let me compute:\n```python\nprint(len(divisors", "~~~\nls -l", "<execute_python>\nprint(1)", "So: ```py\nx = 1"],
)
def test_block_of_code_that_never_ends_is_a_void_turn(text: str) -> None:
    [found] = find("void_turns", attempt(ASK, say(text), THANKS))
    assert "code" in found.reason
    assert not read_turns(attempt(ASK, say(text)))[0].is_final_answer


@pytest.mark.parametrize(
    "text", ["```python\nprint(1)\n```", "Use ``` around code.", "```x```", "````md\n```py\n1\n```\n````", "`open"]
)
def test_code_that_ends_is_not_void(text: str) -> None:
    assert turns_found("void_turns", attempt(ASK, say(text), THANKS)) == []


def test_fragment_that_was_cut_or_holds_the_answer_is_not_void() -> None:
    text = "\\boxed{7}\n```python\nprint("
    assert turns_found("void_turns", attempt(ASK, say(text), finish={1: "length"})) == []
    assert turns_found("void_turns", attempt(ASK, say(text)), answer_pattern=r"\\boxed\{") == []


# ---- premature end ---------------------------------------------------------------------------------------------------


def test_answer_of_next_to_nothing_is_premature() -> None:
    assert turns_found("premature_end", attempt(ASK, say("I"), tokens={1: 1})) == [0]
    assert turns_found("premature_end", attempt(ASK, say(""))) == [0]
    assert turns_found("premature_end", attempt(ASK, say("I am"), tokens={1: 3}), min_tokens=5) == [0]


def test_short_answers_that_are_answers_are_not_premature() -> None:
    assert turns_found("premature_end", attempt(ASK, say("Yes."), THANKS)) == []
    assert turns_found("premature_end", attempt(ASK, say("7"), tokens={1: 1}, success=True)) == [], "it was solved"
    assert turns_found("premature_end", attempt(ASK, call(arguments="{}"), result(), say("It is 7."))) == []
    assert turns_found("premature_end", attempt(ASK, say("7"), tokens={1: 1}, finish={1: "length"})) == []


def test_answer_is_premature_whether_or_not_the_server_counts_the_end_of_turn() -> None:
    assert turns_found("premature_end", attempt(ASK, say("I"), tokens={1: 1})) == [0]
    assert turns_found("premature_end", attempt(ASK, say("I"), tokens={1: 2})) == [0]
    assert read_turns(attempt(ASK, say("I"), tokens={1: 2}))[0].premature
    four = "I am going home"
    for counted in (4, 5):
        assert turns_found("premature_end", attempt(ASK, say(four), tokens={1: counted}), min_tokens=5) == [0]
        assert turns_found("premature_end", attempt(ASK, say(four), tokens={1: counted}), min_tokens=4) == []


def test_reasoning_does_not_make_an_answer_longer() -> None:
    assert turns_found("premature_end", attempt(ASK, say("I", "Let me think."), tokens={1: 40})) == [0]


def test_answers_in_scripts_without_spaces_are_not_premature() -> None:
    assert turns_found("premature_end", attempt(ASK, say("はい"), THANKS)) == []


def test_trajectory_without_an_answer_ended_prematurely() -> None:
    assert turns_found("premature_end", attempt(ASK)) == [None]


# ---- repetition ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "I will look at the loans of the member. " * 6,
        "本を返してください" * 8,
        "a" * 500,
        "!" * 500,
    ],
)
def test_text_that_repeats_itself_is_found(text: str) -> None:
    assert turns_found("repetition", attempt(ASK, say(text)), min_words=15) == [0]


def test_repetition_in_reasoning_is_found_with_what_repeats() -> None:
    [found] = find("repetition", attempt(ASK, say("Book 7.", "wait let me think again " * 10)))
    assert "'wait let me think'" in found.evidence


def test_lists_and_short_texts_do_not_count_as_repetition() -> None:
    rows = "\n".join(f"- book {number}: due on the {number}. of May, renewed {number} times" for number in range(12))
    assert turns_found("repetition", attempt(ASK, say(rows))) == []
    assert turns_found("repetition", attempt(ASK, say("No, no, no, no, no, no."))) == []


def test_ratio_is_a_threshold() -> None:
    text = " ".join([f"w{number}" for number in range(24)] + ["again and again so"] * 4)
    [found] = find("repetition", attempt(ASK, say(text)), ratio=0.2)
    assert found.turn == 0
    assert turns_found("repetition", attempt(ASK, say(text)), ratio=0.5) == []


def test_same_call_with_the_same_answer_is_a_repetition() -> None:
    again = attempt(ASK, call(), result(), call(arguments='{ "member":"m1"}'), result(), say("Book 7."))
    assert turns_found("repetition", again) == [1], "arguments are compared by what they mean"
    refused = attempt(ASK, call(), result(), call(), result('{"error": "no"}'), say("Done."), kinds={4: "tool"})
    assert turns_found("repetition", refused) == [1]


def test_calls_that_look_alike_and_are_none_again() -> None:
    scrolling = attempt(
        ASK, call("scroll", "{}"), result("page 1"), call("scroll", "{}"), result("page 2"), say("I see.")
    )
    assert turns_found("repetition", scrolling) == []
    assert turns_found("repetition", scrolling, calls="any") == [1]
    assert turns_found("repetition", scrolling, calls="off") == []
    other = attempt(ASK, call(), result(), call(arguments='{"member": "m2"}'), result(), say("Both."))
    assert turns_found("repetition", other, calls="any") == []
    between = attempt(ASK, call(), result(), call("renew"), result("ok"), call(), result(), say("Renewed."))
    assert turns_found("repetition", between, calls="any") == [], "something else was done in between"


@pytest.mark.parametrize("kind", ["timeout", "crash"])
def test_trying_again_after_infrastructure_broke_is_no_repetition(kind: str) -> None:
    retried = attempt(ASK, call(), result('{"error": "late"}'), call(), result(), say("Book 7."), kinds={2: kind})
    assert turns_found("repetition", retried, calls="any") == []


def test_call_that_the_user_asks_for_again_is_no_repetition() -> None:
    asked = [ASK, call(), result(), say("Book 7 is due."), Message(role="user", content="And now?")]
    assert turns_found("repetition", attempt(*asked, call(), result(), say("The same.")), calls="any") == []
    twice = attempt(*asked, call(), result(), call(), result(), say("The same."))
    assert turns_found("repetition", twice) == [3], "once is what was asked for"


def test_round_of_calls_gone_through_again_is_a_repetition() -> None:
    one, other = [call(), result()], [call("fees", "{}"), result("none")]
    assert turns_found("repetition", attempt(ASK, *one, *other, *one, *other, say("Fine."))) == [2, 3]
    assert turns_found("repetition", attempt(ASK, *one, *other, *one, call("renew"), result("ok"), say("Ok."))) == []
    moved = [call(), result("changed")]
    assert turns_found("repetition", attempt(ASK, *one, *other, *moved, *other, say("Fine."))) == []


def test_polling_and_retrying_that_get_somewhere_are_no_repetition() -> None:
    waiting, done = [call("status"), result("pending")], [call("status"), result("done")]
    assert turns_found("repetition", attempt(ASK, *waiting, *waiting, *done, say("Done."))) == []
    assert turns_found("repetition", attempt(ASK, *waiting, *waiting, say("Still pending."))) == [1]
    refused = [call("status"), result("locked")]
    assert turns_found("repetition", attempt(ASK, *refused, *refused, *done, kinds={2: "tool", 4: "tool"})) == []


# ---- calls -----------------------------------------------------------------------------------------------------------


def test_call_with_broken_json_is_malformed() -> None:
    broken = attempt(
        ASK, call(arguments='{"member": "m'), result('{"error": "…"}'), say("Sorry."), kinds={2: "bad_arguments"}
    )
    [found] = find("malformed_calls", broken)
    assert (found.turn, found.evidence) == (0, 'find_loans({"member": "m)')


@pytest.mark.parametrize("arguments", ["[1]", "7", '"x"', "{]"])
def test_arguments_that_are_no_object_are_malformed(arguments: str) -> None:
    assert turns_found("malformed_calls", attempt(ASK, call(arguments=arguments), result(), say("Ok."))) == [0]


def test_call_that_was_left_in_the_text_is_malformed() -> None:
    text = 'One moment.\n<tool_call>\n{"name": "find_loans"'
    assert turns_found("malformed_calls", attempt(ASK, say(text), THANKS)) == [0]
    assert turns_found("malformed_calls", attempt(ASK, say("A `<tool_call>` is how models ask."), THANKS)) == []


@pytest.mark.parametrize(
    "text",
    [
        'Thought: look it up\nAction: find_loans\nAction Input: {"member": "m1"}',
        "Action: Search[overdue books]",
        "**Action:** `find_loans`",
        'Action:\n```json\n{"action": "find_loans", "action_input": {}}\n```',
        '{"name": "find_loans", "arguments": {"member": "m1"}}',
        '```json\n{"name": "find_loans", "arguments": {}}\n```',
    ],
)
def test_call_written_in_another_form_is_malformed(text: str) -> None:
    assert turns_found("malformed_calls", attempt(ASK, say(text), THANKS, tools=frozenset({"find_loans"}))) == [0]


@pytest.mark.parametrize(
    "text",
    [
        "Action: please bring the book back by Friday.",
        "Issue: late\nAction: waived",
        "ReAct looks so:\n```\nAction: find_loans\nAction Input: {}\n```\nWe do not use it.",
        '{"name": "Ada", "loans": [7]}',
        "Actions speak louder than words.",
    ],
)
def test_words_about_actions_are_no_calls(text: str) -> None:
    assert turns_found("malformed_calls", attempt(ASK, say(text), THANKS, tools=frozenset({"find_loans"}))) == []


def test_call_that_could_not_be_read_out_of_a_text_is_malformed() -> None:
    unread = attempt(ASK, call("malformed_call", '{"problem": "…"}'), result(), say("Ok."), kinds={2: "malformed_call"})
    assert turns_found("malformed_calls", unread) == [0]


def test_arguments_that_do_not_fit_are_malformed_only_where_asked() -> None:
    misfit = attempt(ASK, call(arguments="{}"), result(), say("Sorry."), kinds={2: "bad_arguments"})
    assert turns_found("malformed_calls", misfit) == []
    assert turns_found("malformed_calls", misfit, bad_arguments=True) == [0]


def test_calls_that_the_world_refused_are_good_calls() -> None:
    refused = attempt(ASK, call(arguments=""), result('{"error": "no such member"}'), say("Sorry."), kinds={2: "tool"})
    assert turns_found("malformed_calls", refused, bad_arguments=True) == turns_found("unknown_tools", refused) == []


def test_tool_that_was_not_offered_is_unknown() -> None:
    unknown = attempt(ASK, call("find_loans_v2"), result(), say("Sorry."), kinds={2: "unknown_tool"})
    assert turns_found("unknown_tools", unknown) == [0]
    assert turns_found("malformed_calls", unknown) == []


def test_one_bad_call_among_several_is_found() -> None:
    both = Message(role="assistant", tool_calls=(ToolCall("a", "find", "{}"), ToolCall("b", "nope", "{}")))
    answers = (
        Message(role="tool", content="ok", tool_call_id="a"),
        Message(role="tool", content="{}", tool_call_id="b"),
    )
    [found] = find("unknown_tools", attempt(ASK, both, *answers, say("Ok."), kinds={3: "unknown_tool"}))
    assert "'nope'" in found.reason


# ---- cut answers -----------------------------------------------------------------------------------------------------


def test_answer_that_was_cut_is_found_and_is_not_void() -> None:
    cut = attempt(ASK, say("The books that are due are"), finish={1: "length"}, tokens={1: 512})
    [found] = find("length_truncated", cut)
    assert "512" in found.reason
    assert turns_found("void_turns", cut) == turns_found("premature_end", cut) == []
    assert turns_found("length_truncated", attempt(ASK, say("Book 7."), tokens={1: 512})) == []
