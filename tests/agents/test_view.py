"""What is sent: the reasoning rules, checked against a plain reading of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.agents.view import ContextView, ReasoningRule
from rollout.core.messages import Message, ToolCall, message_from_json, message_to_json


def by_the_book(messages: list[Message], rule: ReasoningRule) -> list[Message]:
    """The view worked out anew from the whole conversation."""
    turns: list[list[Message]] = [[]]
    for message in messages:
        if message.role == "user":
            turns.append([])
        turns[-1].append(message)
    shown: list[Message] = []
    for number, turn in enumerate(turns):
        is_last = number == len(turns) - 1
        called = any(message.tool_calls for message in turn)
        keeps = (
            rule is ReasoningRule.KEEP_ALL
            or (rule is ReasoningRule.CLEAR_ON_USER_TURN and is_last)
            or (rule is ReasoningRule.KEEP_TOOL_TURNS and (is_last or called))
        )
        shown += [message if keeps else message.without_reasoning() for message in turn]
    return shown


calls = st.lists(
    st.builds(
        ToolCall,
        id=st.text("abc", min_size=1, max_size=3),
        name=st.just("t"),
        arguments=st.sampled_from(["{}", '{"a": 1}']),
    ),
    max_size=2,
).map(tuple)
text = st.none() | st.text(max_size=10)
message = st.one_of(
    st.builds(Message, role=st.just("user"), content=st.text(max_size=10)),
    st.builds(Message, role=st.just("assistant"), content=text, tool_calls=calls, reasoning=text),
    st.builds(Message, role=st.just("tool"), content=st.text(max_size=10), tool_call_id=st.text("abc", min_size=1)),
)


@given(st.lists(message, max_size=14), st.sampled_from(ReasoningRule))
def test_growing_view_equals_the_rule_read_over_the_whole_conversation(
    said: list[Message], rule: ReasoningRule
) -> None:
    view = ContextView("system", rule)
    for entry in said:
        view.add(entry)
    assert view.messages[1:] == by_the_book(said, rule)
    assert json.loads(b"[" + b",".join(view.wire) + b"]") == [message_to_json(entry) for entry in view.messages]


@pytest.mark.parametrize("rule", ReasoningRule)
def test_long_conversation_is_sent_whole_in_few_pieces(rule: ReasoningRule) -> None:
    view = ContextView("system", rule)
    said = []
    for turn in range(200):
        said.append(Message(role="user", content=f"question {turn}"))
        said.append(Message(role="assistant", content=f"answer {turn}", reasoning=f"thought {turn}"))
        said.append(Message(role="assistant", content="more", reasoning="again"))
    for entry in said:
        view.add(entry)
    assert view.messages[1:] == by_the_book(said, rule)
    assert json.loads(b"[" + b",".join(view.wire) + b"]") == [message_to_json(entry) for entry in view.messages]
    assert len(view.wire) < 100


@given(st.lists(message, max_size=10))
def test_building_a_view_changes_no_message(said: list[Message]) -> None:
    before = [message_to_json(entry) for entry in said]
    view = ContextView(None, ReasoningRule.CLEAR_ON_USER_TURN)
    for entry in said:
        view.add(entry)
    assert [message_to_json(entry) for entry in said] == before


@given(message)
def test_saved_message_reads_back_as_itself(entry: Message) -> None:
    saved = json.loads(json.dumps(message_to_json(entry)))
    assert message_from_json(saved) == (entry if entry.reasoning != "" else entry.without_reasoning())


@given(st.text(max_size=20))
def test_broken_arguments_are_sent_as_an_object_that_holds_them(arguments: str) -> None:
    view = ContextView(None)
    asked = Message(role="assistant", tool_calls=(ToolCall("c", "t", arguments),))
    view.add(asked)
    sent = json.loads(json.loads(view.wire[0])["tool_calls"][0]["function"]["arguments"])
    assert isinstance(sent, dict)
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except ValueError:
        is_object = False
    if not is_object:
        assert sent == {"malformed_arguments": arguments}
    assert asked.tool_calls[0].arguments == arguments, "the record keeps what the model wrote"


@pytest.mark.parametrize("rule", ReasoningRule)
def test_every_rule_has_a_name_in_the_config(rule: ReasoningRule) -> None:
    from rollout.config.models import ModelEntry

    assert ModelEntry.model_validate({"reasoning": str(rule)}).reasoning == str(rule)
