"""Whether what is filtered still counts in its group: from a run through `rollout filter` to rows, both ways."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from rollout.cli import main
from tests.conftest import read_lines, roll_out

pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra rollout-engine[train]")
OUT = Path("out.jsonl")
PORTAL = {
    "mcp_domain": "StudentAcademicPortal",
    "output_path": OUT,
    "agent": {"model": "builtin/oracle", "params": {"void_turn": 0.1, "stop_early": 0.1}},
    "user": "builtin/user",
    "max_turns": 20,
    "max_steps_per_turn": 15,
    "limit": 12,
    "samples": 4,
    "scoring": {"decide": ["actions"]},
}


def command(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    assert ended.value.code == 0


async def run_filtered(*options: str, **dataset: Any) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, Any]]]:
    """The rewards of all attempts by task, and what the filter says of each."""
    await roll_out({"seed": 5, "mock_servers": {"isolation": "none"}, "datasets": {"portal": {**PORTAL, **dataset}}})
    command("filter", "run", *options)
    groups: dict[str, dict[str, float]] = {}
    for line in read_lines(OUT):
        groups.setdefault(line["task_id"], {})[line["id"]] = float(line["success"])
    return groups, {record["id"]: record for record in read_lines(Path("run/filters.jsonl"))}


@pytest.mark.parametrize("choice", ["--counts-in-group", "--leaves-group"])
async def test_advantages_are_over_those_who_count(choice: str) -> None:
    groups, records = await run_filtered(choice)
    dropped = {id for id, record in records.items() if record["verdict"] == "drop"}
    command("train-data", "run", "-o", "data", "--filters", "--param", "scale=none")
    made = {row["trajectory_id"]: row for row in pq.read_table("data/prefix_merge.parquet").to_pylist()}
    differ = 0
    for rewards in groups.values():
        left = {id: reward for id, reward in rewards.items() if id not in dropped}
        members = rewards if choice == "--counts-in-group" else left
        for id, reward in left.items():
            expected = reward - statistics.fmean(members.values()) if len(members) > 1 else 0
            learnt = [message["role"] == "assistant" for message in map(json.loads, made[id]["completion"])]
            assert made[id]["advantages"] == pytest.approx([expected * mask for mask in learnt], abs=1e-6)
            differ += abs(statistics.fmean(rewards.values()) - statistics.fmean(left.values())) > 0.01
    assert made.keys() == records.keys() - dropped
    assert differ > 5, "the choice makes a difference here"


@pytest.mark.parametrize("choice", ["--counts-in-group", "--leaves-group"])
async def test_statistics_of_groups_in_the_summary_are_over_those_who_count(
    choice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    groups, records = await run_filtered(choice, "--json")
    told = json.loads(capsys.readouterr().out)
    counts = {entry["filter"]: entry["trajectories"] for entry in told["filters"]}
    dropped = {id for id, record in records.items() if record["verdict"] == "drop"}
    expected = outside = 0
    for rewards in groups.values():
        members = [reward for id, reward in rewards.items() if choice == "--counts-in-group" or id not in dropped]
        expected += len(rewards) * (len(members) >= 2 and len(set(members)) == 1)
        outside += len(rewards) * (len(members) >= 4 and not 0.1 <= statistics.fmean(members) <= 0.9)
    assert (counts["constant_groups"], counts["accuracy_band"]) == (expected, outside)
    assert told["counting_in_groups"] == len(records) - (0 if choice == "--counts-in-group" else len(dropped))


async def test_the_default_is_that_it_counts_and_a_dataset_may_choose() -> None:
    _, records = await run_filtered()
    assert all(record["counts_in_group"] for record in records.values())
    _, records = await run_filtered(filters={"counts_in_group": False})
    assert {record["verdict"] == "drop" for record in records.values()} == {True, False}
    for record in records.values():
        assert record["counts_in_group"] == (record["verdict"] != "drop")


async def test_what_is_dropped_counts_in_the_worth_of_the_answers_it_shares() -> None:
    """In preferences: an answer's value is over all attempts that gave it, unless they have left the group."""
    values = {}
    for choice in ("--counts-in-group", "--leaves-group"):
        _, records = await run_filtered(
            choice, samples=1, strategy={"name": "random_tree", "params": {"expansions": 4}}
        )
        dropped = {id for id, record in records.items() if record["verdict"] == "drop"}
        command("train-data", "run", "-o", "data", "--filters", "--form", "preferences")
        pairs = pq.read_table("data/preferences.parquet").to_pylist()
        assert all(pair["chosen_value"] > pair["rejected_value"] for pair in pairs)
        assert not dropped & {pair[key] for pair in pairs for key in ("chosen_id", "rejected_id")}
        values[choice] = {
            (pair["chosen_id"], pair["rejected_id"], pair["step"]): pair["chosen_attempts"] + pair["rejected_attempts"]
            for pair in pairs
        }
    counted, left = values.values()
    both = counted.keys() & left.keys()
    assert both
    assert all(counted[pair] >= left[pair] for pair in both)
    assert any(counted[pair] > left[pair] for pair in both)


async def test_another_reward_than_success_is_not_lost_where_nothing_decides() -> None:
    """A run whose scores only advise has no success to count by, but its scores are rewards all the same."""
    await run_filtered(scoring={"custom": ["tests.trajectories.rows.test_training_data:EveryOther"], "decide": []})
    command("train-data", "run", "-o", "data", "--filters", "--reward", "score:whim")
    told = json.loads(Path("data/prefix_merge.about.json").read_text())
    assert told["kept"] > 30
    assert "no reward" not in told["left_out"]
