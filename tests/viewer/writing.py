"""Run directories written row by row: whatever a run may have left behind, in milliseconds and at will."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollout.core.messages import Message, ToolCall
from rollout.store.record import Finished
from rollout.store.rows import COLUMNS, Row, insert_rows, trajectory_row
from rollout.store.schema import SCHEMA, SCHEMA_VERSION
from rollout.trajectories.generation import Generation, Usage
from rollout.trajectories.line import Head
from rollout.trajectories.sums import Sums
from rollout.trajectories.tree import NodeBody


def user(text: str) -> NodeBody:
    """A message of a user."""
    return NodeBody("user", message=Message(role="user", content=text))


def answer(
    text: str | None, *calls: tuple[str, dict[str, Any]], reasoning: str | None = None, **generation: Any
) -> NodeBody:
    """An answer of the agent, with calls by name and arguments."""
    made = tuple(ToolCall(f"c{number}", name, json.dumps(given)) for number, (name, given) in enumerate(calls))
    message = Message(role="assistant", content=text, tool_calls=made, reasoning=reasoning)
    generation = {"usage": Usage(100, 10), "latency": 0.5, "model": "m", **generation}
    return NodeBody("generation", generation=Generation(message, **generation))


def result(text: str, call: str = "c0", error: str | None = None, **node: Any) -> NodeBody:
    """The result of a call."""
    return NodeBody("tool", Message(role="tool", content=text, tool_call_id=call), error_kind=error, **node)


class WrittenRun:
    """A run directory that grows as it is told."""

    def __init__(self, path: Path = Path("run"), first_episode: int = 1, **config: Any) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path / "journal.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        document = {"config": config, "datasets": {}, "starts": [{"at": "2026-01-02T03:04:05+00:00"}]}
        (path / "run.json").write_text(json.dumps(document))
        self._trees: dict[tuple[str, str], int] = {}
        self._episode = first_episode

    def add(
        self,
        name: str,
        nodes: Sequence[NodeBody] = (),
        *,
        dataset: str = "data",
        task: str | None = None,
        opening: str = "hello",
        success: bool = False,
        finished: float = 0.0,
        branch: tuple[int, int] | None = None,
        episode: int | None = None,
        rank: int | None = None,
        own_cost: float | None = None,
        is_ended: bool = True,
        first_place: int = 0,
        **metadata: Any,
    ) -> int:
        """Add an attempt; returns its episode. `branch`: the episode and the place that it goes on from."""
        task = task or name
        metadata = {"status": "completed", "stop_reason": "user_stop", "dataset": dataset, **metadata}
        tree = self._trees.get((dataset, task))
        if tree is None:
            tree = self._trees[dataset, task] = len(self._trees) + 1 + (self._episode if self._episode > 1 << 30 else 0)
            self._insert("trees", (tree, dataset, task, _encode((Message(role="user", content=opening),))))
        if episode is None:
            episode, self._episode = self._episode, self._episode + 1
            self._insert("episodes", (episode, tree, name, 0, 7, 1000.0 + episode))
        if branch is not None:
            self._insert("branches", (episode, *branch, str((metadata.get("branch") or {}).get("reason", "beam"))))
        if rank is not None:
            self._insert("placed", (episode, rank))
        for place, body in enumerate(nodes, first_place):
            self._insert("nodes", (episode, place, _encode(body)))
        if is_ended:
            head = Head(name, task, success, metadata)
            cost = metadata.get("cost", 0.0) if own_cost is None else own_cost
            sums = Sums(scored=int(bool(metadata.get("scored"))), cost=cost)
            done = Finished(dataset, episode, head, b"", head.status == "failed", sums, metadata.get("reward"))
            row = list(trajectory_row(done, None, keeps_line=False))
            row[_FINISHED] = finished or 2000.0 + episode
            self._insert("trajectories", tuple(row))
        return episode

    def close(self) -> None:
        """Close the journal."""
        self._db.close()

    def _insert(self, table: str, row: Row) -> None:
        insert_rows(self._db, table, [row])


def _encode(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


_FINISHED = COLUMNS["trajectories"].index("finished")
