"""Reading a journal: what a run has on record. Anybody may, at any time, also while the run goes on."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rollout.engine.token_pieces import put_together
from rollout.errors import JournalError
from rollout.messages import Message, message_from_json
from rollout.trajectories.line import Head, encode_line
from rollout.trajectories.tree import NodeBody

PIECES_AT_HAND = 4096
_body_decoder = msgspec.msgpack.Decoder(NodeBody)
_messages_decoder = msgspec.msgpack.Decoder(tuple[Message, ...])
_head_decoder = msgspec.msgpack.Decoder(Head)


class SavedEpisode(msgspec.Struct, frozen=True):
    """An attempt that the journal knows and that is not finished."""

    id: int
    tree: int
    task: str
    trajectory: str
    attempt: int
    seed: int


class Branch(msgspec.Struct, frozen=True):
    """Where an episode starts that does not start at the trunk: behind a node of another episode."""

    parent: int
    place: int
    reason: str


class SavedLeaf(msgspec.Struct, frozen=True):
    """A finished attempt of a tree that is not finished."""

    episode: int
    head: Head
    branch: Branch | None


class Recorded(msgspec.Struct, frozen=True):
    """A finished trajectory as it is on record."""

    head: Head
    messages: list[Message]
    failed: frozenset[int] = frozenset()
    """The places of tool messages that are error observations, as far as they were kept."""


class OnRecord(msgspec.Struct, frozen=True):
    """A trajectory's line, and what the line does not tell."""

    line: bytes
    error_kinds: dict[int, str] | None = None
    """The kinds of error observations by their places in the messages; None where they were not kept."""


class RecordedPath(msgspec.Struct, frozen=True):
    """A trajectory on record, with how it came about."""

    head: Head
    opening: tuple[Message, ...]
    nodes: list[NodeBody] | None
    """From the opening's end to the leaf; None where they were not kept (`use_checkpoints: false`)."""
    line: bytes | None
    """Where the nodes were not kept: the line."""


