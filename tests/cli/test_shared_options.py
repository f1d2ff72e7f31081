"""Options that change a configuration for one command, and older spellings that are still read."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Command, read_lines, write_yaml


def portal(wrong_argument: float = 0.9) -> str:
    agent = {"model": "builtin/oracle", "params": {"wrong_argument": wrong_argument}}
    dataset = {"mcp_domain": "StudentAcademicPortal", "agent": agent, "user": "builtin/user", "limit": 3}
    return str(write_yaml(Path("c.yml"), {"datasets": {"portal": dataset}, "run_dir": "run"}))


def test_limit_samples_and_output_for_one_command(rollout: Command) -> None:
    done = rollout("run", portal(), "--limit", "2", "--samples", "3", "--output", "trial")
    assert done.code == 0, done.err
    assert len(read_lines(Path("trial/portal.jsonl"))) == 6
    assert Path("trial/metrics.json").is_file()
    assert not Path("run").exists()
    assert not Path("outputs").exists()


def test_set_changes_any_key_also_below_a_name_that_stands_for_a_section(rollout: Command) -> None:
    dataset = {"mcp_domain": "HotelReservations", "agent": "builtin/oracle", "user": "builtin/user"}
    tree = write_yaml(Path("short.yml"), {"datasets": {"a.b": dataset}, "run_dir": "run"})
    settings = ["--set", "datasets.a.b.agent.params.stop_early=1", "--set", "datasets.*.limit=2", "--set", "seed=5"]
    done = rollout("run", str(tree), *settings)
    assert done.code == 0, done.err
    assert len(read_lines(Path("outputs/a.b.jsonl"))) == 2
    recorded = json.loads(Path("run/run.json").read_text())["config"]
    assert recorded["datasets"]["a.b"]["agent"]["params"] == {"stop_early": 1.0}
    assert recorded["seed"] == 5


def test_a_dry_run_takes_the_options_of_a_run(rollout: Command) -> None:
    done = rollout(
        "run", portal(), "--limit", "2", "--set", "max_cost=1", "--agent-model", "builtin/oracle", "--dry-run"
    )
    assert done.code == 0, done.err
    assert "2 trajectories" in done.out
    done = rollout("run", portal(), "--agent-model", "no-such-model")
    assert done.code == 2
    assert "no-such-model" in done.err


def test_samples_beside_a_tree_is_refused_with_a_reason(rollout: Command) -> None:
    done = rollout("check", portal(), "--samples", "2", "--strategy", "random_tree")
    assert done.code == 2
    assert "--samples: dataset 'portal' explores by random_tree" in done.err


def test_single_takes_the_same_options(rollout: Command) -> None:
    models = ["--agent-model", "builtin/oracle", "--user-model", "builtin/user"]
    done = rollout("single", "--domains", "HotelReservations", *models, "--limit", "2", "--set", "max_workers=2",
                   "--output", "out", "--quiet")  # fmt: skip
    assert done.code == 0, done.out + done.err
    assert len(read_lines(Path("out/HotelReservations.jsonl"))) == 2
    again = rollout(
        "single", "--domains", "HotelReservations", *models, "--limit", "2", "--output-dir", "out", "--no-resume"
    )
    assert again.code == 0, again.err
    assert "moved to" in again.out


def test_older_spellings_are_read_and_not_shown(rollout: Command) -> None:
    rollout("run", portal())
    for words in (
        ["export", "run", "--format", "trl", "--failed", "-o", "old.jsonl"],
        ["filter", "run", "--set", "repetition.n=3", "--dry-run"],
        ["train-data", "run", "-o", "rows", "--form", "sft", "--format", "jsonl", "--param=scale=none", "--success"],
    ):
        done = rollout(*words)
        assert "No such option" not in done.err, words
    assert all(not line.get("success") for line in read_lines(Path("old.jsonl")))
    shown = rollout("export", "-h").out
    assert "--no-success" in shown
    assert "--failed" not in shown


def test_who_trains_on_what_no_model_made_is_warned_once(rollout: Command) -> None:
    rollout("run", portal(wrong_argument=0.0))
    done = rollout("export", "run", "--format", "trl", "-o", "rows.jsonl")
    assert done.code == 0, done.err
    assert done.out.count("made by builtin/oracle, which is no language model") == 1
    done = rollout("train-data", "run", "-o", "rows", "--form", "sft", "--format", "jsonl")
    assert done.out.count("made by builtin/oracle, which is no language model") == 1


def test_the_screen_of_a_run_says_that_no_model_is_at_work(rollout: Command) -> None:
    done = rollout("run", portal(), "--no-colors")
    assert "Agent and user are built in, no language models." in done.out
