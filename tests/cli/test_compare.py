"""`rollout compare` from end to end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from rollout.store.reading.reader import open_reader
from tests.cli.in_process import rollout
from tests.conftest import read_lines, write_yaml

DOCUMENT: dict[str, Any] = {
    "seed": 3,
    "mock_servers": {"isolation": "none"},
    "datasets": {
        "portal": {
            "mcp_domain": "StudentAcademicPortal",
            "agent": {"model": "builtin/oracle", "params": {"stop_early": 0.3}},
            "user": "builtin/user",
            "max_turns": 20,
            "max_steps_per_turn": 15,
            "scoring": {"decide": ["actions"]},
        }
    },
    "compare": {
        "budget": {"generations": 15},
        "strategies": {"chain": "chain", "search": {"name": "mcts", "params": {"parallel": 1}}},
    },
}


def compare(*arguments: str, code: int = 0) -> str:
    done = rollout("compare", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def results(folder: str, label: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(folder) / label / "compare.json").read_text())
    return found


def test_strategies_get_the_same_tasks_and_the_same_budget() -> None:
    write_yaml(Path("c.yml"), DOCUMENT)
    told = compare("c.yml", "--limit", "5")
    assert "at most 15 generations for each task" in told
    chain, search = results("runs/c-compare", "chain"), results("runs/c-compare", "search")
    for label, found in {"chain": chain, "search": search}.items():
        assert found["tasks"] == 5
        assert 0 < found["generations"] <= 5 * 15
        made = read_lines(Path("runs/c-compare") / label / "portal.jsonl")
        assert found["attempts"] + found["over"] == len(made)
        assert 1 <= found["outcomes"] <= found["attempts"]
    first = {line["id"]: line["messages"] for line in read_lines(Path("runs/c-compare/chain/portal.jsonl"))}
    other = {line["id"]: line["messages"] for line in read_lines(Path("runs/c-compare/search/portal.jsonl"))}
    tasks = [id for id in first if "~" not in id]
    assert [first[id] for id in tasks] == [other[id] for id in tasks], "the first chains are the same"
    again = compare("c.yml", "--limit", "5")
    assert results("runs/c-compare", "chain") == chain, "finished runs are only shown again"
    assert "tasks solved" in again


def test_only_tasks_that_all_strategies_have_are_compared() -> None:
    write_yaml(Path("c.yml"), DOCUMENT)
    compare("c.yml", "--limit", "4", "--strategies", "chain")
    compare("c.yml", "--limit", "2")
    assert [results("runs/c-compare", label)["tasks"] for label in ("chain", "search")] == [2, 2]


def test_options_stand_for_the_section() -> None:
    write_yaml(Path("c.yml"), {key: value for key, value in DOCUMENT.items() if key != "compare"})
    compare("c.yml", "--strategies", "random_tree", "--budget", "tool_calls=9", "--limit", "2", "--output", "here")
    assert 0 < results("here", "random_tree")["tool_calls"] <= 2 * 9


def test_a_budget_that_nothing_uses_up_ends_at_the_same_number_of_attempts() -> None:
    write_yaml(Path("c.yml"), DOCUMENT)
    told = compare("c.yml", "--strategies", "chain,random_tree", "--budget", "tokens=100", "--limit", "1")
    assert [results("runs/c-compare", label)["attempts"] for label in ("chain", "random_tree")] == [256, 256]
    assert "nothing was counted in tokens: that limited nothing" in told


def test_the_time_of_a_command_that_was_killed_counts() -> None:
    document = {**DOCUMENT, "compare": {**DOCUMENT["compare"], "strategies": {"chain": "chain"}}}
    write_yaml(Path("c.yml"), document)
    killed = subprocess.Popen(
        [sys.executable, "-c", "from rollout.cli import main; main()", "compare", "c.yml"],
        stdout=subprocess.DEVNULL,
    )
    lines = Path("runs/c-compare/chain/portal.jsonl")
    while killed.poll() is None and not (lines.exists() and lines.stat().st_size):
        pass
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    with open_reader(lines.parent) as reader:
        before = reader.seconds()
    assert before > 0
    assert not (lines.parent / "compare.json").exists()
    compare("c.yml", "--resume")
    assert results("runs/c-compare", "chain")["seconds"] > before


def test_a_strategy_that_a_model_cannot_follow_is_refused_before_any_runs() -> None:
    write_yaml(Path("c.yml"), DOCUMENT)
    told = compare("c.yml", "--strategies", "chain,treerl", code=2)
    assert "treerl branches inside a generation" in told
    assert not Path("runs").exists()


def test_a_budget_that_is_too_small_for_a_strategy_is_told_before_any_runs() -> None:
    write_yaml(Path("c.yml"), DOCUMENT)
    told = " ".join(compare("c.yml", "--strategies", "chain,arpo", "--budget", "generations=5", code=2).split())
    assert "a budget of 5 generations is too small for arpo" in told
    assert "strategy arpo: params: initial is 8" in told
    assert not Path("runs").exists()


def test_what_is_missing_or_wrong_is_said() -> None:
    write_yaml(Path("c.yml"), {key: value for key, value in DOCUMENT.items() if key != "compare"})
    assert "--budget generations=40" in compare("c.yml", "--strategies", "chain", code=2)
    assert "--strategies chain,random_tree" in compare("c.yml", "--budget", "generations=9", code=2)
    told = compare("c.yml", "--strategies", "chain", "--budget", "generation=9", code=2)
    assert "did you mean 'generations'?" in told
    assert "there is no name in it" in compare("c.yml", "--strategies", ",", "--budget", "cost=1", code=2)
    assert "there is no 'forest'" in compare("c.yml", "--strategies", "forest", "--budget", "cost=1", code=2)
