"""The monitor's rules, each with its own reason."""

from __future__ import annotations

import pytest

from rollout.agents.monitor import Monitor, MonitorRules
from rollout.core.messages import Message, ToolCall
from rollout.trajectories.stop import Status, StopReason, status_of


def says(text: str) -> Message:
    return Message(role="assistant", content=text)


def asks(arguments: str = "{}") -> Message:
    return Message(role="assistant", tool_calls=(ToolCall("c", "tool", arguments),))


def test_turns_without_tools_are_counted_in_a_row() -> None:
    monitor = Monitor(MonitorRules(max_no_tool_turns=2))
    assert monitor.saw_generation(says("a")) is None
    assert monitor.saw_generation(asks()) is None
    assert monitor.saw_generation(says("b")) is None, "this turn called a tool"
    assert monitor.saw_generation(says("c")) is None
    assert monitor.saw_generation(says("d")) is StopReason.MONITOR_NO_TOOL


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_repeated_words_end_it_at_exactly_max_repeats(most: int) -> None:
    monitor = Monitor(MonitorRules(max_repeats=most))
    told = [monitor.saw_generation(says("same")) for _ in range(most)]
    assert told == [None] * (most - 1) + [StopReason.MONITOR_REPEATED]


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_a_repeated_call_ends_it_at_exactly_max_repeats_with_a_reason_of_its_own(most: int) -> None:
    monitor = Monitor(MonitorRules(max_repeats=most))
    told = [monitor.saw_generation(asks()) for _ in range(most)]
    assert told == [None] * (most - 1) + [StopReason.MONITOR_REPEATED_CALLS]
    assert str(StopReason.MONITOR_REPEATED_CALLS) == "monitor_repeated_calls"
    assert status_of(StopReason.MONITOR_REPEATED_CALLS) is Status.TRUNCATED


def test_calls_with_other_arguments_are_no_repetition() -> None:
    monitor = Monitor(MonitorRules(max_repeats=3))
    assert [monitor.saw_generation(asks(f'{{"page": {n}}}')) for n in range(9)] == [None] * 9


def test_the_same_call_after_a_word_to_the_user_is_no_repetition() -> None:
    monitor = Monitor(MonitorRules(max_repeats=2))
    assert [monitor.saw_generation(said) for said in (asks(), says("a"), asks(), says("b"), asks())] == [None] * 5


def test_empty_replies_in_a_row_end_it() -> None:
    monitor = Monitor(MonitorRules(max_empty_replies=2))
    assert monitor.saw_generation(says(" ")) is None
    assert monitor.saw_generation(says("word")) is None
    assert monitor.saw_generation(says("")) is None
    assert monitor.saw_generation(says("")) is StopReason.MONITOR_EMPTY


def test_words_of_farewell_count_only_where_switched_on() -> None:
    text = "Your request has been completed. Have a great day!"
    assert Monitor(MonitorRules()).saw_generation(says(text)) is None
    assert Monitor(MonitorRules(completion_phrases=True)).saw_generation(says(text)) is StopReason.MONITOR_PHRASE
    assert Monitor(MonitorRules(completion_phrases=True)).saw_generation(says("Which section?")) is None


def test_zero_switches_a_rule_off() -> None:
    monitor = Monitor(MonitorRules(0, 0, 0))
    assert [monitor.saw_generation(says("")) for _ in range(20)] == [None] * 20


def test_every_stop_reason_leads_to_a_status() -> None:
    assert {status_of(reason).value for reason in StopReason} == {"completed", "truncated", "cut", "failed"}
