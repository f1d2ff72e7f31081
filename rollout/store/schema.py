"""The journal's tables, in their newest version.

A database says in `PRAGMA user_version` which version of the schema it has. New journals are made from `SCHEMA`;
`rollout.store.migrations` brings journals of earlier versions up to it. A change of the schema is a new version: change
the tables here, add one to `SCHEMA_VERSION`, and add the migration.
"""

from __future__ import annotations

SCHEMA_VERSION = 3

SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE trees(id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, task TEXT NOT NULL, opening BLOB NOT NULL);
CREATE INDEX trees_by_task ON trees(dataset, task);

CREATE TABLE episodes(
    id INTEGER PRIMARY KEY, tree INTEGER NOT NULL, trajectory TEXT NOT NULL, attempt INTEGER NOT NULL,
    seed INTEGER NOT NULL, started REAL NOT NULL);
CREATE INDEX episodes_by_tree ON episodes(tree);

CREATE TABLE nodes(
    episode INTEGER NOT NULL, place INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY(episode, place)) WITHOUT ROWID;

CREATE TABLE trajectories(
    dataset TEXT NOT NULL, id TEXT NOT NULL, episode INTEGER NOT NULL, status TEXT NOT NULL, stop_reason TEXT NOT NULL,
    success INTEGER NOT NULL, scored INTEGER NOT NULL, cost REAL NOT NULL, prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL, generations INTEGER NOT NULL, tool_calls INTEGER NOT NULL,
    turns INTEGER NOT NULL, finished REAL NOT NULL, head BLOB NOT NULL, line BLOB, place INTEGER, length INTEGER,
    reward REAL, PRIMARY KEY(dataset, id)) WITHOUT ROWID;
CREATE INDEX trajectories_by_episode ON trajectories(episode);

-- Only trees whose attempts branch have rows in the next three tables: the node that an episode starts from, the
-- generation whose first tokens the episode's first generation begins with, and the trees that are complete.
CREATE TABLE branches(
    episode INTEGER PRIMARY KEY, parent INTEGER NOT NULL, place INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE beginnings(
    episode INTEGER PRIMARY KEY, owner INTEGER NOT NULL, place INTEGER NOT NULL, tokens INTEGER NOT NULL);
CREATE TABLE grown(tree INTEGER PRIMARY KEY);

-- The rank of each episode of a run on a cluster.
CREATE TABLE placed(episode INTEGER PRIMARY KEY, rank INTEGER NOT NULL);

-- Token ids of prompts, where servers give them: see rollout.store.token_pieces.
CREATE TABLE token_pieces(name BLOB PRIMARY KEY, ids BLOB NOT NULL) WITHOUT ROWID;
"""
"""The statements that make an empty journal."""

LATER_COLUMNS = {"trajectories": ("reward",)}
"""Columns that a migration added, by table. SQLite does not rewrite rows for a new column, so rows from before the
migration are stored without it."""
