"""The journal's file: its schema, its lock, and opening it.

One process at a time writes a run. The lock is a file lock beside the database, so it is gone with the process that
held it, however that ended; anybody may read at any time.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Literal

from rollout.engine.locks import take_lock
from rollout.errors import JournalError

SCHEMA_VERSION = 1
_TREES = """
CREATE TABLE IF NOT EXISTS branches(
    episode INTEGER PRIMARY KEY, parent INTEGER NOT NULL, place INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS beginnings(
    episode INTEGER PRIMARY KEY, owner INTEGER NOT NULL, place INTEGER NOT NULL, tokens INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS grown(tree INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS placed(episode INTEGER PRIMARY KEY, rank INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS token_pieces(name BLOB PRIMARY KEY, ids BLOB NOT NULL) WITHOUT ROWID;
"""
"""Only trees that branch have rows in the first three: the node that an episode starts from, the generation whose first
tokens its own begins with, and trees that need nothing more. `placed` has the rank of each episode of a run on a
cluster. Token ids of prompts are in the last where servers give them (`rollout.engine.token_pieces`)."""
_SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE trees(id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, task TEXT NOT NULL, opening BLOB NOT NULL);
CREATE TABLE episodes(
    id INTEGER PRIMARY KEY, tree INTEGER NOT NULL, trajectory TEXT NOT NULL, attempt INTEGER NOT NULL,
    seed INTEGER NOT NULL, started REAL NOT NULL);
CREATE TABLE nodes(
    episode INTEGER NOT NULL, place INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY(episode, place)) WITHOUT ROWID;
CREATE TABLE trajectories(
    dataset TEXT NOT NULL, id TEXT NOT NULL, episode INTEGER NOT NULL, status TEXT NOT NULL, stop_reason TEXT NOT NULL,
    success INTEGER NOT NULL, scored INTEGER NOT NULL, cost REAL NOT NULL, prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL, generations INTEGER NOT NULL, tool_calls INTEGER NOT NULL,
    turns INTEGER NOT NULL, finished REAL NOT NULL, head BLOB NOT NULL, line BLOB, place INTEGER, length INTEGER,
    PRIMARY KEY(dataset, id)) WITHOUT ROWID;
"""


def lock_run(run_dir: Path) -> int:
    """Take the lock of a run directory, which is made if need be; close the returned file to give it back."""
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        lock = os.open(run_dir / "journal.lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise JournalError(f"run_dir: {run_dir} cannot be used: {error.strerror or error}") from error
    take_lock(lock, f"{run_dir}: another process is running this run; wait for it or choose another run_dir")
    return lock


def connect(run_dir: Path, lock: int, sync: Literal["normal", "full"]) -> sqlite3.Connection:
    """Open or make the database of a locked run directory. Gives the lock back where it cannot."""
    path = run_dir / "journal.db"
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {sync.upper()}")
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        connection.executescript(_TREES)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        os.close(lock)
        raise JournalError(f"{path}: not a journal of ours, or damaged: {error}") from error
    if version != SCHEMA_VERSION:
        connection.close()
        os.close(lock)
        raise JournalError(f"{path}: written by another version (schema {version}, this one reads {SCHEMA_VERSION})")
    return connection
