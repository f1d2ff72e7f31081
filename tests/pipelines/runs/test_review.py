"""The review queue: drawn by chance, by disagreement, or from what has no mark."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollout.core.errors import ConfigError
from rollout.pipelines.runs.review import review_queue
from rollout.store.marks import MarksFile
from rollout.store.reader import open_reader
from tests.conftest import roll_out

ERRORS = {"wrong_argument": 0.3, "stop_early": 0.2}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose attempts are judged by several scorers."""
    folder = tmp_path_factory.mktemp("reviewed")
    dataset = {
        "mcp_domain": "StudentAcademicPortal",
        "agent": {"model": "builtin/oracle", "params": ERRORS},
        "user": "builtin/user",
        "limit": 10,
        "samples": 2,
        "output_path": str(folder / "portal.jsonl"),
        "scoring": {"decide": ["state", "actions", "communicate"]},
    }
    config = {"seed": 3, "mock_servers": {"isolation": "none"}, "datasets": {"portal": dataset}}
    asyncio.run(roll_out(config, folder / "run"))
    return folder / "run"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def ids(run: Path, kind: str, **more: Any) -> list[str]:
    return [one.id for one in review_queue(run, kind, **more)]


def execute(run: Path, *statements: str) -> None:
    with closing(sqlite3.connect(run / "journal.db")) as database, database:
        for statement in statements:
            database.execute(statement)


def test_a_sample_is_the_same_for_the_same_seed_and_holds_each_once(run: Path) -> None:
    drawn = ids(run, "sample", most=8)
    assert len(set(drawn)) == 8
    assert ids(run, "sample", most=8) == drawn
    assert ids(run, "sample", most=8, seed=1) != drawn
    assert sorted(ids(run, "sample", most=None)) == sorted(ids(run, "sample", most=1000))
    assert len(ids(run, "sample", most=None)) == 20


def test_scorers_that_differ_and_people_who_differ_from_the_verdict_are_disagreement(run: Path) -> None:
    with open_reader(run) as reader:
        recorded = {found.id: found for found in reader.trajectories("portal")}
    differ = {
        name
        for name, found in recorded.items()
        if len({score.value for score in found.scores if score.decides and score.value is not None}) > 1
    }
    assert 0 < len(differ) < 20
    assert set(ids(run, "disagree")) == differ
    agreed = [name for name in recorded if name not in differ and recorded[name].scored]
    file = MarksFile(run)
    file.add("portal", agreed[0], "verdict", author="ann", value=float(recorded[agreed[0]].success))
    file.add("portal", agreed[1], "verdict", author="ann", value=float(not recorded[agreed[1]].success))
    file.add("portal", agreed[2], "verdict", author="ann", value=float(not recorded[agreed[2]].success), message=1)
    queue = {one.id: one.why for one in review_queue(run, "disagree")}
    assert queue.keys() == differ | {agreed[1]}
    assert "scorers differ: " in queue[min(differ)]
    assert queue[agreed[1]].startswith("ann gave ")


def test_what_any_person_marked_is_no_longer_unmarked(run: Path) -> None:
    first, second = ids(run, "unmarked")[:2]
    MarksFile(run).add("portal", first, "note", author="ann", text="seen", message=1)
    assert first not in ids(run, "unmarked")
    assert second in ids(run, "unmarked")
    assert len(ids(run, "unmarked")) == 19


def test_failed_attempts_are_left_out_unless_they_are_asked_for(run: Path) -> None:
    name = ids(run, "sample")[0]
    execute(run, f"UPDATE trajectories SET status = 'failed' WHERE id = '{name}'")
    assert name not in ids(run, "sample")
    assert ids(run, "sample", among=[("portal", name)]) == [name]
    assert ids(run, "unmarked", among={("other", name)}) == []
    assert ids(run, "sample", datasets=["other"]) == []


def test_heads_that_another_tool_wrote_are_read(run: Path) -> None:
    name = ids(run, "disagree")[0]
    with closing(sqlite3.connect(run / "journal.db")) as database, database:
        (head,) = database.execute("SELECT head FROM trajectories WHERE id = ?", (name,)).fetchone()
        decoded = msgspec.msgpack.decode(head)
        decoded["metadata"]["scores"].append({"name": 7, "value": "high"})
        changed = msgspec.msgpack.encode(decoded)
        database.execute("UPDATE trajectories SET head = ? WHERE id = ?", (changed, name))
    assert name in ids(run, "disagree")


def test_an_unknown_kind_is_refused(run: Path) -> None:
    with pytest.raises(ConfigError, match="expected one of sample, disagree, unmarked"):
        review_queue(run, "all")
