"""Writing the journal: the single source of truth of a run, in SQLite (WAL mode).

The journal keeps a tree for each task (its opening), an episode for each attempt, the nodes of each episode in order,
and a trajectory with the head of its line for each finished attempt. Rows are only added, except that a failed
trajectory is replaced by a later attempt at it.

Writing: `put` only collects rows. A few milliseconds later the collected batch goes to the writer thread, which inserts
it in one transaction and then appends the lines of finished trajectories to their output files. So each line in a file
belongs to a committed row that knows the line's position. After a crash a file can only be too short, and is completed
from the nodes. Rows put in one call are committed together.

Waiting: before an episode asks for its next generation, it waits (`settle`) until the last one is committed. So a
killed run pays again for at most one generation of each live episode. A commit survives the death of the process at any
instant, and with `sync="full"` also the death of the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import msgspec

from rollout.core.errors import JournalError
from rollout.core.messages import Image, Message
from rollout.core.world import Snapshot
from rollout.store.blobs import name_of, write_named, writing
from rollout.store.connection import connect
from rollout.store.damage import DATA_ERRORS, MAKE_ROOM, read_error, reading, reads_data
from rollout.store.file_watch import Change, JournalWatch
from rollout.store.files.output_files import Output
from rollout.store.files.output_repair import compare_output, holds_lines, repair_output
from rollout.store.reading.episodes import Branch
from rollout.store.reading.reader import CACHED_PIECES, JournalReader, LinePosition
from rollout.store.record import Finished
from rollout.store.rows import COLUMNS, Row, insert_rows, trajectory_row
from rollout.store.run_dir import JOURNAL, lock_run
from rollout.store.token_pieces import take_apart
from rollout.trajectories.tree import NodeBody

COMMIT_INTERVAL = 0.004
"""Seconds that a row may wait for others. Shorter commits more often, longer delays every step."""
WOKEN_AT_ONCE = 32
"""Waiting episodes that continue in one iteration of the event loop after a commit."""

_COLLECTED = tuple(table for table in COLUMNS if table != "trajectories")
"""Tables whose rows are put together before the batch is written."""
_body_encoder = msgspec.msgpack.Encoder()


class CommitBatch:
    """Rows that are committed together, and the episodes that wait for the commit."""

    __slots__ = ("error", "finished", "is_committed", "rows", "waiters")

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {table: [] for table in _COLLECTED}
        self.finished: list[Finished] = []
        self.waiters: list[asyncio.Future[None]] = []
        self.is_committed = False
        self.error: Exception | None = None

    @property
    def is_empty(self) -> bool:
        return not self.finished and not any(self.rows.values())


class Journal(JournalReader):
    """Writes the journal of one run directory. Open it with `open_journal`, close it when the run ends."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        lock: int,
        keep_nodes: bool,
        first_id: int = 1,
        is_synced: bool = False,
    ) -> None:
        super().__init__(path, connection)
        self.folder = path.parent
        self._lock = lock
        self._is_synced = is_synced
        self._watch = JournalWatch(path, connection)
        self._keep_nodes = keep_nodes
        self._outputs: dict[str, Output] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rollout-journal")
        self._batch = CommitBatch()
        self._writing: CommitBatch | None = None
        self._is_due = False
        self._error: Exception | None = None
        self._released: deque[asyncio.Future[None]] = deque()
        self._put_pieces: set[bytes] = set()
        self._altered: set[str] = set()
        self._seconds_before = self.seconds()
        self._opened = time.monotonic()
        self._next_tree = max(first_id, self._next_id("trees"))
        self._next_episode = max(first_id, self._next_id("episodes"))
        self.commits = 0

    def _next_id(self, table: str) -> int:
        (number,) = self._db.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()
        return int(number)

    # ---- adding -------------------------------------------------------------------------------------------------

    def begin_tree(self, dataset: str, task: str, opening: tuple[Message, ...]) -> int:
        """Add a tree with the opening of its task. Returns its id."""
        tree, self._next_tree = self._next_tree, self._next_tree + 1
        self._pending().rows["trees"].append((tree, dataset, task, _body_encoder.encode(opening)))
        return tree

    def begin_episode(self, tree: int, trajectory: str, attempt: int, seed: int, branch: Branch | None = None) -> int:
        """Add an episode, which starts at the trunk or at a branch. Returns its id."""
        episode, self._next_episode = self._next_episode, self._next_episode + 1
        rows = self._pending().rows
        rows["episodes"].append((episode, tree, trajectory, attempt, seed, time.time()))
        if branch is not None:
            rows["branches"].append((episode, branch.parent, branch.place, branch.reason))
            if branch.beginning is not None:
                rows["beginnings"].append((episode, *msgspec.structs.astuple(branch.beginning)))
        return episode

    def finish_tree(self, tree: int) -> None:
        """Record that a tree is complete."""
        self._pending().rows["grown"].append((tree,))

    def put(self, episode: int, first_place: int, bodies: Sequence[NodeBody]) -> CommitBatch | None:
        """Add nodes, all in one commit. `settle` the returned batch to wait until they are durable.

        Returns None if nodes are not kept: then there is nothing to wait for.
        """
        if not self._keep_nodes:
            return None
        # All are encoded before the first is added: a body that cannot be encoded must not leave some nodes behind.
        rows, pieces = [], []
        for place, body in enumerate(bodies, first_place):
            body, named = take_apart(body)
            rows.append((episode, place, _body_encoder.encode(body)))
            pieces += [(name, piece) for name, piece in named if name not in self._put_pieces]
        batch = self._pending()
        batch.rows["nodes"].extend(rows)
        batch.rows["token_pieces"].extend(pieces)
        if len(self._put_pieces) > CACHED_PIECES:
            # A piece that is put again replaces itself.
            self._put_pieces.clear()
        self._put_pieces.update(name for name, _ in pieces)
        return batch

    def place_episode(self, episode: int, rank: int) -> None:
        """Record which rank of a cluster runs an episode."""
        self._pending().rows["placed"].append((episode, rank))

    def keep_snapshot(self, episode: int, place: int, snapshot: Snapshot | None) -> None:
        """Nothing to do: live nodes hold their snapshots."""

    def keep_image(self, image: Image) -> None:
        """Write an image to the blobs, once."""
        self.keep_file(image.name, image.data)

    def keep_blob(self, data: bytes) -> str:
        """Write a large text to the blobs, once. Returns its name."""
        name = name_of(data)
        self.keep_file(f"{name}.json", data)
        return name

    def keep_file(self, name: str, data: bytes) -> None:
        """Write a blob under a name that is derived from its content, once. It is on the disk as early as the commits
        that name it."""
        with writing(self.folder):
            write_named(self.folder, name, data, is_synced=self._is_synced)

    def finish(self, finished: Finished) -> CommitBatch:
        """Add a finished trajectory: its row, then its line."""
        batch = self._pending()
        batch.finished.append(finished)
        return batch

    async def settle(self, batch: CommitBatch) -> None:
        """Wait until a batch is committed."""
        if not batch.is_committed:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            batch.waiters.append(waiter)
            await waiter
        if batch.error is not None:
            raise self._write_error(batch.error) from batch.error

    def _pending(self) -> CommitBatch:
        if self._error is not None:
            raise self._write_error(self._error) from self._error
        if not self._is_due and self._writing is None:
            self._schedule()
        return self._batch

    def _write_error(self, error: Exception) -> JournalError:
        if isinstance(error, (JournalError, *DATA_ERRORS)):
            return read_error(self.path, error)
        return JournalError(f"{self.path}: cannot be written: {error}; {MAKE_ROOM}")

    def _schedule(self) -> None:
        self._is_due = True
        asyncio.get_running_loop().call_later(COMMIT_INTERVAL, self._flush)

    def _flush(self) -> None:
        self._is_due = False
        if self._writing is not None or self._batch.is_empty:
            return
        batch, self._batch = self._batch, CommitBatch()
        self._writing = batch
        writing = asyncio.get_running_loop().run_in_executor(self._thread, self._write, batch)
        writing.add_done_callback(lambda done: self._written(batch, done.exception()))

    def _written(self, batch: CommitBatch, error: BaseException | None) -> None:
        self._writing = None
        self.commits += 1
        if error is not None:
            self._error = batch.error = error if isinstance(error, Exception) else JournalError(repr(error))
            # Nothing more will be written, so waiters for the next batch get the error, too.
            self._batch.error = self._error
            self._release(self._batch)
        elif not self._batch.is_empty:
            self._schedule()
        self._release(batch)

    def _release(self, batch: CommitBatch) -> None:
        batch.is_committed = True
        if not self._released:
            asyncio.get_running_loop().call_soon(self._wake_some)
        self._released.extend(batch.waiters)
        batch.waiters.clear()

    def _wake_some(self) -> None:
        """Wake a few of the waiting episodes. Waking all at once would block the event loop until each has run."""
        for _ in range(min(WOKEN_AT_ONCE, len(self._released))):
            waiter = self._released.popleft()
            if not waiter.done():
                waiter.set_result(None)
        if self._released:
            asyncio.get_running_loop().call_soon(self._wake_some)

    # ---- the writer thread --------------------------------------------------------------------------------------

    def _write(self, batch: CommitBatch) -> None:
        lines: list[tuple[Output, bytes]] = []
        rows: list[Row] = []
        sizes: dict[str, int] = {}
        for done in batch.finished:
            output = self._outputs[done.dataset]
            place: int | None = None
            if not done.is_failed:
                place = sizes.get(done.dataset, output.size)
                sizes[done.dataset] = place + len(done.line)
                lines.append((output, done.line))
            rows.append(trajectory_row(done, place, keeps_line=not self._keep_nodes))
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            for table in _COLLECTED:
                insert_rows(db, table, batch.rows[table])
            insert_rows(db, "trajectories", rows)
            # With each commit, so that the time of a killed command is counted, too.
            self.set_meta("seconds", f"{self._seconds_before + time.monotonic() - self._opened:.3f}")
            db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise
        self._watch.check()
        for output in {id(output): output for output, _ in lines}.values():
            output.append(b"".join(line for owner, line in lines if owner is output))
        for dataset, output in self._outputs.items():
            if output.is_altered and dataset not in self._altered:
                self._altered.add(dataset)
                self.set_meta(f"altered:{dataset}", "1")

    # ---- output files and facts ---------------------------------------------------------------------------------

    def is_attached(self, dataset: str) -> bool:
        """Whether a dataset has its output file."""
        return dataset in self._outputs

    @reads_data
    def attach(self, dataset: str, output: Output) -> int:
        """Give a dataset its output file, after making it hold exactly the journal's lines. Returns how many lines were
        written again."""
        self._outputs[dataset] = output
        end, length = self._db.execute(
            "SELECT coalesce(max(place + length), 0), coalesce(sum(length), 0) FROM trajectories "
            "WHERE dataset = ? AND place IS NOT NULL",
            (dataset,),
        ).fetchone()
        altered = f"altered:{dataset}"
        is_whole = output.size == end == length and not self.number(altered)
        if is_whole and holds_lines(self, dataset, output.path):
            return 0

        def record(position: LinePosition) -> None:
            self._db.execute(
                "UPDATE trajectories SET place = ?, length = ? WHERE dataset = ? AND id = ?",
                (position.place, position.length, dataset, position.trajectory),
            )

        # A run was killed, the file was edited, or a row is gone whose line is still there.
        repaired = repair_output(self, dataset, output, record)
        self.set_meta(altered, "0")
        return repaired

    @reads_data
    def look_at_files(self) -> None:
        """Check whether anybody else changed the journal's file or an output file. The next `attach` compares every
        line of a changed output."""
        self._watch.check()
        for dataset, output in self._outputs.items():
            output.look_for_changes()
            is_in_doubt = output.is_suspect and not output.is_altered
            if is_in_doubt and compare_output(self, dataset, output).size != output.size:
                output.warn(Change.RESIZED)
            if output.is_altered:
                self.set_meta(f"altered:{dataset}", "1")

    def refuse_if_gone(self) -> None:
        """Raise if the journal's file is gone, with what can be done about it."""
        if self._watch.is_gone:
            raise self._watch.make_error([each.path for each in self._outputs.values() if not each.is_altered])

    @reads_data
    def set_meta(self, key: str, value: str) -> None:
        """Save a fact about the run, immediately."""
        self.set_facts({key: value})

    @reads_data
    def set_facts(self, facts: Mapping[str, str]) -> None:
        """Save facts about the run, immediately: all of them or none."""
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
        """Write what was put, then close the files."""
        await self.flush()
        self._thread.shutdown(wait=True)
        for output in self._outputs.values():
            output.close()
        self._db.close()
        os.close(self._lock)


def open_journal(
    run_dir: Path, *, sync: Literal["normal", "full"] = "normal", keep_nodes: bool = True, first_id: int = 1
) -> Journal:
    """Open or create the journal of a run directory, for one process at a time. Migrates an older one. Trees and
    episodes have ids from `first_id` on."""
    path = run_dir / JOURNAL
    lock = lock_run(run_dir)
    connection = connect(run_dir, lock, sync)
    try:
        with reading(path):
            return Journal(path, connection, lock, keep_nodes, first_id, is_synced=sync == "full")
    except BaseException:
        connection.close()
        os.close(lock)
        raise
