"""Reading tool calls: nothing a model writes can raise, run elsewhere, or slip past the schema."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.core.calls import CallReader, answer_calls
from rollout.core.errors import WorldError
from rollout.core.messages import ToolCall, ToolResult, Toolset, ToolSpec
from rollout.core.world import Invocation, World

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
    "required": ["name"],
    "additionalProperties": False,
}
READER = CallReader(Toolset((ToolSpec("order", "", SCHEMA), ToolSpec("cancel"))))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "count", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.text(max_size=20), st.text(max_size=60))
def test_any_text_is_an_invocation_or_an_error_observation(name: str, arguments: str) -> None:
    read = READER.read(ToolCall("id", name, arguments))
    if isinstance(read, ToolResult):
        assert read.call_id == "id"
        assert read.is_error
        assert json.loads(read.content)["error"]
    else:
        assert name in ("order", "cancel")


@given(values)
def test_arguments_pass_exactly_when_they_fit_the_schema(value: object) -> None:
    fits = (
        isinstance(value, dict)
        and set(value) <= {"name", "count"}
        and isinstance(value.get("name"), str)
        and ("count" not in value or (_is_integer(value["count"]) and value["count"] >= 1))
    )
    read = READER.read(ToolCall("id", "order", json.dumps(value)))
    assert isinstance(read, Invocation) == fits


def _is_integer(value: object) -> bool:
    # JSON schema counts 3.0 as an integer.
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


def test_arguments_nested_beyond_reason_are_refused_in_words() -> None:
    read = READER.read(ToolCall("id", "order", '{"name":' + "[" * 5000))
    assert isinstance(read, ToolResult)


def test_no_arguments_at_all_are_an_empty_object() -> None:
    assert READER.read(ToolCall("id", "cancel", "")) == Invocation("id", "cancel", {})


def test_broken_schema_checks_nothing_and_harms_nobody() -> None:
    reader = CallReader(Toolset((ToolSpec("odd", "", {"type": "no such type"}),)))
    assert isinstance(reader.read(ToolCall("id", "odd", '{"a": 1}')), Invocation)


def test_a_set_of_tools_is_iterated_over_its_tools() -> None:
    assert [spec.name for spec in Toolset((ToolSpec("order"), ToolSpec("cancel")))] == ["order", "cancel"]


@pytest.mark.parametrize("levels", [201, 256, 900, 5000])
def test_arguments_that_are_nested_too_deeply_are_bad_arguments_whatever_the_schema(levels: int) -> None:
    reader = CallReader(Toolset((ToolSpec("order", "", SCHEMA), ToolSpec("any"))))
    for name in ("order", "any"):
        read = reader.read(ToolCall("id", name, f'{{"name": {"[" * levels}{"]" * levels}}}'))
        assert isinstance(read, ToolResult)
        assert read.error_kind == "bad_arguments"
        assert "nested too deeply" in read.content


def test_many_lists_side_by_side_are_not_deep() -> None:
    reader = CallReader(Toolset((ToolSpec("any"),)))
    assert isinstance(reader.read(ToolCall("id", "any", f'{{"x": [{"[]," * 500}1]}}')), Invocation)


class _Careless(World):
    """Answers every call with what it was made with."""

    def __init__(self, *given: object) -> None:
        self.given = given

    async def call(self, calls: Sequence[Invocation]) -> list[ToolResult]:
        return list(self.given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([], "one ToolResult for each call"),
        (["done"], "one ToolResult for each call"),
        ([ToolResult("other", "done")], r"with its call_id: \['id'\]"),
        ([ToolResult("id", "done"), ToolResult("id", "done")], "one ToolResult for each call"),
        ([ToolResult("id", 5)], "expected a ToolResult"),  # type: ignore[arg-type]
        ([ToolResult("id", "done", end="over")], "end is 'over'; expected None, 'answered' or 'world_done'"),  # type: ignore[arg-type]
    ],
)
async def test_a_world_that_breaks_its_contract_is_named(given: list[object], named: str) -> None:
    with pytest.raises(WorldError, match=rf"_Careless\.call: .*{named}"):
        await answer_calls([ToolCall("id", "cancel", "{}")], READER, _Careless(*given))
