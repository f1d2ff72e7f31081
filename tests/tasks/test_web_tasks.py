"""Lines of WebGym's task files, as ordinary tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.tasks.jsonl import TaskFile, parse_task
from rollout.tasks.web import flat_rubric, full_url, web_entry

LINE: dict[str, Any] = {
    "task_name": "Find the cheapest lamp.",
    "website": "shop.example.com",
    "domain": "Shopping",
    "subdomain": "Home",
    "difficulty": 2,
    "evaluator_reference": [{"id": 1, "description": "Price", "facts": ["It is a lamp", "It costs 9.50"]}],
    "definite_answer": "",
    "task_id": 17,
    "benchmark_name": "PAE-WebVoyager",
}


def without(*keys: str, **more: Any) -> dict[str, Any]:
    return {key: value for key, value in LINE.items() if key not in keys} | more


def test_line_becomes_an_ordinary_task_with_a_flat_rubric() -> None:
    task = parse_task(LINE)
    assert task.id == "17"
    assert [message.content for message in task.messages] == ["Find the cheapest lamp."]
    assert task.info["website"] == "https://shop.example.com"
    assert task.info["rubric"] == [
        {"description": "[Group 1: Price] It is a lamp", "difficulty": 1},
        {"description": "[Group 1: Price] It costs 9.50", "difficulty": 1},
    ]
    assert task.info["benchmark_name"] == "PAE-WebVoyager", "where it comes from is kept"


def test_our_own_keys_reach_the_task() -> None:
    extra = {
        "actions": [{"name": "answer", "arguments": {"text": "9.50"}}],
        "checks": [{"kind": "url", "contains": "/cart"}],
        "answer": {"equals": "9.50"},
        "hosts": ["cdn.example.com"],
        "private_hosts": ["localhost:8080"],
        "max_steps": 4,
        "start_url": "shop.example.com/lamps",
    }
    task = parse_task(without("evaluator_reference", **extra))
    assert task.actions is not None
    assert task.actions[0].arguments == {"text": "9.50"}
    assert {key: task.info[key] for key in extra} == {**extra, "start_url": "https://shop.example.com/lamps"}


def test_converted_line_is_a_task_line_itself() -> None:
    assert parse_task(web_entry(LINE)) == parse_task(LINE)


@pytest.mark.parametrize(
    ("given_rubric", "descriptions"),
    [
        ([{"id": "a", "description": "G", "facts": ["x", "y"]}], ["[Group a: G] x", "[Group a: G] y"]),
        ([{"description": "kept", "difficulty": 3}], ["kept"]),
        (["one", "two"], ["one", "two"]),
        ("just this", ["just this"]),
        ({"id": "a", "description": "G", "facts": ["x"]}, ["[Group a: G] x"]),
        (42, ["42"]),
        (
            ["one", {"description": "two"}, {"id": 3, "description": "G", "facts": ["z"]}],
            ["one", "two", "[Group 3: G] z"],
        ),
        ([], []),
        (None, []),
        ("  ", []),
    ],
)
def test_every_form_of_rubric_is_read(given_rubric: Any, descriptions: list[str]) -> None:
    assert [item["description"] for item in flat_rubric(given_rubric)] == descriptions


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "description", "facts", "difficulty"]), inner)
    ),
)


@given(_anything)
def test_any_rubric_becomes_a_list_of_described_items(rubric: Any) -> None:
    for item in flat_rubric(rubric):
        assert set(item) == {"description", "difficulty"}
        assert isinstance(item["description"], str)
        assert item["difficulty"] >= 1
    assert flat_rubric(flat_rubric(rubric)) == flat_rubric(rubric), "a flat rubric stays as it is"


@pytest.mark.parametrize("key", ["website", "domain", "subdomain", "difficulty", "evaluator_reference"])
def test_missing_field_is_named(key: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=key):
        web_entry(without(key))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task_name", "  "),
        ("task_name", 3),
        ("difficulty", 0),
        ("difficulty", "2"),
        ("difficulty", True),
        ("website", ""),
        ("website", "not an address"),
        ("website", "ftp://example.com"),
        ("website", "javascript:alert(1)"),
        ("start_url", "http://"),
        ("max_steps", 0),
        ("checks", "url"),
    ],
)
def test_wrong_value_is_refused_by_its_key(key: str, value: Any) -> None:
    with pytest.raises(msgspec.ValidationError, match=key):
        web_entry({**LINE, key: value})


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("example.com", "https://example.com"),
        ("http://a", "http://a"),
        ("HTTPS://Example.com/x", "HTTPS://Example.com/x"),
        ("localhost:8080/x", "https://localhost:8080/x"),
        ("httpbin.org", "https://httpbin.org"),
        ("//example.com/a", "https://example.com/a"),
        (" https://example.com ", "https://example.com"),
    ],
)
def test_scheme_is_added_only_where_there_is_none(text: str, url: str) -> None:
    assert full_url(text) == url


def test_task_without_id_keeps_the_same_one_and_differs_from_others() -> None:
    one, two = web_entry(without("task_id")), web_entry(without("task_id", difficulty=3))
    assert one["id"] == web_entry(without("task_id"))["id"]
    assert one["id"] != two["id"]


def test_bad_and_doubled_lines_of_a_file_are_told() -> None:
    lines = [LINE, without("domain", task_id=18), LINE, without("task_id"), without("task_id")]
    Path("train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = TaskFile(Path("train.jsonl"))
    assert len(found) == 2
    assert [problem.where for problem in found.problems] == ["train.jsonl:2", "train.jsonl:3", "train.jsonl:5"]
    assert "domain" in str(found.problems[0])
    assert "already in train.jsonl:1" in str(found.problems[1])
