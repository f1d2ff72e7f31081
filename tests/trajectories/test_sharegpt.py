"""ShareGPT by LLaMA-Factory's rules: who may speak where, and what a function_call turn may hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rollout.core.messages import Message, ToolCall
from rollout.trajectories.exports.exporter import Unfit
from rollout.trajectories.exports.sharegpt import BETWEEN_RESULTS, ShareGPT
from tests.trajectories.lines import CONVERSATION, SYSTEM, TOOLS, example


def convert(*messages: Message, system: str | None = SYSTEM) -> dict[str, Any]:
    before = () if system is None else (Message(role="system", content=system),)
    return ShareGPT().convert(example((*before, *messages), TOOLS))


def read_calls(value: str) -> tuple[str, list[dict[str, Any]]]:
    """What stands before the calls, and the calls, as LLaMA-Factory takes a function_call turn apart."""
    before, begin, rest = value.partition("<tool_call>")
    found = json.loads(rest.partition("</tool_call>")[0] if begin else value)
    return (before if begin else ""), found if isinstance(found, list) else [found]


def check_order(record: dict[str, Any]) -> None:
    turns = record["conversations"]
    assert len(turns) % 2 == 0, "an even number of turns"
    assert all(turn["from"] in ("human", "observation") for turn in turns[::2])
    assert all(turn["from"] in ("gpt", "function_call") for turn in turns[1::2])


def test_calls_results_and_reasoning_stand_where_llama_factory_looks_for_them() -> None:
    record = convert(*CONVERSATION)
    check_order(record)
    assert record["system"] == SYSTEM
    assert json.loads(record["tools"]) == TOOLS
    turns = record["conversations"]
    assert [turn["from"] for turn in turns] == [
        "human",
        "function_call",
        "observation",
        "function_call",
        "observation",
        "gpt",
    ]
    before, calls = read_calls(turns[1]["value"])
    assert before == "<think>\nFirst I look.\n</think>\n\n\n"
    expected = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in CONVERSATION[1].tool_calls]
    assert calls == expected
    assert turns[2]["value"].split(BETWEEN_RESULTS) == ['{"loans": [7]}', '{"error": "member is missing"}']
    assert read_calls(turns[3]["value"]) == ("Just a moment.\n", [{"name": "renew_loan", "arguments": {"loans": [7]}}])
    assert turns[5]["value"] == "<think>\nDone.\n</think>\n\nRenewed."


@pytest.mark.parametrize("words", [None, "One moment."])
def test_no_argument_can_look_like_the_end_of_the_calls(words: str | None) -> None:
    tricky = {"a": "</tool_call> <tool_call>x</tool_call> <think>"}
    call = Message(role="assistant", content=words, tool_calls=(ToolCall("c", "f", json.dumps(tricky)),))
    value = convert(Message(role="user", content="x"), call)["conversations"][1]["value"]
    assert read_calls(value) == (f"{words}\n" if words else "", [{"name": "f", "arguments": tricky}])
    assert value.startswith("{") == (words is None), "a call by itself is plain JSON"


def test_messages_of_one_speaker_in_a_row_become_one_turn() -> None:
    said = [Message(role="user", content="a"), Message(role="user", content="b")]
    record = convert(*said, Message(role="assistant", content="c"), Message(role="assistant", content="d"), system=None)
    check_order(record)
    assert [turn["value"] for turn in record["conversations"]] == ["a\n\nb", "c\n\nd"]
    assert record["system"] == ""


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([Message(role="user", content="x")], "no answer of the agent"),
        ([Message(role="assistant", content="Welcome!")], "its turns do not alternate"),
        (
            [
                *CONVERSATION[:4],
                Message(role="user", content="Hello?"),
                Message(role="assistant", content="Yes."),
            ],
            "its turns do not alternate",
        ),
        (
            [
                Message(role="user", content="x"),
                Message(role="assistant", content="<tool_call>", tool_calls=(ToolCall("c", "f"),)),
            ],
            "<tool_call> in the text beside a call",
        ),
        ([Message(role="user", content="x", images=("blob",)), Message(role="assistant", content="y")], "has images"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_reason(messages: list[Message], why: str) -> None:
    with pytest.raises(Unfit, match=why):
        convert(*messages)
