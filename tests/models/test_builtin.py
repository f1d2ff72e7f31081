"""The built-in oracle: solves what it is told to, and errs as often as it is told to."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rollout.core.errors import ConfigError
from rollout.models.builtin.oracle import ERRORS, OracleModel
from tests.conftest import read_lines, roll_out

OUT = Path("out.jsonl")


async def portal(params: dict[str, float], **changes: Any) -> list[dict[str, Any]]:
    dataset = {
        "mcp_domain": "StudentAcademicPortal",
        "agent": {"model": "builtin/oracle", "params": params},
        "user": "builtin/user",
        "max_turns": 20,
        "max_steps_per_turn": 30,
        "output_path": "out.jsonl",
        **changes,
    }
    await roll_out({"enable_monitor": False, "seed": 1, "datasets": {"portal": dataset}}, resume=False)
    return read_lines(OUT)


async def test_oracle_without_errors_solves_every_shipped_task() -> None:
    lines = await portal({})
    assert len(lines) >= 20
    unsolved = [line["id"] for line in lines if not (line["success"] and line["metadata"]["scored"])]
    assert unsolved == []
    assert all(line["metadata"]["tool_errors"] == {} for line in lines)


async def test_oracle_that_stops_early_solves_no_task_that_changes_anything() -> None:
    lines = await portal({"stop_early": 1.0})
    assert all(line["metadata"]["tool_call_count"] == 0 for line in lines)
    solved = [line["id"] for line in lines if line["success"]]
    assert 0 < len(solved) < len(lines) / 2, "only tasks in which nothing was to be changed"


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        ("unknown_tool", {"unknown_tool"}),
        ("malformed_call", {"bad_arguments"}),
        ("wrong_argument", {"tool", "bad_arguments"}),
    ],
)
async def test_error_kinds_come_out_as_what_they_are(error: str, seen: set[str]) -> None:
    lines = await portal({error: 0.3})
    kinds: Counter[str] = Counter()
    for line in lines:
        kinds.update(line["metadata"]["tool_errors"])
    assert set(kinds) & seen
    wrong = sum(kinds[kind] for kind in seen)
    calls = sum(line["metadata"]["tool_call_count"] for line in lines)
    assert 0.1 < wrong / calls < 0.5, f"{wrong} of {calls} calls went wrong"


async def test_void_turns_are_empty_answers() -> None:
    lines = await portal({"void_turn": 0.5})
    answers = [message for line in lines for message in line["messages"] if message["role"] == "assistant"]
    assert any(answer["content"] == "" and "tool_calls" not in answer for answer in answers)


async def test_repeats_are_the_same_call_again() -> None:
    lines = await portal({"repeat": 0.5})
    asked = [
        [call["function"] for message in line["messages"] for call in message.get("tool_calls", [])] for line in lines
    ]
    assert any(first == second for calls in asked for first, second in itertools.pairwise(calls))


@pytest.mark.parametrize(
    "params", [{"typo": 0.1}, {"repeat": 1.5}, {"repeat": -0.1}, {"repeat": 0.6, "void_turn": 0.6}]
)
def test_params_that_make_no_sense_are_refused(params: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="params"):
        OracleModel(params)


def test_every_error_kind_of_the_docs_exists() -> None:
    assert set(ERRORS) == {"wrong_argument", "unknown_tool", "malformed_call", "void_turn", "stop_early", "repeat"}
