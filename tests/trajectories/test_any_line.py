"""Whatever a trajectory holds comes through label and export, as far as the format can hold it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given

from rollout.agents.turns import split_turns
from rollout.core.messages import Message, ToolCall, message_from_json, message_to_json, read_arguments
from rollout.trajectories.exports.exporter import BUILT_IN, Unfit, find_exporter
from rollout.trajectories.exports.sharegpt import BETWEEN_RESULTS
from rollout.trajectories.labels import Prompt, add_label, make_example
from rollout.trajectories.saved import read_saved
from tests.trajectories.lines import conversations, line, prompts
from tests.trajectories.test_sharegpt import check_order, read_calls

Talk = tuple[Message, ...]


def with_system(messages: Talk, prompt: Prompt) -> Talk:
    return messages if prompt.system is None else (Message(role="system", content=prompt.system), *messages)


def record(format_: str, messages: Talk, prompt: Prompt) -> dict[str, Any]:
    """What a reader of the file gets."""
    made = find_exporter(format_).convert(make_example(read_saved(line("a", messages)), prompt))
    decoded: dict[str, Any] = json.loads(msgspec.json.encode(made))
    return decoded


@given(conversations, prompts)
def test_label_holds_line_and_prompt_whole(messages: Talk, prompt: Prompt) -> None:
    saved = read_saved(line("a", messages, marks=["m"]))
    labelled = add_label(saved, prompt)
    assert labelled.count(b"\n") == 1
    assert labelled.endswith(b"\n")
    again = read_saved(labelled)
    assert again.is_labelled
    assert again.read_messages() == with_system(messages, prompt)
    assert bytes(again.fields["tools"]) == prompt.wire
    assert again.metadata == saved.metadata
    assert make_example(again, None) == make_example(saved, prompt), "an export of either is the same"


@given(conversations, prompts)
def test_add_key_loses_nothing(messages: Talk, prompt: Prompt) -> None:
    made = record("add_key", messages, prompt)
    assert tuple(map(message_from_json, made["messages"])) == with_system(messages, prompt)
    assert made["tools"] == prompt.tools


@given(conversations, prompts)
def test_conversational_form_loses_nothing_but_the_spelling_of_arguments(messages: Talk, prompt: Prompt) -> None:
    made = record("trl", messages, prompt)
    assert made["tools"] == prompt.tools
    for entry, message in zip(made["messages"], with_system(messages, prompt), strict=True):
        expected = message_to_json(message)
        for call, written in zip(message.tool_calls, expected.get("tool_calls", ()), strict=True):
            written["function"]["arguments"] = read_arguments(call)
        entry.pop("name", None)
        assert entry == expected


@given(conversations, prompts)
def test_openai_loses_only_reasoning_and_what_follows_the_last_answer(messages: Talk, prompt: Prompt) -> None:
    made = record("openai", messages, prompt)
    assert made.get("tools", []) == prompt.tools
    kept = with_system(messages, prompt)[: len(made["messages"])]
    assert all(message.role != "assistant" for message in with_system(messages, prompt)[len(kept) :])
    for entry, message in zip(made["messages"], kept, strict=True):
        read = message_from_json(entry)
        assert (read.role, read.content or "", read.tool_call_id) == (
            message.role,
            message.content or "",
            message.tool_call_id,
        )
        assert entry["content"] is not None or entry["tool_calls"]
        assert [(call.id, call.name, json.loads(call.arguments)) for call in read.tool_calls] == [
            (call.id, call.name, read_arguments(call)) for call in message.tool_calls
        ]


@given(conversations, prompts)
def test_sharegpt_keeps_its_order_and_every_call(messages: Talk, prompt: Prompt) -> None:
    try:
        made = record("sharegpt", messages, prompt)
    except Unfit as error:
        assert "<tool_call>" in str(error)
        return
    check_order(made)
    assert made["system"] == (prompt.system or "")
    assert json.loads(made["tools"] or "[]") == prompt.tools
    calls = [read_calls(turn["value"])[1] for turn in made["conversations"] if turn["from"] == "function_call"]
    assert calls == [
        [{"name": call.name, "arguments": read_arguments(call)} for call in message.tool_calls]
        for message in messages
        if message.tool_calls
    ]
    said = "\0".join(turn["value"] for turn in made["conversations"])
    for message in messages[: -1 if messages[-1].role == "user" else None]:
        assert (message.content or "") in said
        assert (message.reasoning or "") in said
    results = sum(
        turn["value"].count(BETWEEN_RESULTS) + 1 for turn in made["conversations"] if turn["from"] == "observation"
    )
    assert results == sum(message.role == "tool" for message in messages)


@given(conversations, prompts)
def test_turns_cover_the_conversation_and_convert_to_every_format(messages: Talk, prompt: Prompt) -> None:
    example = make_example(read_saved(line("a", messages)), prompt)
    parts = list(split_turns(example))
    learnt = [message for part in parts for message in part.messages[part.context :]]
    assert [message for message in learnt if message.role != "user"] == [
        message for message in messages if message.role != "user"
    ]
    for part in parts:
        for format_ in BUILT_IN:
            try:
                assert find_exporter(format_).convert(part)
            except Unfit as error:
                assert "<tool_call>" in str(error)


def test_arguments_that_are_no_json_are_shown_as_the_model_was_shown_them() -> None:
    messages = (
        Message(role="user", content="x"),
        Message(role="assistant", tool_calls=(ToolCall("c", "f", '{"broken": '), ToolCall("d", "f", '{"big": 1e999}'))),
    )
    prompt = Prompt(None, b"[]", [])
    for format_, read in (("trl", lambda text: text), ("openai", json.loads)):
        calls = record(format_, messages, prompt)["messages"][1]["tool_calls"]
        assert read(calls[0]["function"]["arguments"]) == {"malformed_arguments": '{"broken": '}
    written = record("add_key", messages, prompt)["messages"][1]["tool_calls"]
    assert [call["function"]["arguments"] for call in written] == ['{"broken": ', '{"big": 1e999}']
