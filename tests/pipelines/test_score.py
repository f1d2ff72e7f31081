"""`rollout score`: a finished run scored again, from its record alone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rollout.store.reading.reader import open_reader
from tests.conftest import Command, read_lines, write_tasks, write_yaml
from tests.conftest import roll_out as roll_out_live
from tests.scoring.desk import query, write_library

QUERIES = [
    query("renew", [("renew_loan", {"loan_id": "L1", "confirm": True})]),
    query("borrow", [("borrow", {"title": "Dune"}), ("reserve", {"title": "Dune", "loan_id": {"$from": "0/loan_id"}})]),
    query("read", [("list_loans", {})], communicate=["Atlas"], replies=["You have the Atlas."]),
]
SCORES = Path("run/scores.jsonl")


def library_config(base: Path, **changes: Any) -> dict[str, Any]:
    dataset = {
        "mcp_domain": "LibraryDesk",
        "base_path": str(base),
        "output_path": "out/library.jsonl",
        "agent": {"model": "builtin/oracle", "params": {"wrong_argument": 0.2, "stop_early": 0.2}},
        "max_steps_per_turn": 6,
        "samples": 4,
        **changes,
    }
    return {"enable_monitor": False, "seed": 5, "datasets": {"library": dataset}}


def roll_out(config: dict[str, Any]) -> None:
    asyncio.run(roll_out_live(config))


def verdicts(path: Path) -> dict[str, tuple[bool, bool]]:
    return {
        line["id"]: (line["success"], line["scored"] if "scored" in line else line["metadata"]["scored"])
        for line in read_lines(path)
    }


def test_scores_come_out_as_they_were_and_nothing_of_the_run_is_changed(tmp_path: Path, rollout: Command) -> None:
    """V6 besides: one JSON object a line, in a folder that is made."""
    base = write_library(tmp_path / "data", QUERIES)
    roll_out(library_config(base))
    lines = Path("out/library.jsonl").read_bytes()
    recorded = verdicts(Path("out/library.jsonl"))
    assert {True, False} == {success for success, _ in recorded.values()}, "some solved, some not"
    done = rollout("score", "run", "--output", "made/for/it/scores.jsonl")
    assert done.code == 0, done.err
    found = read_lines(Path("made/for/it/scores.jsonl"))
    assert len(found) == 12
    assert {line["id"]: (line["success"], line["scored"]) for line in found} == recorded
    assert all(line["replayed"] for line in found)
    assert Path("out/library.jsonl").read_bytes() == lines
    assert not SCORES.exists(), "only where it was asked for"
    assert "pass^k" in done.out
    written = {line["id"]: line["metadata"]["scores"] for line in read_lines(Path("out/library.jsonl"))}
    assert {line["id"]: line["scores"] for line in found} == written, "score by score, with the same evidence"


def test_pass_k_of_a_run_is_in_its_metrics_and_in_its_table(tmp_path: Path, rollout: Command) -> None:
    base = write_library(tmp_path / "data", QUERIES)
    roll_out(library_config(base))
    metrics = json.loads(Path("run/metrics.json").read_text())["datasets"]["library"]
    assert [entry["k"] for entry in metrics["pass_k"]] == [1, 2, 3, 4]
    assert metrics["pass_k"][0]["at"] == pytest.approx(metrics["solved_rate"])
    found = verdicts(Path("out/library.jsonl"))
    by_task = [
        [success for name, (success, _) in found.items() if name.split("~")[0] == task]
        for task in ("renew", "borrow", "read")
    ]
    assert metrics["pass_k"][3]["at"] == pytest.approx(sum(map(any, by_task)) / 3)
    assert metrics["pass_k"][3]["all"] == pytest.approx(sum(map(all, by_task)) / 3)
    config = write_yaml(Path("c.yml"), {**library_config(base), "run_dir": "run"})
    assert "pass@k" in rollout("run", str(config), "--resume").out


def test_world_that_answers_otherwise_scores_nobody(tmp_path: Path, rollout: Command) -> None:
    base = write_library(tmp_path / "data", QUERIES)
    roll_out(library_config(base, samples=1, agent="builtin/oracle"))
    server = base / "mcp_servers" / "LibraryDesk.py"
    server.write_text(server.read_text().replace('"2025-03-01"', '"2025-04-01"'))
    done = rollout("score", "run", "--write")
    assert done.code == 0, done.err
    by_id = {line["id"]: line for line in read_lines(SCORES)}
    assert (by_id["renew"]["success"], by_id["renew"]["scored"]) == (False, False)
    assert "renew_loan of message 1 answers differently from the record" in by_id["renew"]["unscored"]
    assert by_id["borrow"]["scored"] is True
    assert "unscored 1: the replay failed" in done.out


def test_other_rules_give_other_verdicts_without_rolling_out(tmp_path: Path, rollout: Command) -> None:
    base = write_library(tmp_path / "data", QUERIES)
    roll_out(library_config(base, samples=1, agent={"model": "builtin/oracle", "params": {"stop_early": 1.0}}))
    changed = library_config(base, scoring={"decide": ["communicate"]})
    done = rollout("score", "run", "--write", "--config", str(write_yaml(Path("other.yml"), changed)))
    assert done.code == 0, done.err
    by_id = {line["id"]: line for line in read_lines(SCORES)}
    assert (by_id["read"]["success"], by_id["read"]["scored"]) == (True, True)
    assert (by_id["renew"]["success"], by_id["renew"]["scored"]) == (True, False), "nothing that decides was checked"
    assert by_id["renew"]["recorded"] == {"success": False, "scored": True}


def test_one_dataset_is_scored_and_the_others_lines_stay(tmp_path: Path, rollout: Command) -> None:
    base = write_library(tmp_path / "data", QUERIES)
    config = library_config(base, samples=1)
    config["datasets"]["again"] = {**config["datasets"]["library"], "output_path": "out/again.jsonl", "limit": 1}
    roll_out(config)
    assert rollout("score", "run", "--write").code == 0
    before = SCORES.read_bytes()
    assert rollout("score", "run", "--write", "--dataset", "again").code == 0
    assert sorted(SCORES.read_bytes().splitlines()) == sorted(before.splitlines())
    unknown = rollout("score", "run", "--dataset", "agian")
    assert unknown.code == 2
    assert "there are: again, library" in unknown.err


def test_run_without_kept_nodes_is_scored_from_its_lines(tmp_path: Path, rollout: Command) -> None:
    base = write_library(tmp_path / "data", QUERIES)
    roll_out({**library_config(base), "use_checkpoints": False})
    assert rollout("score", "run", "--write").code == 0
    assert verdicts(SCORES) == verdicts(Path("out/library.jsonl"))


def test_task_that_is_gone_and_folder_that_is_no_run_are_said_so(tmp_path: Path, rollout: Command) -> None:
    base = write_library(tmp_path / "data", QUERIES)
    roll_out(library_config(base, samples=1))
    write_library(base, QUERIES[1:])
    assert "warning library: its tasks have changed since the run" in rollout("score", "run", "--write").out
    by_id = {line["id"]: line for line in read_lines(SCORES)}
    assert (by_id["renew"]["scored"], by_id["renew"]["success"]) == (False, False)
    assert "no longer in" in by_id["renew"]["unscored"]
    nothing = rollout("score", str(tmp_path / "data"))
    assert nothing.code == 2
    assert "run directory" in nothing.err


def test_functions_are_not_called_again(tmp_path: Path, rollout: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their calls may have effects: what they answered is on record, and that is enough."""
    action = {"name": "log", "arguments": {"text": "x"}}
    task = {"id": "t", "messages": [{"role": "user", "content": "go"}], "task_info": {"actions": [action]}}
    tasks = write_tasks(tmp_path / "tasks.jsonl", task)
    (tmp_path / "effects.py").write_text(
        "def log(text: str) -> str:\n"
        "    'Write it down.'\n"
        "    with open('effects.log', 'a') as file:\n        file.write(text)\n"
        "    return 'written'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    dataset = {"path": str(tasks), "tools": ["effects:log"], "agent": "builtin/oracle", "output_path": "out.jsonl"}
    roll_out({"datasets": {"data": dataset}})
    assert rollout("score", "run", "--write").code == 0
    assert Path("effects.log").read_text() == "x"
    assert verdicts(SCORES) == {"t": (True, True)}


def test_saved_config_without_its_keys_still_scores(tmp_path: Path, rollout: Command) -> None:
    base = write_library(tmp_path / "data", QUERIES)
    config = library_config(base, samples=1)
    config["models"] = {"gpt": {"api_base": "http://127.0.0.1:9/v1", "api_key": "sk-secret-secret-secret"}}
    roll_out(config)
    assert "secret-secret" not in Path("run/run.json").read_text()
    done = rollout("score", "run")
    assert done.code == 0, done.err


def test_one_attempt_is_scored_by_its_id(tmp_path: Path, rollout: Command) -> None:
    roll_out(library_config(write_library(tmp_path / "data", QUERIES), samples=2))
    with open_reader(Path("run")) as reader:
        [first, *others] = reader.choose_keys(most=None)
    assert others
    done = rollout("score", "run", "--json", "--dataset", first.dataset, "--", first.id)
    assert json.loads(done.out)["datasets"][first.dataset]["trajectories"] == 1
    assert rollout("score", "run", "no-such-id").code == 2
    assert "leave out the ids" in rollout("score", "run", first.id, "--write").err
