"""Saved lines of all three kinds look the same: ours, labelled ones, flat AgentSkiller records."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any

import pytest

from rollout.core.errors import ConfigError
from rollout.trajectories.saved import (
    BadLine,
    SavedLine,
    read_saved,
    read_saved_at,
    read_saved_file,
    read_saved_places,
)
from rollout.trajectories.selection import Selection
from rollout.trajectories.stop import StopReason
from tests.trajectories.lines import line

MESSAGES = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", "tool_calls": None}]


def flat(**keys: Any) -> SavedLine:
    return read_saved(json.dumps({"id": "a", "messages": MESSAGES, "success": True, "error": None, **keys}).encode())


@pytest.mark.parametrize(
    ("keys", "status", "reason"),
    [
        ({"stopped": True, "transferred": False, "stop_reason": "user_token"}, "completed", "user_stop"),
        ({"stopped": False, "transferred": True, "stop_reason": "user_token"}, "completed", "user_transfer"),
        ({"out_of_scope": True, "stopped": False}, "completed", "user_out_of_scope"),
        ({"reached_max_turns": True, "total_turns": 20}, "truncated", "max_turns"),
        ({}, "completed", "agent_done"),
        ({"success": False, "error": "OpenAIException: 429"}, "failed", "error"),
        ({"success": False}, "failed", "error"),
        ({"success": False, "metadata": {"stop_reason": "user_stop", "total_turns": 2}}, "completed", "user_stop"),
    ],
)
def test_flags_of_the_seed_are_read_as_status_and_stop_reason(keys: dict[str, Any], status: str, reason: str) -> None:
    found = flat(**keys)
    assert (found.status, found.metadata["stop_reason"]) == (status, reason)
    assert found.task_id == "a"
    assert [message.content for message in found.read_messages()] == ["x", "y"]


def test_record_without_id_gets_one_from_its_content() -> None:
    one, two = flat(id=None), flat(id="", messages=MESSAGES[:1])
    assert len(one.id) == len(two.id) == 16
    assert one.id != two.id
    assert flat(id=None).id == one.id


def test_bad_lines_are_named_by_place_and_the_good_ones_are_read() -> None:
    path = Path("out.jsonl")
    path.write_bytes(b"\xef\xbb\xbf" + line("a") + b"\n[1]\n" + line("b") + b'{"id":"c"}\n' + line("d")[:50])
    found = dict(read_saved_file(path))
    assert [entry.id for entry in found.values() if isinstance(entry, SavedLine)] == ["a", "b"]
    assert [place for place, entry in found.items() if isinstance(entry, BadLine)] == [
        "out.jsonl:3", "out.jsonl:5", "out.jsonl:6"
    ]  # fmt: skip
    assert "'messages' is missing" in str(found["out.jsonl:5"])


def test_file_that_cannot_be_read_is_an_error_of_ours() -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        list(read_saved_file(Path("nowhere.jsonl")))


SCORED = {"scores": [{"name": "state", "value": 0.5}, {"name": "told", "value": None}], "marks": ["user_fault:x"]}


@pytest.mark.parametrize(
    ("selection", "reason"),
    [
        (Selection(), None),
        (Selection(statuses=frozenset({"truncated"})), "status completed"),
        (Selection(success=True), None),
        (Selection(success=False), "success"),
        (Selection(stop_reasons=frozenset({"user_transfer"})), "stop reason user_stop"),
        (Selection(min_scores=(("state", 0.5),)), None),
        (Selection(min_scores=(("state", 0.6),)), "score state below 0.6"),
        (Selection(min_scores=(("told", 0),)), "no score told"),
        (Selection(min_scores=(("other", 0),)), "no score other"),
        (Selection(with_marks=frozenset({"user_fault:x"})), None),
        (Selection(with_marks=frozenset({"user_fault:y"})), "without mark user_fault:y"),
        (Selection(without_marks=frozenset({"user_fault:x"})), "mark user_fault:x"),
        (Selection(without_marks=frozenset({"tool_error:timeout"})), "mark tool_error:timeout"),
    ],
)
def test_selection_says_why_it_leaves_out(selection: Selection, reason: str | None) -> None:
    found = read_saved(line("a", reason=StopReason.USER_STOP, tool_errors={"timeout": 2}, **SCORED))
    assert selection.reason_against(found) == reason


def test_a_line_is_read_again_from_where_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(codecs.BOM_UTF8 + line("a") + b"\n" + line("é") + b"nonsense\n" + line("c"))
    places = [(begin, found.id) for _, begin, found in read_saved_places(path) if isinstance(found, SavedLine)]
    assert [name for _, name in places] == ["a", "é", "c"]
    with path.open("rb") as file:
        assert [read_saved_at(file, begin).id for begin, _ in places] == ["a", "é", "c"]
