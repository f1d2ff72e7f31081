"""A run with known errors: the filters find exactly those, from the journal and from its lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rollout.config.schema import Config
from rollout.pipelines.filter import FilteredInput, filter_trajectories
from rollout.pipelines.wiring.active_filters import FiltersByDataset
from rollout.testing import StubServer
from rollout.trajectories.filters.marks import Filtered
from rollout.trajectories.filters.summary import FilterSummary
from tests.conftest import roll_out, stub_config, write_tasks
from tests.trajectories.filters.planting import PLANTED

FILTERS = {
    "void_turn": "void_turns",
    "malformed_call": "malformed_calls",
    "unknown_tool": "unknown_tools",
    "repeat": "repetition",
}
PORTAL: dict[str, Any] = {
    "mcp_domain": "StudentAcademicPortal",
    "output_path": "out.jsonl",
    "agent": {"model": "tests.trajectories.filters.planting:Planting", "reveal_reference": True},
    "user": "builtin/user",
    "max_turns": 20,
    "max_steps_per_turn": 15,
    "samples": 2,
    "limit": 30,
}
CONFIG: dict[str, Any] = {
    "mock_servers": {"isolation": "none"},
    "monitor_max_no_tool_turns": 0,
    "monitor_max_empty_replies": 0,
    "monitor_max_repeats": 0,
    "filters": {"repetition": {"calls": "any"}},
    "datasets": {"portal": PORTAL},
}


def filter_path(path: Path, config: dict[str, Any]) -> tuple[FilterSummary, list[Filtered]]:
    summary = FilterSummary()
    records = list(filter_trajectories(FilteredInput(path), FiltersByDataset(Config.model_validate(config)), summary))
    return summary, records


async def test_filters_find_exactly_the_errors_that_were_planted() -> None:
    PLANTED.clear()
    await roll_out(CONFIG)
    expected: dict[str, set[tuple[str, int]]] = {name: set() for name in FILTERS.values()}
    for trajectory in FilteredInput(Path("run")).read():
        for number, place in enumerate(sorted(trajectory.generated)):
            for error in PLANTED[trajectory.generated[place].seed or 0]:
                expected[FILTERS[error]].add((trajectory.id, number))
    summary, records = filter_path(Path("run"), CONFIG)
    found = {
        name: {(record.id, mark.turn) for record in records for mark in record.marks if mark.filter == name}
        for name in expected
    }
    assert found == expected
    assert all(len(planted) >= 10 for planted in expected.values()), "the run is large enough to tell"
    counted = {count.filter: count.turns for count in summary.filters.values()}
    assert {name: counted[name] for name in expected} == {name: len(planted) for name, planted in expected.items()}
    assert {"leaked_markers", "length_truncated", "overlong", "infrastructure_errors"}.isdisjoint(counted)


async def test_lines_alone_show_the_same_faults() -> None:
    await roll_out(CONFIG)
    _, from_journal = filter_path(Path("run"), CONFIG)
    _, from_lines = filter_path(Path("out.jsonl"), CONFIG)
    whole, lines = ({record.id: record for record in records} for records in (from_journal, from_lines))
    assert whole.keys() == lines.keys()
    for name, record in whole.items():
        assert lines[name].marks == record.marks
        assert lines[name].digest == record.digest
        assert [turn.parse_status for turn in lines[name].turns] == [turn.parse_status for turn in record.turns]
        assert {turn.finish_reason for turn in lines[name].turns} == {"unknown"}


async def test_run_without_kept_nodes_is_filtered_by_its_lines() -> None:
    config = {**CONFIG, "use_checkpoints": False, "datasets": {"portal": {**PORTAL, "limit": 4}}}
    await roll_out(config)
    _, from_journal = filter_path(Path("run"), config)
    _, from_lines = filter_path(Path("out.jsonl"), config)
    assert len(from_journal) == 8
    assert {r.id: r.marks for r in from_journal} == {r.id: r.marks for r in from_lines}


async def test_leaves_of_a_tree_are_whole_paths() -> None:
    strategy = {"name": "random_tree", "params": {"trees": 2, "expansions": 2, "rounds": 1}}
    config = {**CONFIG, "datasets": {"portal": {**PORTAL, "limit": 3, "samples": 1, "strategy": strategy}}}
    await roll_out(config)
    lines = {entry["id"]: entry for entry in map(json.loads, Path("out.jsonl").read_text().splitlines())}
    _, records = filter_path(Path("run"), config)
    assert {record.id for record in records} == set(lines)
    for record in records:
        answers = [place for place, said in enumerate(lines[record.id]["messages"]) if said["role"] == "assistant"]
        assert [turn.message for turn in record.turns] == answers
    branched = [record for record in records if lines[record.id]["metadata"]["branch"].get("shared_messages")]
    assert branched


async def test_server_s_facts_of_each_answer_are_recorded(tmp_path: Path) -> None:
    rules = [
        {"when": {"contains": "cut"}, "reply": {"content": "and then and then", "finish_reason": "length"}},
        {"reply": {"content": "All of it is here."}},
    ]
    async with StubServer({"rules": rules}) as stub:
        config = stub_config(stub.url, write_tasks(tmp_path / "tasks.jsonl", "cut", "whole"))
        config["models"]["agent"]["token_ids"] = True
        await roll_out(config)
    _, records = filter_path(Path("run"), config)
    by_task = {record.group: record for record in records}
    assert by_task["task0"].turns[0].finish_reason == "length"
    assert by_task["task0"].why == ("length_truncated",)
    whole = by_task["task1"].turns[0]
    assert (whole.finish_reason, whole.is_final_answer, by_task["task1"].verdict) == ("stop", True, "keep")
    assert whole.tokens is not None
    assert whole.mean_logprob is not None
    assert whole.min_logprob is not None
    assert whole.min_logprob <= whole.mean_logprob <= 0


async def test_failed_trajectories_are_counted_under_their_status(tmp_path: Path) -> None:
    rules = [
        {"when": {"contains": "break"}, "fault": {"kind": "status", "status": 403, "times": "always"}},
        {"reply": {"content": "All of it is here."}},
    ]
    async with StubServer({"rules": rules}) as stub:
        config = stub_config(stub.url, write_tasks(tmp_path / "tasks.jsonl", "break", "well"))
        await roll_out(config)
    summary, records = filter_path(Path("run"), config)
    assert {record.group: (record.status, record.verdict) for record in records} == {
        "task0": ("failed", "drop"),
        "task1": ("completed", "keep"),
    }
    assert summary.verdicts["failed"] == {"drop": 1}
