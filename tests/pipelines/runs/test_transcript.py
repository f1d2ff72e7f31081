"""Trajectories as people read them: who speaks, which result belongs to which call, and what is marked."""

from __future__ import annotations

from rollout.core.messages import Message, ToolCall
from rollout.pipelines.runs.transcript import make_transcript
from rollout.trajectories.filters.marks import Filtered, Mark
from rollout.trajectories.generation import Failure, Generation, Usage
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import NodeBody


def said(text: str, *calls: ToolCall, **facts: object) -> NodeBody:
    message = Message("assistant", text, tuple(calls))
    return NodeBody("generation", generation=Generation(message, **facts))  # type: ignore[arg-type]


def answered(call_id: str, text: str, **facts: object) -> NodeBody:
    return NodeBody("tool", message=Message("tool", text, tool_call_id=call_id), **facts)  # type: ignore[arg-type]


NODES = (
    NodeBody("opening", message=Message("user", "Two things, please.")),
    said(
        "Both at once.",
        ToolCall("same", "first", '{"a": 1}'),
        ToolCall("same", "second", "not json"),
        ToolCall("lost", "third"),
        usage=Usage(10, 5),
        latency=0.5,
        failures=(Failure("model", "HTTP 503"),),
    ),
    answered("same", "one"),
    answered("same", '{"error": "two"}', error_kind="bad_arguments", is_undone=True),
    NodeBody("note", message=Message("user", "Be brief.")),
    NodeBody("user", message=Message("user", "And now?"), marks=("told_unknown",)),
    said("Done."),
    NodeBody("user", message=Message("user", "Bye."), end="stop"),
)


def trajectory() -> Trajectory:
    return Trajectory("t1", "t1", True, {"status": "completed"}, nodes=NODES)


def test_results_stand_with_their_calls_also_where_ids_are_the_same() -> None:
    first, second, third = make_transcript(trajectory()).messages[1].calls
    assert (first.name, first.arguments, first.result, first.error_kind) == ("first", {"a": 1}, "one", None)
    assert (second.arguments, second.written) == (None, "not json")
    assert (second.error_kind, second.is_undone) == ("bad_arguments", True)
    assert third.result is None, "nobody answered it"


def test_every_message_is_there_once_and_says_who_speaks() -> None:
    messages = make_transcript(trajectory()).messages
    assert [message.speaker for message in messages] == ["user", "agent", "note", "user", "agent", "user"]
    assert [message.turn for message in messages] == [1, None, None, 2, None, None], "a last word begins no turn"
    assert [message.step for message in messages if message.step] == [1, 2]


def test_faults_of_the_user_and_retries_are_where_they_happened() -> None:
    messages = make_transcript(trajectory()).messages
    assert messages[3].marks == ("told_unknown",)
    agent = messages[1]
    assert (agent.prompt_tokens, agent.completion_tokens, agent.seconds, agent.retries) == (10, 5, 0.5, 1)


def test_what_filters_decided_is_shown_at_each_message() -> None:
    whole = Mark("constant_groups", "keep", "all alike")
    record = Filtered(
        "t1", "data", "t1", "completed", "truncate", ("void_turns",), (0,), (1,), 6, True, (whole,), (), "digest"
    )
    transcript = make_transcript(trajectory(), record)
    assert transcript.filter_marks == (whole,)
    assert [message.is_masked for message in transcript.messages] == [False, True, False, False, False, False]
    assert [message.is_cut_off for message in transcript.messages] == [False, False, False, False, True, True]


def test_messages_alone_can_be_shown() -> None:
    given = tuple(body.said for body in NODES if body.said is not None)
    messages = make_transcript(Trajectory("t1", "t1", True, {}, given=given)).messages
    assert [message.speaker for message in messages] == ["user", "agent", "user", "user", "agent", "user"]
    assert messages[1].calls[0].result == "one"
