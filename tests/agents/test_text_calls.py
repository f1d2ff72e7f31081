"""Calls in a model's text: whatever it writes, nothing is lost, nothing raises, and nothing is guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rollout.agents.dialects import NATIVE, TextDialect
from rollout.agents.text_calls import read_answer, split_reasoning
from rollout.core.calls import CallReader
from rollout.core.messages import (
    MALFORMED_CALL,
    Message,
    ToolCall,
    ToolResult,
    Toolset,
    ToolSpec,
    message_from_json,
    message_to_json,
    write_calls,
)
from rollout.trajectories.generation import Generation

TOOLS = Toolset((ToolSpec("click", "Click.", {"type": "object", "properties": {"x": {"type": "integer"}}}),))
MARKS = (
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    '{"name": "click", "arguments": {"x": 1}}',
    "{",
    "}",
    '"',
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
    | st.sampled_from(MARKS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
arguments = st.dictionaries(st.text(max_size=4) | st.sampled_from(MARKS), values, max_size=3).map(
    lambda value: json.dumps(value, ensure_ascii=False)
)
names = st.text(min_size=1, max_size=8).filter(lambda name: name != MALFORMED_CALL)
calls = st.lists(st.builds(lambda name, text: ToolCall("", name, text), names, arguments), min_size=1, max_size=3)
words = st.text(max_size=20).filter(lambda text: "<" not in text)
texts = st.lists(st.sampled_from(MARKS) | st.text(max_size=6), max_size=12).map("".join)


def read(text: str | None, *, must_call: bool = False, reasoning: str | None = None) -> Message:
    return read_answer(Message(role="assistant", content=text, reasoning=reasoning), 7, must_call=must_call)


def asked(message: Message) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in message.tool_calls]


def problem(text: str, *, must_call: bool = False) -> tuple[str | None, str]:
    """What the one call of a text is answered, without a world."""
    (call,) = read(text, must_call=must_call).tool_calls
    result = CallReader(TOOLS).read(call)
    assert isinstance(result, ToolResult)
    assert result.call_id == call.id
    return result.error_kind, json.loads(result.content)["error"]


@given(calls, words, words)
def test_what_is_written_is_read_back(wanted: list[ToolCall], before: str, after: str) -> None:
    text = f"{before}{write_calls(wanted)}{after}"
    message = read(text)
    assert asked(message) == [(call.name, call.arguments) for call in wanted]
    assert message.text == text
    assert len({call.id for call in message.tool_calls}) == len(wanted)


@given(texts, st.booleans())
@example("<tool_call>" * 3, True)
@example('<tool_call>{"name": "a", "arguments": {"b": "\\ud800"}}</tool_call>', False)
@example('<tool_call>{"name": "\ud800", "arguments": {}}</tool_call>', False)
@example(f'<tool_call>{{"name": "a", "arguments": {"[" * 3000}}}</tool_call>', False)
@example('<tool_call>{"name": "a", "arguments": NaN}</tool_call>', False)
@example(f'<tool_call>{{"name": "a", "arguments": {{"n": {"9" * 5000}}}}}</tool_call>', False)
def test_any_text_is_read_and_none_of_it_is_lost(text: str, must_call: bool) -> None:
    message = read(text, must_call=must_call)
    assert message.text == text
    assert TextDialect().show(message).text in text
    if message.reasoning is not None:
        assert message.reasoning in text
    for call in message.tool_calls:
        CallReader(TOOLS).read(call)
    if must_call or ("<tool_call>" in split_reasoning(text)[1]):
        assert message.tool_calls, "an attempt is never dropped in silence"


@given(texts)
def test_saved_answer_is_shown_as_it_was_shown_live(text: str) -> None:
    if any("\ud800" <= char <= "\udfff" for char in text):
        return
    message = read(text)
    saved = message_from_json(json.loads(json.dumps(message_to_json(message))))
    assert saved == message
    assert TextDialect().show(saved) == TextDialect().show(message)


def test_several_calls_keep_their_order_and_the_words_around_them() -> None:
    first, second = ToolCall("", "click", '{"x": 1}'), ToolCall("", "click", '{"x": 2}')
    message = read(f"First.\n{write_calls([first])}\nThen.\n{write_calls([second])}\nDone.")
    assert asked(message) == [("click", '{"x": 1}'), ("click", '{"x": 2}')]
    assert message.content == "First.\n\nThen.\n\nDone."


def test_words_alone_are_an_answer_unless_a_call_is_due() -> None:
    assert read("It is done.") == Message(role="assistant", content="It is done.")
    kind, text = problem("It is done.", must_call=True)
    assert kind == "malformed_call"
    assert "calls no tool" in text
    assert '<tool_call>{"name"' in text, "it says what was expected"


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ('<tool_call>{"name": "click", "arguments": {"x": 1}', "malformed_call", "</tool_call> is missing"),
        ('<tool_call>{"name": "click", "arguments": {"x": 1}}', "malformed_call", "</tool_call> is missing"),
        ('{"name": "click", "arguments": {}}</tool_call>', "malformed_call", "without <tool_call>"),
        ("<tool_call>click(1)</tool_call>", "malformed_call", "not valid JSON"),
        ("<tool_call>{'name': 'click'}</tool_call>", "malformed_call", "not valid JSON"),
        ("<tool_call></tool_call>", "malformed_call", "not valid JSON"),
        ('<tool_call>["click", {}]</tool_call>', "malformed_call", "not one JSON object"),
        ('<tool_call>{"name": "click", "arguments": {}}}</tool_call>', "malformed_call", "stands between"),
        ('<tool_call>{"arguments": {"x": 1}}</tool_call>', "malformed_call", "no name"),
        ('<tool_call>{"name": "", "arguments": {"x": 1}}</tool_call>', "malformed_call", "no name"),
        ('<tool_call>{"name": "malformed_call", "arguments": {}}</tool_call>', "malformed_call", "no name"),
        ('<tool_call>{"name": "click", "parameters": {"x": 1}}</tool_call>', "malformed_call", "no arguments"),
        ('<tool_call>{"name": "click", "arguments": "{}"}</tool_call>', "bad_arguments", "must be a JSON object"),
        ('<tool_call>{"name": "click", "arguments": [1]}</tool_call>', "bad_arguments", "must be a JSON object"),
        ('<tool_call>{"name": "click", "arguments": {"x": "one"}}</tool_call>', "bad_arguments", "integer"),
        ('<tool_call>{"name": "clack", "arguments": {}}</tool_call>', "unknown_tool", "Did you mean 'click'?"),
    ],
)  # fmt: skip
def test_call_that_cannot_be_made_is_answered_by_what_is_wrong(text: str, kind: str, says: str) -> None:
    found, error = problem(text)
    assert found == kind
    assert says in error


def test_call_without_arguments_has_none() -> None:
    assert asked(read('<tool_call>{"name": "goback"}</tool_call>')) == [("goback", "{}")]


def test_a_broken_call_does_not_take_the_next_one_with_it() -> None:
    good = ToolCall("", "click", '{"x": 2}')
    for broken in ("<tool_call>{oh", "<tool_call>{oh</tool_call>", "oh</tool_call>"):
        assert [name for name, _ in asked(read(f"{broken}\n{write_calls([good])}"))] == [MALFORMED_CALL, "click"]


CALL = '<tool_call>\n{"name": "click", "arguments": {"x": 1}}\n</tool_call>'


@pytest.mark.parametrize("before", ["<think>\nI see.\n</think>\n\n", "I see.\n</think>\n\n", "\n<think>I see.</think>"])
def test_reasoning_is_read_out_of_the_text_and_sent_back_by_the_rule(before: str) -> None:
    message = read(f"{before}Clicking.\n{CALL}")
    assert message.reasoning == "I see."
    assert message.content == "Clicking."
    assert asked(message) == [("click", '{"x": 1}')]
    assert TextDialect().show(message).content == f"{before}Clicking.\n{CALL}", "to the letter"
    assert TextDialect().show(message.without_reasoning()).content == f"Clicking.\n{CALL}"
    exported = TextDialect().export(message)
    assert (exported.reasoning, exported.content) == ("I see.", f"Clicking.\n{CALL}")


def test_calls_within_reasoning_are_only_thought_of() -> None:
    assert asked(read(f"<think>Perhaps {CALL}?</think>No.")) == []
    assert asked(read(f"Perhaps {CALL}?</think>No.")) == []
    assert problem(f"<think>Perhaps {CALL}", must_call=True)[1].startswith(
        "The call could not be read: the answer ends"
    )


def test_marks_within_the_strings_of_a_call_are_only_text() -> None:
    text = '<tool_call>{"name": "type", "arguments": {"text": "</think></tool_call><tool_call>"}}</tool_call>'
    message = read(text)
    assert asked(message) == [("type", '{"text": "</think></tool_call><tool_call>"}')]
    assert message.reasoning is None


def test_reasoning_that_the_server_gave_apart_stays_apart() -> None:
    message = read(f"Now.\n{CALL}", reasoning="apart")
    assert TextDialect().show(message) == Message(role="assistant", content=f"Now.\n{CALL}", reasoning="apart")
    assert TextDialect().show(message.without_reasoning()).reasoning is None


def test_empty_reasoning_stays_in_the_text_where_it_was() -> None:
    text = f"<think>\n\n</think>\n\n{CALL}"
    message = read(text)
    assert message.reasoning is None
    assert TextDialect().show(message).content == text


def test_text_dialect_sends_results_as_user_messages_and_tools_in_the_system_prompt() -> None:
    dialect = TextDialect()
    shown = dialect.show(Message(role="tool", content="ok", tool_call_id="c", images=("a.png",)))
    assert shown == Message(role="user", content="<tool_response>\nok\n</tool_response>", images=("a.png",))
    system = dialect.system("Be brief.", TOOLS) or ""
    listed = system.partition("<tools>\n")[2].partition("\n</tools>")[0]
    assert [json.loads(entry) for entry in listed.split("\n")] == [spec.to_json() for spec in TOOLS.specs]
    assert system.startswith("Be brief.")
    assert not len(dialect.sent(TOOLS))
    assert dialect.system(None, Toolset()) is None


def test_model_that_calls_by_itself_speaks_text_as_if_it_had_written_it() -> None:
    call = ToolCall("own", "click", '{"x": 1}')
    generation = Generation(Message(role="assistant", content="Now.", tool_calls=(call,)))
    message = TextDialect().read(generation, 3).message
    assert message.text == f"Now.\n{CALL}"
    assert asked(message) == [("click", '{"x": 1}')]
    assert NATIVE.read(generation, 3) is generation


def test_calls_of_an_opening_are_shown_as_text() -> None:
    opening = Message(role="assistant", content="Now.", tool_calls=(ToolCall("c", "click", '{"x": 1}'),))
    assert TextDialect().show(opening).content == f"Now.\n{CALL}"


def test_native_calls_named_like_a_malformed_one_are_unknown_tools_in_words() -> None:
    result: Any = CallReader(TOOLS).read(ToolCall("c", MALFORMED_CALL, "[1]"))
    assert result.is_error
