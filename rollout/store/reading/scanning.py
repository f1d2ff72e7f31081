"""Reading attempts for an index beside the journal: what lists are sorted and filtered by, and their own words.

Attempts are named by their episodes, which never change, and read some at a time, in the order of episodes, so that the
memory that it takes does not grow with the run. Nodes are decoded no further than their words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from rollout.core.messages import Message
from rollout.store.damage import reads_journal
from rollout.store.reading.figures import FiguresReader
from rollout.trajectories.line import Head
from rollout.trajectories.saved import read_saved

LARGEST_PLACE = 2**63 - 1
_head_decoder = msgspec.msgpack.Decoder(Head)
_messages_decoder = msgspec.msgpack.Decoder(tuple[Message, ...])


class ScannedCall(msgspec.Struct, gc=False):
    """A tool call: what is counted and searched of it."""

    id: str
    name: str
    arguments: str = "{}"


class ScannedMessage(msgspec.Struct, gc=False):
    """The words of a message."""

    role: str
    content: str | None = None
    tool_calls: tuple[ScannedCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: str | None = None


class _ScannedGeneration(msgspec.Struct, gc=False):
    message: ScannedMessage
    latency: float = 0.0


class ScannedNode(msgspec.Struct, gc=False):
    """The part of a node that is searched and counted."""

    kind: str
    message: ScannedMessage | None = None
    generation: _ScannedGeneration | None = None
    error_kind: str | None = None

    @property
    def said(self) -> ScannedMessage | None:
        """The message that it adds to the conversation (`NodeBody.said`)."""
        if self.kind == "generation" and self.generation is not None:
            return self.generation.message
        return None if self.kind in ("user_call", "user_tool") else self.message

    @property
    def latency(self) -> float | None:
        """Seconds of an answer of the agent's model; None for anything else."""
        return self.generation.latency if self.kind == "generation" and self.generation is not None else None


class _UnreadNode(msgspec.Struct, gc=False):
    """What a node is, with its content undecoded."""

    kind: str
    message: msgspec.Raw = msgspec.Raw()
    generation: msgspec.Raw = msgspec.Raw()

    @property
    def has_said(self) -> bool:
        """Whether it adds a message (`NodeBody.said`)."""
        if self.kind == "generation" and self.generation:
            return True
        return self.kind not in ("user_call", "user_tool") and bool(self.message)


class ScannedAttempt(msgspec.Struct):
    """An attempt that has ended, with what it added itself."""

    episode: int
    dataset: str
    finished: float
    head: Head
    opening: tuple[Message, ...]
    nodes: list[ScannedNode]
    """Its own; those that it shares with the attempt it branched from are not among them."""
    parent: int | None = None
    """The episode that it branched from; None where it began at the trunk."""
    place: int = 0
    """The last node of the parent that it shares."""
    rank: int | None = None
    own_cost: float = 0.0
    """Dollars for what it added itself."""


_node_decoder = msgspec.msgpack.Decoder(ScannedNode)
_unread_decoder = msgspec.msgpack.Decoder(_UnreadNode)