class JournalReader:
    """The journal of one run directory, to read. `open_reader` opens one."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection
        found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'branches'").fetchone()
        self._has_branches = found is not None
        self._pieces: dict[bytes, bytes] = {}

    def finished_ids(self, dataset: str) -> set[str]:
        """Ids of the trajectories that need nothing more."""
        rows = self._db.execute("SELECT id FROM trajectories WHERE dataset = ? AND status != 'failed'", (dataset,))
        return {row[0] for row in rows}

    def recorded_ids(self, dataset: str) -> set[str]:
        """Ids of all trajectories on record, failed ones included."""
        return {row[0] for row in self._db.execute("SELECT id FROM trajectories WHERE dataset = ?", (dataset,))}

    def unfinished(self, dataset: str) -> dict[str, SavedEpisode]:
        """The newest attempt of each trajectory that was begun and is not finished, failed ones included."""
        rows = self._db.execute(
            "SELECT e.id, e.tree, t.task, e.trajectory, e.attempt, e.seed FROM episodes e "
            "JOIN trees t ON t.id = e.tree "
            "LEFT JOIN trajectories d ON d.dataset = t.dataset AND d.id = e.trajectory "
            "WHERE t.dataset = ? AND (d.id IS NULL OR d.status = 'failed') ORDER BY e.id",
            (dataset,),
        )
        return {row[3]: SavedEpisode(*row) for row in rows}

    def opening(self, tree: int) -> tuple[Message, ...]:
        """The opening of a tree."""
        row = self._db.execute("SELECT opening FROM trees WHERE id = ?", (tree,)).fetchone()
        return _messages_decoder.decode(row[0])

    def nodes(self, episode: int) -> list[NodeBody]:
        """The nodes of an episode, in order."""
        rows = self._db.execute("SELECT body FROM nodes WHERE episode = ? ORDER BY place", (episode,))
        return [put_together(_body_decoder.decode(row[0]), self._piece) for row in rows]

    def _piece(self, name: bytes) -> bytes:
        if name not in self._pieces:
            if len(self._pieces) > PIECES_AT_HAND:
                self._pieces.clear()
            row = self._db.execute("SELECT ids FROM token_pieces WHERE name = ?", (name,)).fetchone()
            if row is None:
                raise JournalError(f"{self.path}: token ids are missing (piece {name.hex()}); the journal is damaged")
            self._pieces[name] = row[0]
        return self._pieces[name]

    def branch(self, episode: int) -> Branch | None:
        """Where an episode starts; None where that is the trunk."""
        if not self._has_branches:
            return None
        row = self._db.execute("SELECT parent, place, reason FROM branches WHERE episode = ?", (episode,)).fetchone()
        return None if row is None else Branch(*row)

    def trajectory_of(self, episode: int) -> str:
        """The id of the trajectory that an episode grows."""
        return str(self._db.execute("SELECT trajectory FROM episodes WHERE id = ?", (episode,)).fetchone()[0])

    def path_nodes(self, episode: int) -> list[NodeBody]:
        """Every node from the opening's end to the episode's last: its own, and before them those it branched from."""
        nodes = self.nodes(episode)
        branch = self.branch(episode)
        while branch is not None:
            nodes = self.nodes(branch.parent)[: branch.place + 1] + nodes
            branch = self.branch(branch.parent)
        return nodes

    def whole_path(self, dataset: str, trajectory: str) -> list[NodeBody]:
        """Every node of a trajectory on record, from the task's opening to the leaf. Raises JournalError where there
        is none, or where its nodes were not kept."""
        row = self._db.execute(
            "SELECT d.episode, e.tree FROM trajectories d JOIN episodes e ON e.id = d.episode "
            "WHERE d.dataset = ? AND d.id = ?",
            (dataset, trajectory),
        ).fetchone()
        nodes = [] if row is None else self.path_nodes(row[0])
        if row is None or not nodes:
            raise JournalError(f"{self.path}: has no nodes of {trajectory!r} in the dataset {dataset!r}")
        return [*(NodeBody("opening", message=message) for message in self.opening(row[1])), *nodes]

    def grown_tasks(self, dataset: str) -> set[str]:
        """The tasks whose trees need nothing more."""
        if not self._has_branches:
            return set()
        rows = self._db.execute(
            "SELECT t.task FROM grown g JOIN trees t ON t.id = g.tree WHERE t.dataset = ?", (dataset,)
        )
        return {row[0] for row in rows}

    def saved_leaves(self, dataset: str, task: str) -> tuple[int, dict[str, SavedLeaf]]:
        """The tree of a task (0: none) and its attempts that did not fail, by trajectory."""
        row = self._db.execute("SELECT max(id) FROM trees WHERE dataset = ? AND task = ?", (dataset, task)).fetchone()
        if row[0] is None:
            return 0, {}
        rows = self._db.execute(
            "SELECT d.id, d.episode, d.head FROM trajectories d JOIN episodes e ON e.id = d.episode "
            "WHERE e.tree = ? AND d.dataset = ? AND d.status != 'failed'",
            (row[0], dataset),
        ).fetchall()
        leaves = {
            trajectory: SavedLeaf(episode, _head_decoder.decode(head), self.branch(episode))
            for trajectory, episode, head in rows
        }
        return int(row[0]), leaves

    def line(self, dataset: str, trajectory: str) -> bytes:
        """A finished trajectory's line, made again from what the journal holds."""
        episode, head, line = self._db.execute(
            "SELECT episode, head, line FROM trajectories WHERE dataset = ? AND id = ?", (dataset, trajectory)
        ).fetchone()
        if line is not None:
            return bytes(line)
        tree = self._db.execute("SELECT tree FROM episodes WHERE id = ?", (episode,)).fetchone()[0]
        messages = list(self.opening(tree))
        messages += [said for body in self.path_nodes(episode) if (said := body.said) is not None]
        return encode_line(_head_decoder.decode(head), messages)

    def paths(self, dataset: str) -> Iterator[RecordedPath]:
        """All trajectories, one at a time: the finished ones as the output has them, then the failed ones."""
        ids = self._db.execute(
            "SELECT id FROM trajectories WHERE dataset = ? ORDER BY place IS NULL, place, id", (dataset,)
        ).fetchall()
        for (trajectory,) in ids:
            head, line, episode, tree = self._db.execute(
                "SELECT d.head, d.line, d.episode, e.tree FROM trajectories d JOIN episodes e ON e.id = d.episode "
                "WHERE d.dataset = ? AND d.id = ?",
                (dataset, trajectory),
            ).fetchone()
            nodes = self.path_nodes(episode) if line is None else None
            kept = None if line is None else bytes(line)
            yield RecordedPath(_head_decoder.decode(head), self.opening(tree), nodes, kept)

    def on_record(self, dataset: str) -> Iterator[OnRecord]:
        """The lines of all trajectories, in the order of `paths`."""
        for path in self.paths(dataset):
            if path.line is not None or path.nodes is None:
                yield OnRecord(path.line or b"")
                continue
            said = [(body.said, body.error_kind) for body in path.nodes if body.said is not None]
            messages = [*path.opening, *(message for message, _ in said if message is not None)]
            kinds = {place: kind for place, (_, kind) in enumerate(said, len(path.opening)) if kind is not None}
            yield OnRecord(encode_line(path.head, messages), kinds)

    def recorded(self, dataset: str) -> Iterator[Recorded]:
        """Every finished trajectory of a dataset that did not fail, by id."""
        rows = self._db.execute(
            "SELECT d.head, d.line, d.episode, e.tree FROM trajectories d JOIN episodes e ON e.id = d.episode "
            "WHERE d.dataset = ? AND d.status != 'failed' ORDER BY d.id",
            (dataset,),
        )
        for head, line, episode, tree in rows:
            if line is not None:
                messages = [message_from_json(entry) for entry in msgspec.json.decode(line)["messages"]]
                yield Recorded(_head_decoder.decode(head), messages)
                continue
            opening = self.opening(tree)
            said = [body for body in self.path_nodes(episode) if body.said is not None]
            failed = (place for place, body in enumerate(said, len(opening)) if body.error_kind is not None)
            messages = [*opening, *(body.said for body in said if body.said is not None)]
            yield Recorded(_head_decoder.decode(head), messages, frozenset(failed))

    def failed_lines(self, dataset: str) -> Iterator[bytes]:
        """The lines of failed trajectories, as far as they came."""
        rows = self._db.execute(
            "SELECT id FROM trajectories WHERE dataset = ? AND status = 'failed' ORDER BY id", (dataset,)
        ).fetchall()
        return (self.line(dataset, row[0]) for row in rows)

    def heads(self, dataset: str) -> Iterator[tuple[Head, float]]:
        """The head of every trajectory on record, failed ones included, with the time when it was written down."""
        rows = self._db.execute("SELECT head, finished FROM trajectories WHERE dataset = ? ORDER BY id", (dataset,))
        return ((_head_decoder.decode(head), finished) for head, finished in rows)

    def counts(self) -> list[tuple[Any, ...]]:
        """Sums for the summary, by dataset, status and stop reason: number, successes, scored, cost, prompt tokens,
        completion tokens, generations, tool calls, turns, successes among the scored."""
        return self._db.execute(
            "SELECT dataset, status, stop_reason, count(*), sum(success), sum(scored), sum(cost), sum(prompt_tokens), "
            "sum(completion_tokens), sum(generations), sum(tool_calls), sum(turns), sum(success AND scored) "
            "FROM trajectories "
            "GROUP BY dataset, status, stop_reason ORDER BY dataset, status, stop_reason"
        ).fetchall()

    def uncounted_cost(self) -> float:
        """What was paid for nodes that no trajectory counts: unfinished episodes, and attempts that were given up."""
        rows = self._db.execute(
            "SELECT n.body FROM nodes n LEFT JOIN trajectories t ON t.episode = n.episode WHERE t.episode IS NULL"
        )
        bodies = (_body_decoder.decode(row[0]) for row in rows)
        return sum(body.generation.cost for body in bodies if body.generation is not None)

    def datasets(self) -> list[str]:
        """The datasets that this journal holds."""
        return [row[0] for row in self._db.execute("SELECT DISTINCT dataset FROM trees ORDER BY dataset")]

    def meta(self, key: str) -> str | None:
        """A saved fact about the run."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def outputs(self) -> dict[str, Path]:
        """The output file of each dataset, where it was when the run wrote it."""
        rows = self._db.execute("SELECT key, value FROM meta WHERE key LIKE 'output:%' ORDER BY rowid")
        return {key.removeprefix("output:"): Path(value) for key, value in rows}

    def groups(self, dataset: str) -> list[tuple[int, int]]:
        """For each task that was attempted: scored attempts, and solved ones."""
        return self._db.execute(
            "SELECT sum(d.scored), sum(d.scored AND d.success) FROM trajectories d JOIN episodes e ON e.id = d.episode "
            "JOIN trees t ON t.id = e.tree WHERE d.dataset = ? AND d.status != 'failed' GROUP BY t.task",
            (dataset,),
        ).fetchall()


@contextlib.contextmanager
def open_reader(run_dir: Path) -> Iterator[JournalReader]:
    """Read the journal of a run directory. Writes nothing and waits for nobody."""
    path = run_dir / "journal.db"
    if not path.is_file():
        raise JournalError(f"{run_dir}: is not a run directory: there is no journal.db in it")
    # On a disk that cannot be written to, a journal can be read only if it is said that nobody changes it.
    mode = "mode=ro" if os.access(run_dir, os.W_OK) else "immutable=1"
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True)
    except sqlite3.Error as error:
        raise JournalError(f"{path}: cannot be read: {error}") from error
    try:
        yield JournalReader(path, connection)
    except sqlite3.Error as error:
        raise JournalError(f"{path}: cannot be read: not a journal of ours, or damaged: {error}") from error
    finally:
        connection.close()
