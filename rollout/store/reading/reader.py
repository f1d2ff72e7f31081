"""Reading a journal: nodes and trajectories. Anybody may read at any time, also during the run."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from rollout.core.errors import JournalError
from rollout.core.messages import Message
from rollout.store.connection import connect_read_only
from rollout.store.damage import missing, reads_journal
from rollout.store.reading.episodes import EpisodeReader
from rollout.store.reading.trajectory_files import TrajectoryFiles
from rollout.store.run_dir import JOURNAL
from rollout.store.token_pieces import put_together
from rollout.trajectories.line import Head, encode_line
from rollout.trajectories.saved import read_saved
from rollout.trajectories.trajectory import Trajectory
from rollout.trajectories.tree import NodeBody, NodeKey

CACHED_PIECES = 4096
CACHED_OPENINGS = 256
_body_decoder = msgspec.msgpack.Decoder(NodeBody)
_messages_decoder = msgspec.msgpack.Decoder(tuple[Message, ...])
_head_decoder = msgspec.msgpack.Decoder(Head)


class LinePosition(msgspec.Struct, frozen=True):
    """The position of a trajectory's line in its output file, in bytes."""

    trajectory: str
    place: int
    length: int


@reads_journal
class JournalReader(EpisodeReader):
    """Reads the journal of one run directory. Open it with `open_reader`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(path, connection)
        self._pieces: dict[bytes, bytes] = {}
        self._openings: dict[int, tuple[NodeBody, ...]] = {}
        self._files = TrajectoryFiles(path.parent, may_miss=True)

    # ---- nodes --------------------------------------------------------------------------------------------------

    def opening(self, tree: int) -> tuple[Message, ...]:
        """The opening of a tree."""
        row = self._db.execute("SELECT opening FROM trees WHERE id = ?", (tree,)).fetchone()
        if row is None:
            raise missing(f"tree {tree}")
        (opening,) = row
        return _messages_decoder.decode(opening)

    def _cached_opening(self, tree: int) -> tuple[NodeBody, ...]:
        if tree not in self._openings:
            if len(self._openings) > CACHED_OPENINGS:
                self._openings.clear()
            self._openings[tree] = _as_nodes(self.opening(tree))
        return self._openings[tree]

    def nodes(self, episode: int) -> list[NodeBody]:
        """The nodes that an episode added, in order."""
        nodes: list[NodeBody] = []
        for place, body in self._db.execute(
            "SELECT place, body FROM nodes WHERE episode = ? ORDER BY place", (episode,)
        ):
            if place != len(nodes):
                raise missing(f"node {len(nodes)} of episode {episode}")
            nodes.append(put_together(_body_decoder.decode(body), self.token_piece))
        return nodes

    def token_piece(self, name: bytes) -> bytes:
        """A piece of a prompt's token ids (`rollout.store.token_pieces`)."""
        if name not in self._pieces:
            if len(self._pieces) > CACHED_PIECES:
                self._pieces.clear()
            row = self._db.execute("SELECT ids FROM token_pieces WHERE name = ?", (name,)).fetchone()
            if row is None:
                raise missing(f"the piece {name.hex()} of token ids")
            (self._pieces[name],) = row
        return self._pieces[name]

    def path_nodes(self, episode: int) -> list[NodeBody]:
        """Every node from the end of the opening to the episode's last: the nodes it branched from, then its own."""
        return [body for _, body in self.keyed_path(episode)]

    def keyed_path(self, episode: int) -> list[tuple[NodeKey, NodeBody]]:
        """The same nodes, each with its key."""
        owner = episode
        path = [((owner, place), body) for place, body in enumerate(self.nodes(owner))]
        branch = self.branch(owner)
        while branch is not None and not branch.is_at_trunk:
            owner = branch.parent
            shared = self.nodes(owner)
            if (shared or path) and not 0 <= branch.place < len(shared):
                raise missing(f"node {branch.place} of episode {owner}")
            path = [((owner, place), body) for place, body in enumerate(shared[: branch.place + 1])] + path
            branch = self.branch(owner)
        return path

    def whole_path(self, dataset: str, trajectory: str) -> list[NodeBody]:
        """Every node of a trajectory, from the task's opening to the leaf. Raises JournalError if the journal does not
        have the trajectory, or did not keep its nodes."""
        if nodes := self.kept_path(dataset, trajectory):
            return nodes
        raise JournalError(f"{self.path}: has no nodes of {trajectory!r} in the dataset {dataset!r}")

    def kept_path(self, dataset: str, trajectory: str) -> list[NodeBody]:
        """The same; empty if the journal does not have the trajectory, or did not keep its nodes."""
        row = self._db.execute(
            "SELECT d.episode, e.tree, d.line IS NULL FROM trajectories d JOIN episodes e ON e.id = d.episode "
            "WHERE d.dataset = ? AND d.id = ?",
            (dataset, trajectory),
        ).fetchone()
        if row is None:
            return []
        episode, tree, are_kept = row
        # An attempt that failed at its first request has its opening alone.
        return [*self._cached_opening(tree), *self.path_nodes(episode)] if are_kept else []

    # ---- trajectories -------------------------------------------------------------------------------------------

    def heads(self, dataset: str) -> Iterator[tuple[Head, float]]:
        """The head of every trajectory, failed ones included, with the time at which it was recorded."""
        rows = self._db.execute("SELECT head, finished FROM trajectories WHERE dataset = ? ORDER BY id", (dataset,))
        return ((_head_decoder.decode(head), finished) for head, finished in rows)

    def head(self, dataset: str, trajectory: str) -> tuple[Head, bool] | None:
        """The head of one trajectory, and whether its nodes were kept; None if there is none of this id."""
        row = self._db.execute(
            "SELECT head, line IS NULL FROM trajectories WHERE dataset = ? AND id = ?", (dataset, trajectory)
        ).fetchone()
        if row is None:
            return None
        head, has_nodes = row
        return _head_decoder.decode(head), bool(has_nodes)

    def line(self, dataset: str, trajectory: str) -> bytes:
        """The output line of a trajectory, built from the journal."""
        row = self._db.execute(
            "SELECT d.episode, d.head, d.line, e.tree FROM trajectories d LEFT JOIN episodes e ON e.id = d.episode "
            "WHERE d.dataset = ? AND d.id = ?",
            (dataset, trajectory),
        ).fetchone()
        if row is None:
            raise missing(f"the trajectory {trajectory!r}")
        episode, head, line, tree = row
        if line is not None:
            return bytes(line)
        if tree is None:
            raise missing(f"episode {episode}")
        messages = list(self.opening(tree))
        messages += [said for body in self.path_nodes(episode) if (said := body.said) is not None]
        return encode_line(_head_decoder.decode(head), messages)

    def trajectory(self, dataset: str, trajectory: str) -> Trajectory | None:
        """One trajectory by its id; None if there is none."""
        found = self.head(dataset, trajectory)
        if found is None:
            return None
        head, has_nodes = found
        nodes = self.whole_path(dataset, trajectory) if has_nodes else None
        return self._files.open(head, nodes, lambda: read_saved(self.line(dataset, trajectory)).read_messages())

    def messages(self, dataset: str, trajectory: str) -> Sequence[Message]:
        """The messages of one trajectory; none if there is none of this id."""
        found = self.trajectory(dataset, trajectory)
        return () if found is None else found.messages

    def line_positions(self, dataset: str) -> list[LinePosition]:
        """The lines of the output file, in order, as the journal recorded them."""
        rows = self._db.execute(
            "SELECT id, place, length FROM trajectories WHERE dataset = ? AND place IS NOT NULL ORDER BY place",
            (dataset,),
        )
        return [LinePosition(trajectory, place, length) for trajectory, place, length in rows]

    def failed_heads(self, dataset: str) -> Iterator[Head]:
        """The heads of failed trajectories."""
        rows = self._db.execute(
            "SELECT head FROM trajectories WHERE dataset = ? AND status = 'failed' ORDER BY id", (dataset,)
        )
        return (_head_decoder.decode(head) for (head,) in rows)

    def failed_lines(self, dataset: str) -> Iterator[bytes]:
        """The lines of failed trajectories, up to where they failed."""
        rows = self._db.execute(
            "SELECT id FROM trajectories WHERE dataset = ? AND status = 'failed' ORDER BY id", (dataset,)
        ).fetchall()
        return (self.line(dataset, trajectory) for (trajectory,) in rows)

    def trajectories(self, dataset: str) -> Iterator[Trajectory]:
        """All trajectories, one at a time: the finished ones in the order of the output file, then the failed ones.

        If nodes were not kept (`use_checkpoints: false`), messages are read from the line when they are asked for. That
        raises BadLine if they cannot be read.
        """
        found = self._db.execute(
            "SELECT id FROM trajectories WHERE dataset = ? ORDER BY place IS NULL, place, id", (dataset,)
        ).fetchall()
        for (trajectory,) in found:
            # In one statement: a run that goes on may replace a failed attempt by one of another episode.
            head, line, episode, tree, is_branch = self._db.execute(
                "SELECT d.head, d.line, d.episode, e.tree, b.episode IS NOT NULL FROM trajectories d "
                "LEFT JOIN episodes e ON e.id = d.episode LEFT JOIN branches b ON b.episode = d.episode "
                "WHERE d.dataset = ? AND d.id = ?",
                (dataset, trajectory),
            ).fetchone()
            if line is not None:
                yield self._kept(head, bytes(line))
            else:
                nodes = self.path_nodes(episode) if is_branch else self.nodes(episode)
                yield self._trajectory(head, [*self._cached_opening(tree), *nodes])

    def finished(self, dataset: str) -> Iterator[Trajectory]:
        """Every trajectory of a dataset that did not fail, by id."""
        rows = self._db.execute(
            "SELECT d.head, d.line, d.episode, e.tree FROM trajectories d LEFT JOIN episodes e ON e.id = d.episode "
            "WHERE d.dataset = ? AND d.status != 'failed' ORDER BY d.id",
            (dataset,),
        )
        for head, line, episode, tree in rows:
            if line is None:
                yield self._trajectory(head, [*self._cached_opening(tree), *self.path_nodes(episode)])
                continue
            kept = self._kept(head, line)
            # Read here, where a line that cannot be read is a damaged journal.
            yield msgspec.structs.replace(kept, given=kept.messages)

    def _kept(self, head: bytes, line: bytes) -> Trajectory:
        return self._trajectory(head, None, lambda: read_saved(line).read_messages())

    def _trajectory(
        self, head: bytes, nodes: Sequence[NodeBody] | None, given: Callable[[], Sequence[Message]] = tuple
    ) -> Trajectory:
        return self._files.open(_head_decoder.decode(head), nodes, given)


@contextlib.contextmanager
def open_reader(run_dir: Path) -> Iterator[JournalReader]:
    """Read the journal of a run directory. Writes nothing and waits for no lock."""
    with connect_read_only(run_dir) as connection:
        yield JournalReader(run_dir / JOURNAL, connection)


def _as_nodes(opening: Iterable[Message]) -> tuple[NodeBody, ...]:
    return tuple(NodeBody("opening", message=message) for message in opening)
