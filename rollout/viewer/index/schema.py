"""The tables of the index beside a journal, and where its file lies.

Everything in it is made from the journal, `filters.jsonl` and people's marks, so it is made again whenever it is
missing, of another version, or of another run. An attempt's number is that of its episode, which has the bit
`BY_PEOPLE` where people added it.

`docs` holds words and no text. The document of an attempt has the words of its own nodes; where it began at the trunk,
those of the task's opening, too. An attempt from which others branch has a document for each node instead, so that each
of these finds the words of what they share and no others. Rowids are `number << PLACE_BITS | place of the first node`.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from pathlib import Path

INDEX = "view.db"
VERSION = 2
PLACE_BITS = 20
BY_PEOPLE = 1 << 40

SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE attempts(
    n INTEGER PRIMARY KEY, dataset TEXT NOT NULL, id TEXT NOT NULL, task_id TEXT NOT NULL, author TEXT,
    status TEXT NOT NULL, stop_reason TEXT NOT NULL, success INTEGER NOT NULL, scored INTEGER NOT NULL, reward REAL,
    turns INTEGER NOT NULL, steps INTEGER NOT NULL, tool_calls INTEGER NOT NULL, tool_errors INTEGER NOT NULL,
    tokens INTEGER NOT NULL, cost REAL NOT NULL, seconds REAL NOT NULL, finished REAL NOT NULL, model TEXT,
    rank INTEGER, prompt_tokens INTEGER NOT NULL, model_seconds REAL NOT NULL, cause TEXT, error_kind TEXT,
    error_text TEXT, error_check TEXT, own_cost REAL NOT NULL, first TEXT NOT NULL,
    latencies BLOB NOT NULL, UNIQUE(dataset, id));
CREATE INDEX attempts_by_task ON attempts(dataset, task_id);
CREATE INDEX attempts_by_time ON attempts(finished);
CREATE INDEX attempts_by_cause ON attempts(cause) WHERE cause IS NOT NULL;

-- Calls on the whole path, and those that it made itself.
CREATE TABLE tools(
    tool TEXT NOT NULL, n INTEGER NOT NULL, calls INTEGER NOT NULL, own_calls INTEGER NOT NULL,
    own_errors INTEGER NOT NULL, PRIMARY KEY(tool, n)) WITHOUT ROWID;
CREATE INDEX tools_by_attempt ON tools(n);
CREATE TABLE scores(
    name TEXT NOT NULL, n INTEGER NOT NULL, value REAL, decides INTEGER NOT NULL, PRIMARY KEY(name, n)) WITHOUT ROWID;
CREATE INDEX scores_by_attempt ON scores(n);
CREATE TABLE live_marks(mark TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY(mark, n)) WITHOUT ROWID;
CREATE INDEX live_marks_by_attempt ON live_marks(n);
CREATE TABLE filters(
    filter TEXT NOT NULL, dataset TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY(filter, dataset, id)) WITHOUT ROWID;
CREATE TABLE marks(
    number INTEGER PRIMARY KEY, dataset TEXT NOT NULL, id TEXT NOT NULL, message INTEGER, kind TEXT NOT NULL,
    value REAL, text TEXT, author TEXT NOT NULL);
CREATE INDEX marks_by_attempt ON marks(dataset, id);

CREATE VIRTUAL TABLE docs USING fts5(text, content='', tokenize="unicode61 remove_diacritics 2");
-- How many nodes of an episode are in documents, a check of the text of its one document, and whether it has one for
-- each node.
CREATE TABLE documents(
    n INTEGER PRIMARY KEY, nodes INTEGER NOT NULL, digest INTEGER NOT NULL, is_split INTEGER NOT NULL);
-- The earlier attempts whose nodes are on an attempt's path, each up to a place.
CREATE TABLE lineage(
    owner INTEGER NOT NULL, n INTEGER NOT NULL, place INTEGER NOT NULL, PRIMARY KEY(owner, n)) WITHOUT ROWID;
"""


def index_path(run_dir: Path) -> Path:
    """Where the index of a run lies: beside its journal, or in the user's cache where the run cannot be written."""
    return run_dir / INDEX if os.access(run_dir, os.W_OK) else cached_path(run_dir)


def cached_path(run_dir: Path) -> Path:
    """The index of a run directory that cannot be written."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.sha256(str(run_dir.resolve()).encode()).hexdigest()[:24]
    return cache / "rollout" / "view" / f"{name}.db"


def read_marks_version(connection: sqlite3.Connection) -> int:
    """The version of people's marks that an index has; -1 if it has none yet."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'marks'").fetchone()
    return -1 if row is None else int(row[0])


def read_version(connection: sqlite3.Connection) -> int:
    """The version of an index; 0 of an empty file."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
