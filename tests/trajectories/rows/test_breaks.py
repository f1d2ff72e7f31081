"""Why a row ends: told from messages, and from ids where messages do not tell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollout.agents.dialects import NATIVE
from rollout.agents.exchanges import exchanges_of
from rollout.agents.formats import make_dialect
from rollout.agents.view import ReasoningRule
from rollout.agents.viewing import Viewing
from rollout.core.messages import Message
from rollout.trajectories.labels import Example
from rollout.trajectories.rows.breaks import break_in_ids, break_in_messages
from rollout.trajectories.rows.exchange import Exchange, Ids, pack
from rollout.trajectories.rows.stretches import prefix_merge
from rollout.trajectories.rows.text_rows import text_row
from tests.trajectories.lines import CONVERSATION, TOOLS
from tests.trajectories.lines import example as make_example
from tests.trajectories.rows.made import asked, exchange, said, told

TWO_TURNS = (*CONVERSATION, said("Gladly.", thought="Polite."), asked("Bye."), said("Bye."))


def example(messages: tuple[Message, ...], viewing: Viewing, **more: Any) -> Example:
    metadata = {"reasoning": {"rule": str(viewing.rule)}, "view": viewing.record(1)}
    return make_example((Message(role="system", content="Be kind."), *messages), TOOLS, metadata, **more)


def causes(found: Example) -> list[str]:
    return [stretch.begins for stretch in prefix_merge(exchanges_of(found), break_in_messages)]


@pytest.mark.parametrize(
    ("viewing", "expected"),
    [
        (Viewing(ReasoningRule.KEEP_ALL), ["start"]),
        (Viewing(ReasoningRule.KEEP_TOOL_TURNS), ["start", "reasoning"]),
        (Viewing(ReasoningRule.CLEAR_ON_USER_TURN), ["start", "reasoning", "reasoning"]),
        (Viewing(ReasoningRule.DROP), ["start", "reasoning", "reasoning", "reasoning"]),
        (Viewing(ReasoningRule.KEEP_ALL, make_dialect("text")), ["start"]),
        (Viewing(ReasoningRule.KEEP_ALL, NATIVE, max_rounds=2), ["start", "window", "window"]),
    ],
)
def test_breaks_come_from_what_the_view_leaves_out(viewing: Viewing, expected: list[str]) -> None:
    assert causes(example(TWO_TURNS, viewing)) == expected


def test_thoughts_in_the_text_that_are_cleared_are_reasoning_too() -> None:
    raw = "<think>Hm.</think>Three."
    answer = Message(role="assistant", content="Three.", reasoning="Hm.", raw=raw)
    messages = (asked(), answer, asked("Again."), said("Three."))
    assert causes(example(messages, Viewing(dialect=make_dialect("text")))) == ["start", "reasoning"]


def test_images_that_are_no_longer_sent_end_a_row() -> None:
    seen = [Message(role="tool", content="a page", tool_call_id=name, images=(f"{name}.png",)) for name in "ab"]
    messages = (asked(), said(call="a"), seen[0], said(call="b"), seen[1], said("Done."))
    viewing = Viewing(ReasoningRule.KEEP_ALL, images="data", max_images=1)
    assert causes(example(messages, viewing)) == ["start", "images"]


def test_other_tools_end_a_row_and_each_row_has_its_own() -> None:
    found = example(TWO_TURNS, Viewing(ReasoningRule.KEEP_ALL), offers={1: TOOLS[:1]})
    stretches = list(prefix_merge(exchanges_of(found), break_in_messages))
    assert [stretch.begins for stretch in stretches] == ["start", "tools"]
    assert [len(text_row("a", stretch).tools) for stretch in stretches] == [2, 1]


def with_ids(exchange: Exchange, prompt: list[int], completion: list[int], drift: str | None = None) -> Exchange:
    return msgspec.structs.replace(exchange, ids=Ids(pack(prompt), pack(completion), drift=drift))


@pytest.mark.parametrize(
    ("second", "between", "expected"),
    [
        ([1, 2, 3, 4, 5], told("c"), None),
        ([1, 2, 7, 4, 5], told("c"), "calls"),
        ([1, 7, 3, 4, 5], told("c"), "template"),
        ([1, 7, 3, 4, 5], asked("And?"), "user_turn"),
        ([1, 2, 3], told("c"), "calls"),
    ],
)
def test_ids_decide_where_they_are_known(second: list[int], between: Message, expected: str | None) -> None:
    first = exchange([asked()], said(call="c"))
    after = exchange([asked(), said(call="c"), between], said("Done."))
    assert break_in_messages(first, after) is None
    assert break_in_ids(with_ids(first, [1, 2], [3, 4]), with_ids(after, second, [6])) == expected


def test_ids_that_hold_although_messages_changed_are_one_row() -> None:
    first = exchange([asked()], said("Three.", thought="Hm."))
    after = exchange([asked(), said("Three."), asked("Again.")], said("Three."))
    assert break_in_messages(first, after) == "reasoning"
    assert break_in_ids(with_ids(first, [1], [2]), with_ids(after, [1, 2, 3], [4])) is None
    assert break_in_ids(with_ids(first, [1], [2]), with_ids(after, [1, 3], [4])) == "reasoning"
    assert break_in_ids(with_ids(first, [1], [2]), after) == "no_ids"


def test_an_answer_that_is_not_learnt_is_context_of_the_next_row_of_text() -> None:
    messages = [asked(), said(call="a"), told("a"), said(call="b"), told("b"), said("Done.")]
    exchanges = [exchange(messages[:place], messages[place], is_learnt=place != 3) for place in (1, 3, 5)]
    stretches = list(prefix_merge(exchanges, break_in_messages, can_mask=False))
    assert [(stretch.begins, stretch.is_learnt) for stretch in stretches] == [
        ("start", True), ("masked", False), ("masked", True)
    ]  # fmt: skip
    last = text_row("a", stretches[2])
    assert [message["role"] for message in last.prompt] == ["user", "assistant", "tool", "assistant", "tool"]
    assert [message["content"] for message in last.completion] == ["Done."]
    assert [stretch.begins for stretch in prefix_merge(exchanges, break_in_messages)] == ["start"], "ids can be masked"
