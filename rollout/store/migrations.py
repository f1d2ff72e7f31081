"""Journals of earlier versions: migrated when opened for writing, presented as migrated when opened for reading.

`MIGRATIONS` lists the steps in order; each leads from the version before it to its own. Whoever opens a journal to
write holds the run's lock and applies the missing steps (`migrate`), each in one transaction together with the new
version number: a process that is killed on the way leaves a journal of one version or of the next.

A reader changes nothing: the run may be going on, and the disk may be read-only. `present_as_newest` gives the reader's
connection temporary tables and views, which exist in its memory only, for what an older journal does not have. So there
is one set of queries, for the newest version. A reader that is open during a migration keeps seeing the older version.

A journal of a newer version is refused: this program cannot know what its rows mean.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rollout.core.errors import JournalError
from rollout.store.schema import SCHEMA_VERSION


class Migration(msgspec.Struct, frozen=True):
    """A step from the previous version of the schema to the next one."""

    version: int
    """The version that it leads to."""
    name: str
    tables: Mapping[str, str] = {}
    """New tables: the name, and the rest of the CREATE TABLE statement."""
    statements: Sequence[str] = ()
    """Other changes, made after the tables."""
    views: Mapping[str, str] = {}
    """Tables that change: the name, and the query that shows a reader the old table as the new one."""


SUCCESS_AS_REWARD = "CASE WHEN scored AND status NOT IN ('failed', 'cut') THEN success + 0.0 END"
"""The reward of a trajectory that was recorded without one, as `Head.reward` has it."""
MIGRATIONS = (
    Migration(
        2,
        "branching trees, ranks, token ids of prompts, indexes",
        # Journals of version 1 come with and without these: they were added over time without a new version.
        tables={
            "branches": "(episode INTEGER PRIMARY KEY, parent INTEGER NOT NULL, place INTEGER NOT NULL, "
            "reason TEXT NOT NULL)",
            "beginnings": "(episode INTEGER PRIMARY KEY, owner INTEGER NOT NULL, place INTEGER NOT NULL, "
            "tokens INTEGER NOT NULL)",
            "grown": "(tree INTEGER PRIMARY KEY)",
            "placed": "(episode INTEGER PRIMARY KEY, rank INTEGER NOT NULL)",
            "token_pieces": "(name BLOB PRIMARY KEY, ids BLOB NOT NULL) WITHOUT ROWID",
        },
        statements=(
            "CREATE INDEX IF NOT EXISTS trees_by_task ON trees(dataset, task)",
            "CREATE INDEX IF NOT EXISTS episodes_by_tree ON episodes(tree)",
            "CREATE INDEX IF NOT EXISTS trajectories_by_episode ON trajectories(episode)",
        ),
    ),
    Migration(
        3,
        "the reward of a trajectory, NULL where it cannot be known",
        statements=(
            "ALTER TABLE trajectories ADD COLUMN reward REAL",
            f"UPDATE trajectories SET reward = {SUCCESS_AS_REWARD}",
        ),
        views={"trajectories": f"SELECT *, {SUCCESS_AS_REWARD} AS reward FROM main.trajectories"},
    ),
)
"""Every step, in order."""


def read_version(connection: sqlite3.Connection) -> int:
    """The version of a journal's schema; 0 if it has no tables yet."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def refuse_newer(path: Path, version: int) -> None:
    """Raise if a journal was written by a newer version of this program."""
    if version > SCHEMA_VERSION:
        raise JournalError(
            f"{path}: was written by a newer version of rollout (schema {version}, this one knows {SCHEMA_VERSION}); "
            "upgrade rollout to use this run"
        )


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a journal up to the newest version, one transaction for each step."""
    version = read_version(connection)
    for step in MIGRATIONS:
        if step.version > version:
            _apply(connection, step)


def _apply(connection: sqlite3.Connection, step: Migration) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for table, definition in step.tables.items():
            connection.execute(f"CREATE TABLE IF NOT EXISTS {table}{definition}")
        for statement in step.statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {step.version}")
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def present_as_newest(connection: sqlite3.Connection) -> None:
    """Let a reader's queries for the newest version work on an older journal. Only the connection changes."""
    version = read_version(connection)
    missing = [step for step in MIGRATIONS if step.version > version]
    if version == 0 or not missing:
        return
    connection.execute("PRAGMA temp_store = MEMORY")
    there = {name for (name,) in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")}
    for step in missing:
        for table, definition in step.tables.items():
            if table not in there:
                connection.execute(f"CREATE TEMP TABLE {table}{definition}")
        for table, query in step.views.items():
            connection.execute(f"CREATE TEMP VIEW {table} AS {query}")
