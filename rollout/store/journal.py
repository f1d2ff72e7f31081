"""The journal: the one truth of a run, in SQLite (WAL), written by one thread in groups.

What is kept: for each task its tree (the opening), for each attempt an episode, for each episode its nodes in order,
and for each finished attempt a trajectory with the head of its line. Rows are only ever added, but for a failed
trajectory whose later attempt takes its place.

How it is written: `put` only collects rows. A few milliseconds later the collected group goes to the writer thread,
which inserts it in one transaction and then appends the finished lines to their output files. So a line in a file is
always backed by a committed row that knows the line's place, never the other way round: after a crash the file can
only be too short, and is completed from the nodes. Rows put together in one call are committed together.

How it is waited for: an episode waits (`settle`) for its last generation to be committed before it asks for the next,
so a killed run has at most one generation for each live episode to pay for again. A commit survives the death of the
process at any instant; with `sync="full"` also the death of the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import msgspec

from rollout.core.errors import JournalError
from rollout.core.messages import Image, Message
from rollout.core.world import Snapshot
from rollout.store.blobs import write_blob, write_image, writing
from rollout.store.damage import DATA_ERRORS, read_error, reading, reads_data
from rollout.store.output_files import Output
from rollout.store.reader import PIECES_AT_HAND, Branch, JournalReader
from rollout.store.record import Finished
from rollout.store.schema import connect, lock_run
from rollout.store.token_pieces import take_apart
from rollout.trajectories.tree import NodeBody

log = logging.getLogger(__name__)
COMMIT_INTERVAL = 0.004
"""Seconds that a row may wait for company. Shorter commits more often, longer delays every step."""
ROWS_PER_STATEMENT = 64
WAKE_AT_ONCE = 32
"""How many waiting episodes go on in one round of the event loop after a commit."""

_COLUMNS = {
    "trees": 4,
    "episodes": 6,
    "branches": 4,
    "beginnings": 4,
    "placed": 2,
    "token_pieces": 2,
    "nodes": 3,
    "grown": 1,
    "trajectories": 18,
}
_ADDED = ("trees", "episodes", "branches", "beginnings", "placed", "token_pieces", "nodes", "grown")
_body_encoder = msgspec.msgpack.Encoder()


class Batch:
    """Rows that are committed together, and those who wait for it."""

    __slots__ = ("error", "finished", "is_committed", "rows", "waiters")

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _ADDED}
        self.finished: list[Finished] = []
        self.waiters: list[asyncio.Future[None]] = []
        self.is_committed = False
        self.error: Exception | None = None

    @property
    def is_empty(self) -> bool:
        return not self.finished and not any(self.rows.values())


class Journal(JournalReader):
    """The journal of one run directory. Open it with `open_journal`, close it when the run ends."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: int, keep_nodes: bool) -> None:
        super().__init__(path, connection)
        self.folder = path.parent
        self._lock = lock
        self._state = os.stat(path)
        self.is_gone = False
        """Whether somebody deleted, moved or replaced the file while it was open."""
        self._keep_nodes = keep_nodes
        self._outputs: dict[str, Output] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rollout-journal")
        self._batch = Batch()
        self._writing: Batch | None = None
        self._is_due = False
        self._error: Exception | None = None
        self._released: deque[asyncio.Future[None]] = deque()
        self._put_pieces: set[bytes] = set()
        self._altered: set[str] = set()
        self._seconds_before = self.seconds()
        self._opened = time.monotonic()
        self._next_tree = self._next_id("trees")
        self._next_episode = self._next_id("episodes")
        self.commits = 0

    def _next_id(self, table: str) -> int:
        return int(self._db.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()[0])

    # ---- adding -------------------------------------------------------------------------------------------------

    def begin_tree(self, dataset: str, task: str, opening: tuple[Message, ...]) -> int:
        """Note a task's opening; returns the tree's id."""
        tree, self._next_tree = self._next_tree, self._next_tree + 1
        self._pending().rows["trees"].append((tree, dataset, task, _body_encoder.encode(opening)))
        return tree

    def begin_episode(self, tree: int, trajectory: str, attempt: int, seed: int, branch: Branch | None = None) -> int:
        """Note that an attempt starts, at the trunk or where it branches; returns the episode's id."""
        episode, self._next_episode = self._next_episode, self._next_episode + 1
        rows = self._pending().rows
        rows["episodes"].append((episode, tree, trajectory, attempt, seed, time.time()))
        if branch is not None:
            rows["branches"].append((episode, branch.parent, branch.place, branch.reason))
            if branch.beginning is not None:
                rows["beginnings"].append((episode, *msgspec.structs.astuple(branch.beginning)))
        return episode

    def finish_tree(self, tree: int) -> None:
        """Note that a tree needs nothing more."""
        self._pending().rows["grown"].append((tree,))

    def put(self, episode: int, first_place: int, bodies: Sequence[NodeBody]) -> Batch | None:
        """Add nodes, all in one commit. `settle` the returned batch to know that they are durable.

        None where nodes are not kept: then there is nothing to wait for.
        """
        if not self._keep_nodes:
            return None
        # Encoded before the first is added: a body that cannot be encoded must not leave half a group behind.
        rows, pieces = [], []
        for place, body in enumerate(bodies, first_place):
            body, named = take_apart(body)
            rows.append((episode, place, _body_encoder.encode(body)))
            pieces += [(name, piece) for name, piece in named if name not in self._put_pieces]
        batch = self._pending()
        batch.rows["nodes"].extend(rows)
        batch.rows["token_pieces"].extend(pieces)
        if len(self._put_pieces) > PIECES_AT_HAND:
            # What is put again takes its own place.
            self._put_pieces.clear()
        self._put_pieces.update(name for name, _ in pieces)
        return batch

    def place_episode(self, episode: int, rank: int) -> None:
        """Note which rank of a cluster has an episode."""
        self._pending().rows["placed"].append((episode, rank))

    def keep_snapshot(self, episode: int, place: int, snapshot: Snapshot | None) -> None:
        """Nothing to do: a node has its own, in memory."""

    def keep_image(self, image: Image) -> None:
        """Keep an image under its name, once."""
        with writing(self.folder):
            write_image(self.folder, image)

    def keep_blob(self, data: bytes) -> str:
        """Keep a large text under its hash, once; returns the name."""
        with writing(self.folder):
            return write_blob(self.folder, data)

    def finish(self, finished: Finished) -> Batch:
        """Write a finished trajectory down: its row, then its line."""
        batch = self._pending()
        batch.finished.append(finished)
        return batch

    async def settle(self, batch: Batch) -> None:
        """Wait until a batch is committed."""
        if not batch.is_committed:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            batch.waiters.append(waiter)
            await waiter
        if batch.error is not None:
            raise self._write_error(batch.error) from batch.error

    def _pending(self) -> Batch:
        if self._error is not None:
            raise self._write_error(self._error) from self._error
        if not self._is_due and self._writing is None:
            self._schedule()
        return self._batch

    def _write_error(self, error: Exception) -> JournalError:
        if isinstance(error, (JournalError, *DATA_ERRORS)):
            return read_error(self.path, error)
        return JournalError(f"{self.path}: cannot be written: {error}")

    def _schedule(self) -> None:
        self._is_due = True
        asyncio.get_running_loop().call_later(COMMIT_INTERVAL, self._flush)

    def _flush(self) -> None:
        self._is_due = False
        if self._writing is not None or self._batch.is_empty:
            return
        batch, self._batch = self._batch, Batch()
        self._writing = batch
        writing = asyncio.get_running_loop().run_in_executor(self._thread, self._write, batch)
        writing.add_done_callback(lambda done: self._written(batch, done.exception()))

    def _written(self, batch: Batch, error: BaseException | None) -> None:
        self._writing = None
        self.commits += 1
        if error is not None:
            self._error = batch.error = error if isinstance(error, Exception) else JournalError(repr(error))
            # Nothing more will be written: whoever waits for the next group has to know it too.
            self._batch.error = self._error
            self._release(self._batch)
        elif not self._batch.is_empty:
            self._schedule()
        self._release(batch)

    def _release(self, batch: Batch) -> None:
        batch.is_committed = True
        if not self._released:
            asyncio.get_running_loop().call_soon(self._wake_some)
        self._released.extend(batch.waiters)
        batch.waiters.clear()

    def _wake_some(self) -> None:
        """Wake a few of those whose rows are committed. All at once would hold the loop until each had its say."""
        for _ in range(min(WAKE_AT_ONCE, len(self._released))):
            waiter = self._released.popleft()
            if not waiter.done():
                waiter.set_result(None)
        if self._released:
            asyncio.get_running_loop().call_soon(self._wake_some)

    # ---- the writer thread --------------------------------------------------------------------------------------

    def _write(self, batch: Batch) -> None:
        lines: list[tuple[Output, bytes]] = []
        rows: list[tuple[Any, ...]] = []
        sizes: dict[str, int] = {}
        for done in batch.finished:
            output = self._outputs[done.dataset]
            place: int | None = None
            if not done.is_failed:
                place = sizes.get(done.dataset, output.size)
                sizes[done.dataset] = place + len(done.line)
                lines.append((output, done.line))
            rows.append(self._trajectory_row(done, place))
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            for table in _ADDED:
                self._insert(table, batch.rows[table])
            self._insert("trajectories", rows)
            # With each commit, so that a command which is killed is not forgotten.
            self.set_meta("seconds", f"{self._seconds_before + time.monotonic() - self._opened:.3f}")
            db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise
        self._look_for_itself()
        for output in {id(output): output for output, _ in lines}.values():
            output.append(b"".join(line for owner, line in lines if owner is output))
        for dataset, output in self._outputs.items():
            if output.is_altered and dataset not in self._altered:
                self._altered.add(dataset)
                self.set_meta(f"altered:{dataset}", "1")

    def _trajectory_row(self, done: Finished, place: int | None) -> tuple[Any, ...]:
        head = done.head
        return (
            done.dataset, head.id, done.episode, head.status, head.stop_reason, head.success, *done.numbers,
            time.time(),
            _body_encoder.encode(head), None if self._keep_nodes else done.line, place,
            None if place is None else len(done.line),
        )  # fmt: skip

    def _insert(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Many rows in one statement: the thread then takes the interpreter's lock once, not once for each row."""
        width = _COLUMNS[table]
        one = "(" + ",".join("?" * width) + ")"
        start = 0
        size = ROWS_PER_STATEMENT
        while start < len(rows):
            while size > len(rows) - start:
                size //= 2
            chunk = rows[start : start + size]
            values = ",".join([one] * size)
            self._db.execute(
                f"INSERT OR REPLACE INTO {table} VALUES {values}",
                [cell for row in chunk for cell in row],
            )
            start += size

    # ---- before the first row is added, and besides --------------------------------------------------------------

    @reads_data
    def attach(self, dataset: str, output: Output) -> int:
        """Give a dataset its output file, mended to hold exactly the journal's lines. Returns how many were mended."""
        self._outputs[dataset] = output
        end, lines = self._db.execute(
            "SELECT coalesce(max(place + length), 0), coalesce(sum(length), 0) FROM trajectories "
            "WHERE dataset = ? AND place IS NOT NULL",
            (dataset,),
        ).fetchone()
        altered = f"altered:{dataset}"
        if output.size == end == lines and not self.number(altered):
            return 0
        # Somebody was killed, somebody edited the file, or a row is gone whose line is still there.
        rows, whole, missing = self._compare(dataset, output)
        following = self.line(dataset, rows[len(rows) - missing][0]) if missing else b""
        rest = output.read(whole, output.size - whole)
        output.cut(whole, is_ours=following.startswith(rest))
        for trajectory, _, _ in rows[len(rows) - missing :]:
            line = self.line(dataset, trajectory)
            self._db.execute(
                "UPDATE trajectories SET place = ?, length = ? WHERE dataset = ? AND id = ?",
                (output.size, len(line), dataset, trajectory),
            )
            output.append(line)
        self.set_meta(altered, "0")
        return max(1, missing)

    def _compare(self, dataset: str, output: Output) -> tuple[list[tuple[str, int, int]], int, int]:
        """The trajectories that have a line, by their places; the size up to which the file has exactly these lines;
        and how many trajectories come behind that."""
        rows = self._db.execute(
            "SELECT id, place, length FROM trajectories WHERE dataset = ? AND place IS NOT NULL ORDER BY place",
            (dataset,),
        ).fetchall()
        whole = 0
        for number, (trajectory, place, length) in enumerate(rows):
            line = self.line(dataset, trajectory)
            if place != whole or len(line) != length or output.read(place, length) != line:
                return rows, whole, len(rows) - number
            whole = place + length
        return rows, whole, 0

    def _look_for_itself(self) -> None:
        """Say, once, where the journal's file is no longer under its name. What is written then goes to a file that
        nobody finds."""
        if self.is_gone:
            return
        try:
            self.is_gone = not os.path.samestat(os.stat(self.path), self._state)
        except OSError:
            self.is_gone = True
        if self.is_gone:
            log.warning(
                "%s was deleted, moved or replaced while this run was writing it. Finished trajectories still go to "
                "the output, but the run cannot be resumed without its journal: put the file back if you have it",
                self.path,
            )

    def refuse_if_gone(self) -> None:
        """Raise where the journal's file is gone, with what can be done about it. Where its WAL is still there, all of
        the journal is put into that first, for `rollout recover`."""
        if not self.is_gone:
            return
        outputs = ", ".join(str(output.path) for output in self._outputs.values() if not output.is_altered)
        told = f"Its finished trajectories are in {outputs}. " if outputs else ""
        way = f"rollout recover {self.folder} -o {self.folder.with_name(self.folder.name + '-recovered')}"
        if self._is_kept_in_wal():
            told += f"All of it is in {self.path.name}-wal; save it as a new run: {way}"
        else:
            told += "Put it back if it was moved, or start again with --no-resume"
        raise JournalError(f"{self.path}: was deleted, moved or replaced while this run was writing it. {told}")

    def _is_kept_in_wal(self) -> bool:
        """Write the whole database into the WAL, where that is still beside the name of the database."""
        wal = self.path.with_name(self.path.name + "-wal")
        if self.path.exists() or not wal.is_file():
            return False
        try:
            self._db.execute("PRAGMA wal_autocheckpoint = 0")
            before = wal.stat().st_size
            self._db.execute("VACUUM")
        except (sqlite3.Error, OSError):
            return False
        return wal.is_file() and wal.stat().st_size > before

    @reads_data
    def look_at_files(self) -> None:
        """Notice where somebody else changed an output file, so that the next `attach` compares all of it, and where
        the journal is gone."""
        self._look_for_itself()
        for dataset, output in self._outputs.items():
            output.look_for_changes()
            if output.is_suspect and not output.is_altered and self._compare(dataset, output)[1] != output.size:
                output.warn("was changed by somebody else")
            if output.is_altered:
                self.set_meta(f"altered:{dataset}", "1")

    @reads_data
    def set_meta(self, key: str, value: str) -> None:
        """Save a fact about the run, at once."""
        self.set_facts({key: value})

    @reads_data
    def set_facts(self, facts: Mapping[str, str]) -> None:
        """Save facts about the run, at once: all of them or none."""
        rows = ", ".join(["(?, ?)"] * len(facts))
        values = [text for fact in facts.items() for text in fact]
        self._db.execute(f"INSERT OR REPLACE INTO meta VALUES {rows}", values)

    @property
    def is_usable(self) -> bool:
        """Whether rows can still be written."""
        return self._error is None

    async def flush(self) -> None:
        """Wait until everything that was put is committed."""
        while True:
            if self._writing is not None:
                batch = self._writing
                with contextlib.suppress(JournalError):
                    await self.settle(batch)
            elif self._error is None and not self._batch.is_empty:
                self._flush()
            else:
                return

    async def close(self) -> None:
        """Write what was put, then let go of the files."""
        await self.flush()
        self._thread.shutdown(wait=True)
        for output in self._outputs.values():
            output.close()
        self._db.close()
        os.close(self._lock)


def open_journal(run_dir: Path, *, sync: Literal["normal", "full"] = "normal", keep_nodes: bool = True) -> Journal:
    """Open or make the journal of a run directory. One process at a time."""
    path = run_dir / "journal.db"
    lock = lock_run(run_dir)
    connection = connect(run_dir, lock, sync)
    try:
        with reading(path):
            return Journal(path, connection, lock, keep_nodes)
    except BaseException:
        connection.close()
        os.close(lock)
        raise
