"""A finished attempt as scorers, filters and trainers read it: by typed properties, from its nodes or from its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.core.messages import Message, ToolCall
from rollout.store.reading.reader import open_reader
from rollout.trajectories.line import Failed, Head, UserCall, encode_line, with_dataset
from rollout.trajectories.saved import BadLine, SavedLine, read_saved, read_saved_file
from rollout.trajectories.stop import Status, StopReason
from rollout.trajectories.trajectory import Trajectory
from tests.conftest import roll_out
from tests.trajectories.lines import CONVERSATION, PROMPT, labelled, line, trajectory, values, write

OUT = Path("out.jsonl")
SHOP = {
    "datasets": {
        "shop": {
            "environment": "tests.environments.shop:shop",
            "agent": {"model": "builtin/oracle", "params": {"unknown_tool": 0.5}},
            "output_path": OUT,
            "samples": 4,
        }
    }
}


def saved() -> list[SavedLine]:
    return [found for _, found in read_saved_file(OUT) if isinstance(found, SavedLine)]


def recorded() -> list[Trajectory]:
    with open_reader(Path("run")) as reader:
        return list(reader.trajectories("shop"))


# ---- of a run --------------------------------------------------------------------------------------------------------


async def test_what_a_run_recorded_is_read_by_typed_properties() -> None:
    await roll_out(SHOP)
    for found in saved():
        assert found.status in list(Status)
        assert found.stop_reason in list(StopReason)
        assert (found.dataset, found.group, found.task_id) == ("shop", "t1", "t1")
        assert (found.model, found.user_model, found.error, found.unscored) == ("builtin/oracle", None, None, None)
        assert found.scored
        (score,) = found.scores
        assert (score.name, score.decides) == ("filled", True)
        assert found.reward == score.value == found.score("filled").value  # type: ignore[union-attr]
        assert found.score("unheard_of") is None
        assert (found.turns, found.opening) == (1, 1)
        assert found.generations == sum(message.role == "assistant" for message in found.messages)
        assert found.tool_calls == sum(len(message.tool_calls) for message in found.messages)
        assert found.usage.keys() == {"agent", "user", "judge"}
        assert found.timings.seconds >= 0
        assert found.branch is not None
        assert found.id == ("t1" if found.branch.number == 0 else f"t1~{found.branch.number}")
        assert (found.branch.reason, found.branch.parent, found.branch.lineage) == ("init", None, ())


async def test_a_trajectory_of_nodes_is_the_one_of_its_line() -> None:
    await roll_out(SHOP)
    of_lines = {found.id: found for found in saved()}
    for found in recorded():
        assert (found.system, found.tool_names) == ("You run a small shop.", {"add"})
        other = of_lines[found.id]
        assert other.nodes is None
        assert found.messages == other.messages
        assert found.metadata == other.metadata
        assert (found.opening, found.called) == (other.opening, other.called)
        assert encode_line(found, found.messages) == encode_line(other, other.messages)


async def test_errors_and_generations_are_known_by_the_indexes_of_messages() -> None:
    await roll_out(SHOP)
    errors = 0
    for found in recorded():
        errors += len(found.error_kinds)
        assert {found.messages[place].role for place in found.error_kinds} <= {"tool"}
        assert found.tool_errors == ({"unknown_tool": len(found.error_kinds)} if found.error_kinds else {})
        for place, generation in found.generated.items():
            assert generation.message is found.messages[place]
        asked = [call for place in found.generated for call in found.answered_calls(place)]
        assert len(asked) == found.tool_calls
        assert sum(kind == "unknown_tool" for _, _, kind in asked) == len(found.error_kinds)
    assert errors, "the agent of this run calls tools that do not exist"


async def test_messages_are_read_from_the_line_where_nodes_were_not_kept() -> None:
    await roll_out({**SHOP, "use_checkpoints": False})
    of_lines = {found.id: found for found in saved()}
    for found in recorded():
        assert found.nodes is None
        assert (found.error_kinds, found.generated, found.data) == ({}, {}, {})
        assert found.messages == of_lines[found.id].messages


# ---- of any line -----------------------------------------------------------------------------------------------------


def test_a_line_of_an_earlier_run_is_worth_its_success() -> None:
    assert read_saved(line(scored=True)).reward == 1.0
    assert read_saved(line(scored=True, success=False)).reward == 0.0
    assert read_saved(line()).reward is None, "nothing was checked"
    assert read_saved(line(scored=True, reason=StopReason.ERROR)).reward is None
    assert read_saved(line(scored=True, reward=None)).reward is None, "a run that recorded that there is none"


def test_what_is_not_on_record_is_neutral() -> None:
    found = read_saved(line("a", CONVERSATION))
    assert (found.dataset, found.model, found.branch, found.generations, found.view) == ("", None, None, None, None)
    assert (found.seed, found.cost, found.turns, found.opening) == (0, 0.0, 0, 0)
    assert (found.scores, found.usage, found.states, found.user_calls, found.prompt_names) == ((), {}, (), (), ())
    assert (found.system, found.tools, found.tool_names) == (None, [], frozenset())
    assert (found.group, with_dataset(found, "data").dataset) == ("a", "data")


def test_a_failure_says_what_broke() -> None:
    broken = read_saved(line(reason=StopReason.ERROR, error={"kind": "model", "text": "gone", "notes": ["twice"]}))
    assert broken.error == Failed("model", "gone", ("twice",))


def test_calls_of_the_user_are_objects() -> None:
    told = {"message": 3, "name": "press", "arguments": "{}", "result": "on"}
    assert read_saved(line(user_calls=[told])).user_calls == (UserCall(3, "press", "{}", "on"),)


def test_messages_that_cannot_be_read_are_a_bad_line() -> None:
    found = read_saved(b'{"id": "a", "messages": [{"role": 5}]}')
    with pytest.raises(BadLine):
        found.messages  # noqa: B018


PROPERTIES = [name for name, member in vars(Head).items() if isinstance(member, property)]
KEYS = (
    "status", "stop_reason", "error", "dataset", "group", "model", "seed", "scored", "unscored", "scores", "reward",
    "total_turns", "generations", "tool_call_count", "tool_errors", "marks", "unjudged", "usage", "cost", "timings",
    "branch", "states", "user_calls", "prompt", "prompts", "tokens", "reasoning", "view",
)  # fmt: skip
INNER = ("kind", "name", "value", "number", "lineage", "turn", "prompt", "drift", "rule", "opening", "agent", "seconds")
odd = values | st.floats() | st.just(10**400) | st.dictionaries(st.sampled_from(INNER), values, max_size=4)


@given(st.dictionaries(st.sampled_from(KEYS), odd | st.lists(odd, max_size=3), max_size=8))
def test_a_record_of_anybody_is_read_without_a_traceback(told: dict[str, Any]) -> None:
    found = Head("a", "a", True, told)
    for name in PROPERTIES:
        getattr(found, name)


# ---- of its parts ----------------------------------------------------------------------------------------------------


def test_data_and_errors_are_by_index_and_calls_go_with_their_results() -> None:
    calls = (ToolCall("same", "first", "{}"), ToolCall("same", "second", "{}"), ToolCall("none", "third", "{}"))
    messages = (
        Message(role="user", content="Go on."),
        Message(role="assistant", tool_calls=calls),
        Message(role="tool", content="1", tool_call_id="same"),
        Message(role="tool", content="2", tool_call_id="same"),
        Message(role="assistant", content="Done."),
    )
    made = trajectory(*messages, opening=1, errors={3: "timeout"}, data={2: {"url": "x"}})
    assert made.messages == messages
    assert (made.error_kinds, made.data, made.opening, made.called) == ({3: "timeout"}, {2: {"url": "x"}}, 1, True)
    found = [(call.name, result and result.content, kind) for call, result, kind in made.answered_calls(1)]
    assert found == [("first", "1", None), ("second", "2", "timeout"), ("third", None, None)]
    assert made.answered_calls(4) == []


def test_the_prompt_is_read_when_it_is_asked_for() -> None:
    made = trajectory(*CONVERSATION, prompt=PROMPT)
    assert made.system == PROMPT.system
    assert made.tools == PROMPT.tools
    assert made.tool_names == {"find_loans", "renew_loan"}


def test_a_labelled_line_counts_its_system_prompt_to_the_opening(tmp_path: Path) -> None:
    path = write(tmp_path / "labelled.jsonl", labelled(line(view={"opening": 1})))
    ((_, found),) = read_saved_file(path)
    assert isinstance(found, SavedLine)
    assert found.is_labelled
    assert (found.messages[0].role, found.opening) == ("system", 2)
