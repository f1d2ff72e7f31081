"""The journal's file: its schema, its lock, and opening it.

One process at a time writes a run. The lock is a file lock beside the database, so it is gone with the process that
held it, however that ended; anybody may read at any time.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Literal

from rollout.core.errors import JournalError
from rollout.store.damage import damaged, read_error
from rollout.store.locks import take_lock
from rollout.store.private import PRIVATE_FILE, make_private_folder
from rollout.store.wal import lost_frames

SCHEMA_VERSION = 1
_TREES = """
CREATE TABLE IF NOT EXISTS branches(
    episode INTEGER PRIMARY KEY, parent INTEGER NOT NULL, place INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS beginnings(
    episode INTEGER PRIMARY KEY, owner INTEGER NOT NULL, place INTEGER NOT NULL, tokens INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS grown(tree INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS placed(episode INTEGER PRIMARY KEY, rank INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS token_pieces(name BLOB PRIMARY KEY, ids BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS trees_by_task ON trees(dataset, task);
CREATE INDEX IF NOT EXISTS episodes_by_tree ON episodes(tree);
CREATE INDEX IF NOT EXISTS trajectories_by_episode ON trajectories(episode);
"""
"""Only trees that branch have rows in the first three: the node that an episode starts from, the generation whose first
tokens its own begins with, and trees that need nothing more. `placed` has the rank of each episode of a run on a
cluster. Token ids of prompts are in the last where servers give them (`rollout.store.token_pieces`)."""
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

SCHEMA = _SCHEMA + _TREES
"""Every table of a journal."""


def lock_run(run_dir: Path) -> int:
    """Take the lock of a run directory, which is made if need be; close the returned file to give it back."""
    try:
        make_private_folder(run_dir)
        lock = os.open(run_dir / "journal.lock", os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    except OSError as error:
        raise JournalError(f"run_dir: {run_dir} cannot be used: {error.strerror or error}") from error
    take_lock(lock, f"{run_dir}: another process is running this run; wait for it or choose another run_dir")
    return lock


def connect(run_dir: Path, lock: int, sync: Literal["normal", "full"]) -> sqlite3.Connection:
    """Open or make the database of a locked run directory. Gives the lock back where it cannot."""
    path = run_dir / "journal.db"
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, lock)
        refuse_damaged_files(run_dir)
        try:
            # SQLite gives its other files the mode of this one.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))
        except OSError as error:
            raise JournalError(f"{path}: cannot be opened: {error.strerror or error}") from error
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
        undo.callback(connection.close)
        try:
            version = _prepare(connection, sync, is_new=not (run_dir / "run.json").exists())
        except (sqlite3.Error, LookupError) as error:
            raise read_error(path, error) from error
        if version != SCHEMA_VERSION:
            raise JournalError(
                f"{path}: written by another version (schema {version}, this one reads {SCHEMA_VERSION})"
            )
        undo.pop_all()
    return connection


def _prepare(connection: sqlite3.Connection, sync: str, is_new: bool) -> int:
    """Make the tables that are not there yet; returns the version of the schema."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {sync.upper()}")
    if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
        if not is_new:
            raise LookupError("its tables are missing")
        connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version == SCHEMA_VERSION:
        connection.executescript(_TREES)
    return version


def find_run(path: Path) -> Path | None:
    """The run directory that a path means: itself, or `run` in it, as in the output folder of a batch. Also one whose
    journal is gone: whoever opens it is told so."""
    places = (path, path / "run")
    for name in ("journal.db", "run.json"):
        for place in places:
            if (place / name).is_file():
                return place
    return None


def is_begun(run_dir: Path) -> bool:
    """Whether a run directory has a journal that anything was written into. One whose very first start was killed, or
    met a full disk, may have a file without tables: it is filled by the next start."""
    path = run_dir / "journal.db"
    if not path.is_file():
        return False
    if (run_dir / "run.json").exists():
        return True
    refuse_damaged_files(run_dir)
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return bool(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        raise read_error(path, error) from error


def refuse_damaged_files(run_dir: Path) -> None:
    """Raise where a run was begun in a directory and its journal is gone, or the part of it that lies in the WAL is
    gone or broken. SQLite would go on without it, so nothing may open a journal before."""
    path = run_dir / "journal.db"
    has_run_file = (run_dir / "run.json").is_file()
    if has_run_file and not path.exists():
        has_wal = path.with_name(path.name + "-wal").is_file()
        way = f"save what its -wal holds (rollout recover {run_dir}), " if has_wal else ""
        raise JournalError(
            f"{path}: the journal is gone, but {run_dir / 'run.json'} says that a run was begun here; put journal.db "
            f"back, {way}or start again with --no-resume (what is left is moved aside)"
        )
    if path.exists() and not path.is_file():
        raise JournalError(f"{path}: is not a file; put the run's journal back, or choose another run_dir")
    if has_run_file and path.is_file() and path.stat().st_size == 0:
        raise damaged(path, "the file is empty")
    if lost := lost_frames(path):
        wal = path.with_name(path.name + "-wal")
        if wal.exists():
            raise damaged(path, f"{wal.name} is damaged: {lost} of its committed pages cannot be reached")
        raise damaged(path, f"{wal.name} is gone, with {lost} pages that were only there")
