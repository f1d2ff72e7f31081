"""Journals of every version of the schema: migrated by those who write, read as they are by those who do not."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rollout.core.errors import JournalError
from rollout.store.journal import open_journal
from rollout.store.migrations import MIGRATIONS, migrate
from rollout.store.reading.reader import open_reader
from rollout.store.recovery.recover import recover
from rollout.store.schema import LATER_COLUMNS, SCHEMA, SCHEMA_VERSION
from rollout.trajectories.line import comparable
from tests.conftest import read_lines
from tests.store.test_earlier_runs import command, lay_out, lines_of

LATER_TABLES = ("branches", "beginnings", "grown", "placed", "token_pieces")
LATER_INDEXES = ("trees_by_task", "episodes_by_tree", "trajectories_by_episode")
JOURNAL = Path("run/journal.db")
KILLED = """
import os, signal, sqlite3, sys
from pathlib import Path

class Killed(sqlite3.Connection):
    done = 0

    def execute(self, sql, *args):
        found = super().execute(sql, *args)
        if self.in_transaction or sql == "COMMIT":
            Killed.done += 1
            if Killed.done == int(sys.argv[1]):
                os.kill(os.getpid(), signal.SIGKILL)
        return found

connect = sqlite3.connect
sqlite3.connect = lambda *args, **kwargs: connect(*args, **{**kwargs, "factory": Killed})
from rollout.store.journal import open_journal
open_journal(Path("run"))
print(Killed.done)
"""
"""Opens a journal for writing, and kills itself after so many of the statements that migrate it."""


def execute(*statements: str) -> list[Any]:
    """Run statements on the journal; the rows of the last."""
    with closing(sqlite3.connect(JOURNAL, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


def version() -> int:
    ((found,),) = execute("PRAGMA user_version")
    return int(found)


def lay_out_oldest(name: str) -> None:
    """A run of version 1 without the tables that were added to that version later on. It has no branching trees."""
    lay_out(name)
    execute(
        "DELETE FROM trajectories WHERE dataset = 'trees'",
        "DELETE FROM nodes WHERE episode IN (SELECT e.id FROM episodes e JOIN trees t ON t.id = e.tree "
        "WHERE t.dataset = 'trees')",
        "DELETE FROM episodes WHERE tree IN (SELECT id FROM trees WHERE dataset = 'trees')",
        "DELETE FROM trees WHERE dataset = 'trees'",
        "DELETE FROM meta WHERE key LIKE '%:trees'",
        *(f"DROP INDEX {index}" for index in LATER_INDEXES),
        *(f"DROP TABLE {table}" for table in LATER_TABLES),
    )
    Path("out/trees.jsonl").unlink()


async def open_and_close() -> None:
    """Open the journal for writing."""
    await open_journal(Path("run")).close()


def shape_of(connection: sqlite3.Connection) -> dict[str, Any]:
    """Tables with their columns, and indexes."""
    names = connection.execute("SELECT type, name, tbl_name FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    columns = {
        name: connection.execute(f"PRAGMA table_info({name})").fetchall() for kind, name, _ in names if kind == "table"
    }
    return {"names": sorted(names), "columns": columns}


def test_migrated_journal_has_the_schema_of_a_new_one() -> None:
    lay_out_oldest("finished")
    with closing(sqlite3.connect(JOURNAL, isolation_level=None)) as old, closing(sqlite3.connect(":memory:")) as new:
        migrate(old)
        new.executescript(SCHEMA)
        assert shape_of(old) == shape_of(new)


def test_migrations_lead_from_version_1_to_the_newest_one_by_one() -> None:
    assert [step.version for step in MIGRATIONS] == list(range(2, SCHEMA_VERSION + 1))


def test_later_columns_are_the_last_of_their_tables() -> None:
    with closing(sqlite3.connect(":memory:")) as new:
        new.executescript(SCHEMA)
        for table, later in LATER_COLUMNS.items():
            columns = [name for _, name, *_ in new.execute(f"PRAGMA table_info({table})")]
            assert tuple(columns[-len(later) :]) == later


async def test_new_journal_is_of_the_newest_version() -> None:
    await open_and_close()
    assert version() == SCHEMA_VERSION


@pytest.mark.parametrize("lay", [lay_out, lay_out_oldest])
async def test_opening_an_older_journal_for_writing_migrates_it(lay: Any) -> None:
    lay("finished")
    assert version() == 1
    await open_and_close()
    assert version() == SCHEMA_VERSION
    assert execute("SELECT count(*) FROM trajectories WHERE scored AND reward IS NOT success + 0.0") == [(0,)]


@pytest.mark.parametrize("lay", [lay_out, lay_out_oldest])
def test_reading_an_older_journal_leaves_it_as_it_is(lay: Any) -> None:
    lay("finished")
    before = JOURNAL.read_bytes()
    with open_reader(Path("run")) as reader:
        ids = reader.finished_ids("chains")
        assert {found.id for found in reader.trajectories("chains")} == ids
        assert all(reader.whole_path("chains", trajectory) for trajectory in ids)
        assert not reader.ranks("chains")
        assert not reader.grown_tasks("chains")
        assert sum(count.trajectories for count in reader.counts() if count.dataset == "chains") == len(ids)
    assert ids
    assert JOURNAL.read_bytes() == before


def test_queries_of_the_newest_version_work_on_an_older_journal_on_a_read_only_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lay_out_oldest("finished")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with open_reader(Path("run")) as reader:
        assert set(reader._db.execute("SELECT DISTINCT reward FROM trajectories")) == {(1.0,), (0.0,)}
        plan = reader._db.execute("EXPLAIN QUERY PLAN SELECT head FROM trajectories WHERE dataset = '' AND id = ''")
        assert "SEARCH" in str(plan.fetchall()), "the key is still used"


def test_reader_of_an_older_journal_goes_on_while_a_run_migrates_it() -> None:
    lay_out("finished")
    with open_reader(Path("run")) as reader:
        before = list(reader.heads("trees"))
        with closing(sqlite3.connect(JOURNAL, isolation_level=None)) as writer:
            migrate(writer)
        assert version() == SCHEMA_VERSION
        assert list(reader.heads("trees")) == before


@pytest.mark.parametrize("name", ["finished", "half"])
def test_run_from_before_the_later_tables_resumes_scores_filters_and_exports(name: str) -> None:
    lay_out("finished")
    undisturbed = [comparable(line) for line in lines_of("chains")]
    shutil.rmtree("run")
    shutil.rmtree("out")
    lay_out_oldest(name)
    command("score", "run", "--dataset", "chains", "--write")
    command("filter", "run")
    assert version() == 1, "commands that only read do not migrate"
    command("run", "config.yml", "--resume")
    assert version() == SCHEMA_VERSION
    assert [comparable(line) for line in lines_of("chains")] == undisturbed
    command("score", "run", "--write")
    assert {line["dataset"] for line in read_lines(Path("run/scores.jsonl"))} == {"chains", "trees"}
    command("export", "run", "--format", "trl", "-o", "trl.jsonl")
    assert len(read_lines(Path("trl.jsonl"))) == len(lines_of("chains")) + len(lines_of("trees"))


def test_journal_of_a_newer_version_is_refused_and_left_alone() -> None:
    lay_out("finished")
    execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = JOURNAL.read_bytes()
    for attempt in (lambda: open_journal(Path("run")), lambda: open_reader(Path("run")).__enter__()):
        with pytest.raises(JournalError, match=rf"newer version of rollout \(schema {SCHEMA_VERSION + 1}.*upgrade"):
            attempt()
    assert JOURNAL.read_bytes() == before


def test_killed_migration_leaves_a_journal_that_opens_again() -> None:
    lay_out_oldest("finished")
    shutil.copytree("run", "kept")
    whole = subprocess.run([sys.executable, "-c", KILLED, "0"], capture_output=True, check=True)
    statements = int(whole.stdout)
    assert statements > 10
    versions = set()
    for number in range(1, statements + 1, 3):
        shutil.rmtree("run")
        shutil.copytree("kept", "run")
        killed = subprocess.run([sys.executable, "-c", KILLED, str(number)], check=False)
        assert killed.returncode == -signal.SIGKILL
        versions.add(version())
        with open_reader(Path("run")) as reader:
            assert list(reader.trajectories("chains"))
    command("run", "config.yml", "--resume")
    assert version() == SCHEMA_VERSION
    assert 1 in versions
    assert versions <= {1, 2, 3}


def test_failed_migration_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out_oldest("finished")
    execute("CREATE TABLE trees_by_task(x)")
    before = execute("SELECT name FROM sqlite_master")
    with pytest.raises(JournalError, match="trees_by_task"):
        open_journal(Path("run"))
    assert version() == 1
    assert execute("SELECT name FROM sqlite_master") == before


@pytest.mark.parametrize("lay", [lay_out, lay_out_oldest])
def test_rows_from_before_and_after_a_migration_are_recovered(lay: Any) -> None:
    lay("finished")
    with open_reader(Path("run")) as reader:
        heads = {dataset: list(reader.heads(dataset)) for dataset in reader.datasets()}
    asyncio.run(open_and_close())
    first = heads["chains"][0][0].id
    execute(f"UPDATE trajectories SET reward = 0.5 WHERE dataset = 'chains' AND id = '{first}'")
    with JOURNAL.open("r+b") as file:
        file.write(b"broken header!!!")
    found = recover(Path("run"), Path("new"))
    assert not found.lost
    with open_reader(Path("new")) as reader:
        assert {dataset: list(reader.heads(dataset)) for dataset in reader.datasets()} == heads
        rewards = reader._db.execute("SELECT id, reward FROM trajectories WHERE reward = 0.5").fetchall()
    assert rewards == [(first, 0.5)]
    assert json.loads(Path("new/run.json").read_text())["config"]["run_dir"] == "new"
