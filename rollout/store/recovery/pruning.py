"""Removing incomplete attempts from a journal that was rebuilt from a damaged one.

A trajectory is kept only if all of it is there: its head, its episode, every node on its path, and a line of the length
that was written. An unfinished attempt is kept up to its last readable node. If attempts branch from one another, their
group is kept as a whole or not at all. So `--resume` of the new run makes exactly what was lost.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from rollout.core.errors import JournalError
from rollout.core.messages import JSON, Message, encode_message
from rollout.store.damage import DATA_ERRORS
from rollout.store.reading.episodes import Branch
from rollout.store.reading.reader import JournalReader
from rollout.store.recovery.recover_marks import RecoveredMarks
from rollout.store.run_dir import BLOBS, JOURNAL
from rollout.store.token_pieces import put_together
from rollout.tasks.source import attempt_number
from rollout.trajectories.line import BranchPoint, Head, encode_line
from rollout.trajectories.tree import NodeBody

_decode_body = msgspec.msgpack.Decoder(NodeBody).decode
_decode_head = msgspec.msgpack.Decoder(Head).decode


class Lost(msgspec.Struct, frozen=True):
    """An attempt that could not be saved."""

    dataset: str
    trajectory: str
    why: str


class Recovered(msgspec.Struct):
    """The parts of a run that were saved, and those that were not."""

    target: Path
    finished: Counter[str] = msgspec.field(default_factory=Counter)
    """Complete trajectories, by dataset."""
    failed: Counter[str] = msgspec.field(default_factory=Counter)
    unfinished: Counter[str] = msgspec.field(default_factory=Counter)
    """Attempts that will continue after their last readable node."""
    lost: list[Lost] = []
    """Finished and failed trajectories."""
    dropped: list[Lost] = []
    """Attempts that were not finished."""
    outputs: dict[str, Path] = {}
    blobs: int = 0
    lost_blobs: list[str] = []
    """Files whose content does not match their name."""
    missing_prompts: list[str] = []
    """Blobs with system prompts and tools that kept trajectories refer to and the damaged run does not have."""
    has_run_file: bool = False
    marks: RecoveredMarks = RecoveredMarks()


class _Trajectory(msgspec.Struct, frozen=True):
    """A trajectory, with its episode and tree if these are there."""

    head: bytes
    line: bytes | None
    place: int | None
    length: int | None
    generations: int
    episode: int | None
    name: str | None
    """The trajectory that the episode grows."""
    tree: int | None
    dataset: str | None
    """The dataset of the tree."""
    task: str | None


class Pruning:
    """Removes what is incomplete from a new journal. `perform` does it."""

    def __init__(
        self, work: Path, database: sqlite3.Connection, meta: dict[str, str], document: JSON, found: Recovered
    ) -> None:
        self._db = database
        self._reader = JournalReader(work / JOURNAL, database)
        self._blobs = work / BLOBS
        self._document = document
        self._meta = meta
        self._found = found
        self._branching: set[int] = set()
        """Trees whose attempts branch from one another, or may do so."""

    def perform(self) -> None:
        """Remove everything that is incomplete, and count the rest."""
        known = {key.removeprefix("identity:") for key in self._meta if key.startswith("identity:")}
        if known:
            marks = ", ".join("?" * len(known))
            self._db.execute(f"DELETE FROM trees WHERE dataset NOT IN ({marks})", sorted(known))
        self._db.execute("DELETE FROM episodes WHERE tree NOT IN (SELECT id FROM trees)")
        self._db.execute("CREATE INDEX recovering_trees ON episodes(tree)")
        self._db.execute("CREATE INDEX recovering_trajectories ON episodes(trajectory)")
        self._branching = self._find_branching()
        with contextlib.ExitStack() as held:
            outputs = self._old_outputs(held)
            self._check_trajectories(outputs)
            self._check_groups()
            self._check_unfinished(outputs, self._find_lost_lines(outputs))
        self._tidy()
        self._find_missing_prompts()
        for dataset, status in self._db.execute("SELECT dataset, status FROM trajectories"):
            (self._found.failed if status == "failed" else self._found.finished)[dataset] += 1

    def _find_branching(self) -> set[int]:
        rows = self._db.execute("SELECT e.tree FROM branches b JOIN episodes e ON e.id = b.episode")
        trees = {tree for (tree,) in rows}
        for (dataset,) in self._db.execute("SELECT DISTINCT dataset FROM trees").fetchall():
            if self._may_branch(dataset):
                rows = self._db.execute("SELECT id FROM trees WHERE dataset = ?", (dataset,))
                trees.update(tree for (tree,) in rows)
        return trees

    def _may_branch(self, dataset: str) -> bool:
        """Whether the strategy of a dataset is unknown or another one than `chain`."""
        with contextlib.suppress(*DATA_ERRORS):
            identity = msgspec.json.decode(self._meta[f"identity:{dataset}"])
            return bool(identity.get("strategy", {}).get("name", "chain") != "chain")
        with contextlib.suppress(*DATA_ERRORS):
            return bool(self._document["config"]["datasets"][dataset]["strategy"]["name"] != "chain")
        return True

    def _old_outputs(self, held: contextlib.ExitStack) -> dict[str, BinaryIO]:
        """The output files of the damaged run that still exist."""
        paths: dict[str, str] = {}
        with contextlib.suppress(*DATA_ERRORS):
            datasets = self._document["config"]["datasets"]
            paths = {name: str(dataset["output_path"]) for name, dataset in datasets.items()}
        named = {key.removeprefix("output:"): path for key, path in self._meta.items() if key.startswith("output:")}
        found: dict[str, BinaryIO] = {}
        for dataset, path in {**paths, **named}.items():
            with contextlib.suppress(OSError, ValueError):
                found[dataset] = held.enter_context(open(path, "rb"))  # noqa: SIM115 - the stack closes it
        return found

    def _check_trajectories(self, outputs: dict[str, BinaryIO]) -> None:
        keys = self._db.execute("SELECT dataset, id FROM trajectories ORDER BY dataset, id").fetchall()
        for dataset, trajectory in keys:
            try:
                why = self._fault(dataset, trajectory, outputs.get(dataset))
            except (JournalError, *DATA_ERRORS):
                why = "a part of it cannot be read"
            if why is not None:
                self._lose(dataset, trajectory, why)

    def _fault(self, dataset: str, trajectory: str, output: BinaryIO | None) -> str | None:
        """What is wrong with a trajectory; None if it is complete."""
        row = self._db.execute(
            # In the order of the fields of _Trajectory.
            "SELECT d.head, d.line, d.place, d.length, d.generations, e.id, e.trajectory, e.tree, t.dataset, t.task "
            "FROM trajectories d LEFT JOIN episodes e ON e.id = d.episode LEFT JOIN trees t ON t.id = e.tree "
            "WHERE d.dataset = ? AND d.id = ?",
            (dataset, trajectory),
        ).fetchone()
        found = _Trajectory(*row)
        head = _decode_head(found.head)
        if found.episode is None or found.tree is None or found.task is None:
            return "the record of its attempt is lost"
        if (found.dataset, found.name, head.task_id) != (dataset, trajectory, found.task):
            return "the record of its attempt is lost"
        attempt_number(found.task, trajectory)
        line = found.line
        if line is None:
            nodes = self._reader.path_nodes(found.episode)
            branch = self._reader.branch(found.episode)
            if not _fits(head, branch):
                return "the node that it branches from is lost"
            if any(not self._has_images(body) for body in nodes):
                return "an image of it is lost"
            own = nodes if branch is None else self._reader.nodes(found.episode)
            messages = [*self._reader.opening(found.tree), *(said for body in nodes if (said := body.said) is not None)]
            line = encode_line(head, messages)
            if sum(body.kind == "generation" for body in own) != found.generations:
                return "some of its messages are lost"
        if found.length is not None and len(line) != found.length:
            return "some of its messages are lost"
        if output is not None and found.place is not None and _contradicts(output, found.place, line, trajectory):
            return "its output line differs"
        return None

    def _has_images(self, body: NodeBody) -> bool:
        said = body.message
        return said is None or all((self._blobs / name).is_file() for name in said.images)

    def _lose(self, dataset: str, trajectory: str, why: str) -> None:
        self._found.lost.append(Lost(dataset, trajectory, why))
        self._db.execute("DELETE FROM trajectories WHERE dataset = ? AND id = ?", (dataset, trajectory))
        rows = self._db.execute(
            "SELECT e.id, e.tree FROM episodes e JOIN trees t ON t.id = e.tree "
            "WHERE t.dataset = ? AND e.trajectory = ?",
            (dataset, trajectory),
        ).fetchall()
        for episode, tree in rows:
            self._db.execute("DELETE FROM grown WHERE tree = ?", (tree,))
            if tree not in self._branching:
                self._delete_episode(episode)

    def _delete_episode(self, episode: int) -> None:
        self._db.execute("DELETE FROM episodes WHERE id = ?", (episode,))
        self._db.execute("DELETE FROM nodes WHERE episode = ?", (episode,))

    def _check_groups(self) -> None:
        """Remove groups whose attempts branch from one another if one of them is lost."""
        lost = {(entry.dataset, entry.trajectory) for entry in self._found.lost}
        for tree in sorted(self._branching):
            rows = self._db.execute(
                "SELECT e.id, e.trajectory, t.dataset, d.id FROM episodes e JOIN trees t ON t.id = e.tree "
                "LEFT JOIN trajectories d ON d.dataset = t.dataset AND d.id = e.trajectory WHERE e.tree = ?",
                (tree,),
            ).fetchall()
            unfinished = [(episode, name, dataset) for episode, name, dataset, known in rows if known is None]
            needed = self._needed_by_others(tree)
            is_broken = any((dataset, name) in lost or episode in needed for episode, name, dataset in unfinished)
            for episode, name, dataset, known in rows if is_broken else ():
                if known is not None and (dataset, name) not in lost:
                    lost.add((dataset, name))
                    self._lose(dataset, name, "its group is damaged")
                self._delete_episode(episode)
            for episode, name, dataset in unfinished:
                if (dataset, name) not in lost:
                    self._found.dropped.append(Lost(dataset, name, "attempts of its group branch from one another"))
                self._delete_episode(episode)
            if unfinished:
                self._db.execute("DELETE FROM grown WHERE tree = ?", (tree,))

    def _needed_by_others(self, tree: int) -> set[int]:
        rows = self._db.execute(
            "SELECT b.parent, g.owner FROM episodes e JOIN branches b ON b.episode = e.id "
            "LEFT JOIN beginnings g ON g.episode = e.id WHERE e.tree = ?",
            (tree,),
        )
        return {episode for row in rows for episode in row if episode is not None}

    def _find_lost_lines(self, outputs: dict[str, BinaryIO]) -> dict[tuple[str, str], tuple[int, int]]:
        """Report the trajectories that the old output has and the journal does not. Returns the offset and length of
        their lines."""
        known = {(entry.dataset, entry.trajectory) for entry in self._found.lost}
        places: dict[tuple[str, str], tuple[int, int]] = {}
        for dataset, file in outputs.items():
            kept = self._reader.recorded_ids(dataset)
            file.seek(0)
            place = 0
            for line in file:
                identifier = _id_of(line)
                if identifier is not None and identifier not in kept and (dataset, identifier) not in known:
                    places[dataset, identifier] = place, len(line)
                    self._found.lost.append(Lost(dataset, identifier, "its record is lost"))
                place += len(line)
        return places

    def _check_unfinished(self, outputs: dict[str, BinaryIO], lines: dict[tuple[str, str], tuple[int, int]]) -> None:
        """Keep the readable nodes of attempts without a trajectory. If the old output has the line of one, its messages
        must be the same: nothing else shows that a byte inside a text has changed."""
        rows = self._db.execute(
            "SELECT e.id, e.trajectory, e.tree, t.dataset FROM episodes e JOIN trees t ON t.id = e.tree "
            "LEFT JOIN trajectories d ON d.dataset = t.dataset AND d.id = e.trajectory WHERE d.id IS NULL ORDER BY e.id"
        ).fetchall()
        kept: set[tuple[str, str]] = set()
        for episode, trajectory, tree, dataset in rows:
            nodes = self._readable_nodes(episode)
            why = None if nodes else "its first message cannot be read"
            if (place := lines.get((dataset, trajectory))) is not None:
                outputs[dataset].seek(place[0])
                messages = [*self._reader.opening(tree), *(said for node in nodes if (said := node.said) is not None)]
                if not _begins_with(outputs[dataset].read(place[1]), messages):
                    why = "its output line differs"
            self._db.execute("DELETE FROM nodes WHERE episode = ? AND place >= ?", (episode, len(nodes)))
            if why is None:
                kept.add((dataset, trajectory))
            else:
                self._delete_episode(episode)
                self._found.dropped.append(Lost(dataset, trajectory, why))
        self._found.unfinished.update(dataset for dataset, _ in kept)

    def _readable_nodes(self, episode: int) -> list[NodeBody]:
        """The nodes of an episode up to the first gap. If only some calls of a generation are answered, their answers
        are left out: the calls are made again."""
        bodies: list[NodeBody] = []
        rows = self._db.execute("SELECT place, body FROM nodes WHERE episode = ? ORDER BY place", (episode,))
        with contextlib.suppress(JournalError):
            for place, body in rows.fetchall():
                if place != len(bodies):
                    break
                node = put_together(_decode_body(body), self._reader.token_piece)
                if not self._has_images(node):
                    break
                bodies.append(node)
        for place, node in enumerate(bodies):
            calls = len(node.calls)
            if place + 1 < len(bodies) < place + 1 + calls:
                return bodies[: place + 1]
        return bodies

    def _find_missing_prompts(self) -> None:
        """Report the prompts that exports will not find. Trajectories are complete without them."""
        named: set[str] = set()
        for (packed,) in self._db.execute("SELECT head FROM trajectories"):
            with contextlib.suppress(*DATA_ERRORS):
                named.update(_prompts_of(_decode_head(packed)))
        gone = sorted(f"{name}.json" for name in named if not (self._blobs / f"{name}.json").is_file())
        self._found.missing_prompts = [name for name in gone if name not in self._found.lost_blobs]

    def _tidy(self) -> None:
        for statement in (
            "DROP INDEX recovering_trees",
            "DROP INDEX recovering_trajectories",
            "DELETE FROM nodes WHERE episode NOT IN (SELECT id FROM episodes)",
            "DELETE FROM branches WHERE episode NOT IN (SELECT id FROM episodes)",
            "DELETE FROM beginnings WHERE episode NOT IN (SELECT id FROM episodes)",
            "DELETE FROM placed WHERE episode NOT IN (SELECT id FROM episodes)",
            "DELETE FROM trees WHERE id NOT IN (SELECT tree FROM episodes)",
            "DELETE FROM grown WHERE tree NOT IN (SELECT id FROM trees)",
        ):
            self._db.execute(statement)


def _fits(head: Head, branch: Branch | None) -> bool:
    """Whether an attempt starts at the branch that its head names."""
    told = head.branch or BranchPoint()
    beginning = None if branch is None else branch.beginning
    is_branch = branch is not None and (not branch.is_at_trunk or beginning is not None)
    tokens = None if beginning is None else beginning.tokens
    return (told.parent is not None) == is_branch and told.token_offset == tokens


def _prompts_of(head: Head) -> set[str]:
    """The names of the prompts that were sent for a trajectory."""
    last = () if head.prompt_name is None else (head.prompt_name,)
    return {*last, *(name for _, name in head.prompt_names)}


def _contradicts(output: BinaryIO, place: int, line: bytes, trajectory: str) -> bool:
    """Whether the old output has another complete line of this trajectory at this offset."""
    if not 0 <= place < output.seek(0, os.SEEK_END):
        return False
    output.seek(place)
    there = output.read(len(line))
    return there != line and there.endswith(b"\n") and _id_of(there) == trajectory


def _begins_with(line: bytes, messages: Sequence[Message]) -> bool:
    """Whether the messages of a line begin with these messages."""
    begin = b'"messages":[' + b",".join(map(encode_message, messages))
    return begin + b"," in line or begin + b"]" in line


class _Named(msgspec.Struct):
    id: str


_decode_name = msgspec.json.Decoder(_Named).decode


def _id_of(line: bytes) -> str | None:
    try:
        return _decode_name(line).id
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def lost_ids(entries: Sequence[Lost], most: int) -> str:
    """The first of these ids, and the number of the others."""
    shown = ", ".join(entry.trajectory for entry in entries[:most])
    return f"{shown}, … ({len(entries) - most} more)" if len(entries) > most else shown