@reads_journal
class ScanReader(FiguresReader):
    """Reads attempts by their episodes."""

    def ended_episodes(self) -> set[int]:
        """The episodes of all attempts that have ended."""
        # Served by the index on this column alone.
        return {episode for (episode,) in self._db.execute("SELECT episode FROM trajectories")}

    def count_ended(self) -> int:
        """The number of attempts that have ended."""
        (number,) = self._db.execute("SELECT count(*) FROM trajectories").fetchone()
        return int(number)

    def ended_among(self, episodes: Iterable[int]) -> set[int]:
        """Those of these episodes whose attempts have ended."""
        wanted = (str(list(episodes)),)
        sql = "SELECT episode FROM trajectories WHERE episode IN (SELECT value FROM json_each(?))"
        return {episode for (episode,) in self._db.execute(sql, wanted)}

    def begun_episodes(self, since: int) -> tuple[list[int], int]:
        """The episodes that began after this one, and the newest of all."""
        found = [number for (number,) in self._db.execute("SELECT id FROM episodes WHERE id > ?", (since,))]
        return found, max(found, default=since)

    def recorded_at(self, dataset: str, trajectory: str) -> tuple[int, float] | None:
        """The episode and the time of recording of an attempt; None if there is none."""
        sql = "SELECT episode, finished FROM trajectories WHERE dataset = ? AND id = ?"
        row = self._db.execute(sql, (dataset, trajectory)).fetchone()
        return None if row is None else (int(row[0]), float(row[1]))

    def scan_attempts(self, episodes: Sequence[int]) -> Iterator[ScannedAttempt]:
        """These attempts, by episode; those that are there no longer are left out."""
        openings: dict[int, tuple[Message, ...]] = {}
        rows = self._db.execute(
            "SELECT d.episode, d.dataset, d.finished, d.head, d.line, e.tree, b.parent, b.place, p.rank, d.cost "
            "FROM trajectories d LEFT JOIN episodes e ON e.id = d.episode "
            "LEFT JOIN branches b ON b.episode = d.episode LEFT JOIN placed p ON p.episode = d.episode "
            "WHERE d.episode IN (SELECT value FROM json_each(?)) ORDER BY d.episode",
            (str(list(episodes)),),
        )
        for episode, dataset, finished, head, line, tree, parent, place, rank, own_cost in rows:
            opening: tuple[Message, ...] = ()
            if line is not None:
                nodes = [_as_node(message) for message in read_saved(bytes(line)).read_messages()]
            else:
                if tree not in openings:
                    openings[tree] = self._scanned_opening(tree)
                opening, nodes = openings[tree], self.scan_nodes(episode)
            has_parent = parent is not None and 0 <= parent < episode
            yield ScannedAttempt(
                episode,
                dataset,
                finished,
                _head_decoder.decode(head),
                opening,
                nodes,
                parent if has_parent else None,
                place if has_parent else 0,
                rank,
                own_cost,
            )

    def scan_nodes(self, episode: int) -> list[ScannedNode]:
        """The nodes that an episode added, in order."""
        rows = self._db.execute("SELECT body FROM nodes WHERE episode = ? ORDER BY place", (episode,))
        return [_node_decoder.decode(body) for (body,) in rows]

    def count_messages(self, episode: int) -> int:
        """The number of messages behind the opening on the path of an episode so far. Decodes none of them."""
        count = 0
        path: tuple[int, int] | None = (episode, LARGEST_PLACE)
        while path is not None:
            rows = self._db.execute("SELECT body FROM nodes WHERE episode = ? AND place <= ?", path)
            count += sum(_unread_decoder.decode(body).has_said for (body,) in rows)
            path = self.scan_branch(path[0])
        return count

    def scan_branch(self, episode: int) -> tuple[int, int] | None:
        """The episode that this one branched from and the last node of it that both share; None at the trunk."""
        row = self._db.execute("SELECT parent, place FROM branches WHERE episode = ?", (episode,)).fetchone()
        return None if row is None or row[0] < 0 or row[0] >= episode else (int(row[0]), int(row[1]))

    def scan_opening(self, episode: int) -> tuple[Message, ...]:
        """The opening of the tree that an episode belongs to."""
        row = self._db.execute("SELECT tree FROM episodes WHERE id = ?", (episode,)).fetchone()
        return () if row is None else self._scanned_opening(row[0])

    def beginning(self) -> str | None:
        """What tells this journal from any other: when its first episode began. None where none has."""
        row = self._db.execute("SELECT id, started FROM episodes ORDER BY id LIMIT 1").fetchone()
        return None if row is None else f"{row[0]} {row[1]!r}"

    def _scanned_opening(self, tree: int | None) -> tuple[Message, ...]:
        row = self._db.execute("SELECT opening FROM trees WHERE id = ?", (tree,)).fetchone()
        return () if row is None else _messages_decoder.decode(row[0])


def _as_node(message: Message) -> ScannedNode:
    calls = tuple(ScannedCall(call.id, call.name, call.arguments) for call in message.tool_calls)
    said = ScannedMessage(message.role, message.content, calls, message.tool_call_id, message.reasoning)
    if message.role == "assistant":
        return ScannedNode("generation", generation=_ScannedGeneration(said))
    return ScannedNode("tool" if message.role == "tool" else "user", said)
