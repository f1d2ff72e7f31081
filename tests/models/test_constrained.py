"""Constrained answers: the schema allows nothing the tool would refuse, and what it allows reads back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema_rs import meta, validator_for

from rollout.core.errors import ConfigError
from rollout.core.messages import ToolSpec
from rollout.models.constrained import MAX_ITEMS, parse_constrained, response_format

CHARACTERS = 'aZ9 "\\/{}[],:\n\t\x00é\u2028🎉'
names = st.text("abcdefgh_", min_size=1, max_size=6)
leaves = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({}),
    st.just(True),
    st.just({"type": "number", "minimum": -3.5}),
    st.just({"$ref": "#/$defs/leaf"}),
    st.just({"$ref": "#/$defs/chain"}),
    st.just({"allOf": [{"$ref": "#/$defs/leaf"}], "description": "as pydantic once wrote it"}),
    st.builds(
        lambda low, span: {"type": "string", "minLength": low, "maxLength": low + span}, *[st.integers(0, 30)] * 2
    ),
    st.builds(
        lambda low, span: {"type": "integer", "minimum": low, "exclusiveMaximum": low + span},
        st.floats(-9, 9),
        st.integers(2, 99),
    ),
    st.builds(lambda values: {"enum": values}, st.lists(st.integers() | names, min_size=1, max_size=3)),
    st.builds(lambda value: {"const": value}, names),
)


def _object_of(properties: dict[str, Any], required: int) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)[:required], "title": "Anything"}


schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(_object_of, st.dictionaries(names, inner, max_size=3), st.integers(0, 3)),
        st.builds(lambda item, least: {"type": "array", "items": item, "minItems": least}, inner, st.integers(0, 2)),
        st.builds(lambda options: {"anyOf": options, "default": None}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)
DEFS = {
    "leaf": {"type": ["string", "null"], "pattern": ".*", "x-extension": 1},
    "chain": {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#/$defs/chain"}, {"type": "null"}]}},
        "required": ["next"],
    },
}


@st.composite
def tools(draw: st.DrawFn) -> ToolSpec:
    properties = draw(st.dictionaries(names, schemas, max_size=4))
    return ToolSpec(draw(names), "", {**_object_of(properties, draw(st.integers(0, 4))), "$defs": DEFS})


def instances(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Everything that a schema made by `response_format` allows."""
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([instances(option) for option in schema["anyOf"]])
    match schema["type"]:
        case "string":
            return st.text(CHARACTERS, min_size=schema.get("minLength", 0), max_size=schema["maxLength"])
        case "integer":
            return st.integers(schema["minimum"], schema["maximum"])
        case "number":
            return st.floats(schema.get("minimum"), schema.get("maximum"), allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            items = instances(schema["items"])
            return st.lists(items, min_size=schema.get("minItems", 0), max_size=min(schema["maxItems"], 3))
        case "object":
            required = set(schema["required"])
            members = {name: instances(member) for name, member in schema["properties"].items()}
            return st.fixed_dictionaries(
                {name: member for name, member in members.items() if name in required},
                optional={name: member for name, member in members.items() if name not in required},
            )
    raise AssertionError(schema)


def made_schema(*offered: ToolSpec, may_reply: bool = True, max_text: int = 20) -> dict[str, Any]:
    made = response_format(offered, may_reply=may_reply, max_text=max_text, max_argument=20)
    assert made["type"] == "json_schema"
    schema: dict[str, Any] = made["json_schema"]["schema"]
    return schema


def arguments_schema(parameters: dict[str, Any]) -> Any:
    return made_schema(ToolSpec("t", "", parameters), may_reply=False)["properties"]["arguments"]


def assert_bounded(schema: dict[str, Any]) -> None:
    """Every place where a sampler could stay forever has an end, and no keyword is one that servers differ on."""
    if "const" in schema or "enum" in schema:
        assert len(schema) == 1
        return
    if "anyOf" in schema:
        assert set(schema) == {"anyOf"}
        for option in schema["anyOf"]:
            assert_bounded(option)
        return
    match schema["type"]:
        case "string":
            assert schema.keys() - {"minLength"} in ({"type", "maxLength"}, {"type", "format"})
        case "integer":
            assert schema.keys() == {"type", "minimum", "maximum"}
        case "array":
            assert schema["maxItems"] <= MAX_ITEMS
            assert_bounded(schema["items"])
        case "object":
            assert schema.keys() == {"type", "properties", "required", "additionalProperties"}
            assert schema["additionalProperties"] is False
            assert set(schema["required"]) <= set(schema["properties"])
            for member in schema["properties"].values():
                assert_bounded(member)


@given(st.lists(tools(), max_size=3), st.booleans())
def test_every_field_is_bounded_whatever_the_tools_ask_for(offered: list[ToolSpec], may_reply: bool) -> None:
    assume(offered or may_reply)
    assert_bounded(made_schema(*offered, may_reply=may_reply))


@given(st.data(), tools())
def test_whatever_the_schema_allows_the_tool_accepts(data: st.DataObject, tool: ToolSpec) -> None:
    schema = made_schema(tool, may_reply=False)
    assert meta.is_valid(schema)
    answer = data.draw(instances(schema))
    validator_for(tool.parameters).validate(answer["arguments"])


@given(st.data(), st.lists(tools(), min_size=1, max_size=3), st.sampled_from([None, 2]))
def test_whatever_the_schema_allows_reads_back_as_it_was(
    data: st.DataObject, offered: list[ToolSpec], indent: int | None
) -> None:
    answer = data.draw(instances(made_schema(*offered)))
    text, calls = parse_constrained(json.dumps(answer, indent=indent, ensure_ascii=data.draw(st.booleans())))
    if "reply" in answer:
        assert (text, calls) == (answer["reply"], [])
    else:
        [(name, arguments)] = calls
        assert text is None
        assert name == answer["name"]
        assert json.loads(arguments) == answer["arguments"]


@given(st.data(), tools())
def test_cut_answer_comes_back_as_the_text_it_is(data: st.DataObject, tool: ToolSpec) -> None:
    whole = json.dumps(data.draw(instances(made_schema(tool))))
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert parse_constrained(cut) == (cut, [])


@given(st.text(st.characters()))
def test_other_text_comes_back_unchanged(content: str) -> None:
    assert parse_constrained(content) == (content, [])


@pytest.mark.parametrize(
    "content",
    [
        '{"name": "t", "arguments": []}',
        '{"name": "t", "arguments": "{}"}',
        '{"name": "t", "arguments": {}, "more": 1}',
        '{"name": 1, "arguments": {}}',
        '{"name": "t", "arguments": {"a": "\\ud800"}}',
        '{"name": "t", "arguments": ' + '{"a":' * 100_000,
        '{"reply": null}',
        "[]",
        "\ud800",
    ],
)
def test_malformed_answer_is_text_and_no_error(content: str) -> None:
    assert parse_constrained(content) == (content, [])


def test_arguments_keep_the_numbers_the_model_wrote() -> None:
    _, calls = parse_constrained('{"name": "pay",\n "arguments": {"amount": 1.10, "account": 12345678901234567890123}}')
    assert calls == [("pay", '{"amount":1.10,"account":12345678901234567890123}')]


def test_answer_must_be_something() -> None:
    with pytest.raises(ConfigError, match="at least one tool"):
        response_format([], may_reply=False, max_text=10)


def test_reply_is_bounded_and_not_empty() -> None:
    assert made_schema(max_text=7) == {
        "type": "object",
        "properties": {"reply": {"type": "string", "minLength": 1, "maxLength": 7}},
        "required": ["reply"],
        "additionalProperties": False,
    }


def test_keywords_that_servers_ignore_are_dropped_and_fixed_formats_kept() -> None:
    properties = {
        "code": {"type": "string", "pattern": "^[A-Z]+$", "description": "d", "maxLength": 9},
        "day": {"type": "string", "format": "date"},
        "mail": {"type": "string", "format": "email"},
        "free": {"type": "object", "additionalProperties": True},
        "pair": {"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "null"}]},
    }
    made = arguments_schema({"type": "object", "properties": properties})["properties"]
    assert made["code"] == {"type": "string", "maxLength": 9}
    assert made["day"] == {"type": "string", "format": "date"}
    assert made["mail"] == {"type": "string", "maxLength": 20}
    assert made["free"] == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert made["pair"]["maxItems"] == made["pair"]["minItems"] == 2


def test_schema_that_contains_itself_ends() -> None:
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    made = arguments_schema({"properties": {"root": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}})
    assert made["properties"]["root"]["properties"]["children"]["maxItems"] == 0


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, (-(10**15 - 1), 10**15 - 1)),
        ({"minimum": 0.5, "maximum": 3.5}, (1, 3)),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 5}, (1, 4)),
        ({"minimum": 10**18}, (10**18, 10**18)),
        ({"maximum": -(10**18)}, (-(10**18), -(10**18))),
    ],
)
def test_integer_gets_both_limits(limits: dict[str, float], expected: tuple[int, int]) -> None:
    made = arguments_schema({"properties": {"n": {"type": "integer", **limits}}})["properties"]["n"]
    assert (made["minimum"], made["maximum"]) == expected


def test_parameters_that_are_no_schema_name_their_tool() -> None:
    with pytest.raises(ConfigError, match="tool broken"):
        response_format([ToolSpec("broken", "", {"properties": [1]})], may_reply=False, max_text=10)
