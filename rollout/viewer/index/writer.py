"""Bringing the index of a run up to date: what ended since, a few hundred attempts in each transaction.

What changes in a journal is found by episodes: new ones are added, those that another attempt of the same id replaced
are removed, and failed ones, which a resumed run may go on with under the same episode, are compared by the time of
their recording. While one command writes the run, only episodes that had not ended and failed ones are looked at again,
so that following a run costs what it adds.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterable, Sequence

from rollout.store.marks import MarkChanges
from rollout.store.reading.reader import JournalReader
from rollout.store.reading.scanning import ScannedAttempt, ScannedNode
from rollout.viewer.index.rows import COLUMNS, ToolCount, attempt_row, node_messages, words_of
from rollout.viewer.index.schema import BY_PEOPLE, PLACE_BITS

CHUNK = 400
"""Attempts in a transaction: what a reader has to wait for at most, and what is in memory at once."""
_INSERT = f"INSERT OR REPLACE INTO attempts({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
Progress = Callable[[int, int], None]
"""Called with the number of attempts in the index, and the number of all."""


class Outdated(Exception):
    """The index is of another journal than this one, or does not fit it: it has to be made again."""


class IndexWriter:
    """Writes one index, over one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.known = {n for (n,) in connection.execute("SELECT n FROM attempts")}
        """The numbers of the attempts in the index."""
        self._unended: set[int] | None = None
        """The episodes of the run that had begun and not ended; None until all were compared while it was live."""
        self._newest = 0
        """The newest episode that was looked at."""

    def check_origin(self, reader: JournalReader) -> None:
        """Raise Outdated where the index was made of another journal."""
        beginning = reader.beginning()
        row = self._db.execute("SELECT value FROM meta WHERE key = 'journal'").fetchone()
        if row is not None and row[0] != beginning:
            raise Outdated
        if row is None and beginning is not None:
            self._db.execute("INSERT INTO meta VALUES ('journal', ?)", (beginning,))

    def follow(self, reader: JournalReader, *, is_live: bool, most: int | None, progress: Progress) -> int:
        """Index what changed in the run's journal, at most `most` attempts. Returns the number that are left.
        `is_live`: one command has been writing it since the last call that said so, or begins to."""
        if is_live and self._unended is not None:
            ended = self._ended_since(reader, self._unended)
        else:
            # Before what has ended is read: an attempt that ends in between is looked at again.
            begun, self._newest = reader.begun_episodes(0) if is_live else ((), 0)
            ended = reader.ended_episodes()
            self._remove(sorted({n for n in self.known if n < BY_PEOPLE} - ended))
            self._unended = set(begun) - self.known if is_live else None
        due = (ended - self.known) | self._recorded_again(reader, is_people=False)
        taken = self._take_some(reader, 0, sorted(due), most, progress)
        if self._unended is not None:
            self._unended -= taken
        return len(due) - len(taken)

    def follow_people(self, reader: JournalReader, *, most: int | None, progress: Progress) -> int:
        """The same of what people added."""
        ended = {episode | BY_PEOPLE: episode for episode in reader.ended_episodes()}
        self._remove(sorted({n for n in self.known if n >= BY_PEOPLE} - ended.keys()))
        due = (ended.keys() - self.known) | self._recorded_again(reader, is_people=True)
        episodes = sorted(ended[n] for n in due)
        return len(due) - len(self._take_some(reader, BY_PEOPLE, episodes, most, progress))

    def _ended_since(self, reader: JournalReader, unended: set[int]) -> set[int]:
        """The episodes that have ended since the last look."""
        begun, self._newest = reader.begun_episodes(self._newest)
        unended.update(begun)
        return reader.ended_among(unended)

    def _take_some(
        self, reader: JournalReader, flag: int, due: Sequence[int], most: int | None, progress: Progress
    ) -> set[int]:
        """Take in some of these episodes; returns which."""
        taken = due if most is None else due[:most]
        of = len(self.known) + sum(episode | flag not in self.known for episode in due)
        for begin in range(0, len(taken), CHUNK):
            self._take_in(reader, flag, taken[begin : begin + CHUNK])
            progress(len(self.known), of)
        return set(taken)

    def write_filters(self, found: Iterable[tuple[str, str, str]]) -> None:
        """Replace what `rollout filter` found: filter, dataset and id of each."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM filters")
            self._db.executemany("INSERT OR IGNORE INTO filters VALUES (?, ?, ?)", found)

    def write_marks(self, changes: MarkChanges) -> None:
        """Apply what changed in people's marks."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            if changes.is_whole:
                self._db.execute("DELETE FROM marks")
            self._db.executemany("DELETE FROM marks WHERE number = ?", [(mark.number,) for mark in changes.removed])
            self._db.executemany(
                "INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        *(mark.number, mark.dataset, mark.id, mark.message),
                        *(mark.kind, mark.value, mark.text, mark.author),
                    )
                    for mark in changes.marks
                ],
            )
            # For other servers, which read what this one writes.
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('marks', ?)", (str(changes.version),))

    # ---- attempts -----------------------------------------------------------------------------------------------

    def _recorded_again(self, reader: JournalReader, *, is_people: bool) -> set[int]:
        """Failed attempts that have been recorded again under the same episode. Those that another episode replaced
        are removed."""
        rows = self._db.execute("SELECT n, dataset, id, finished FROM attempts WHERE cause IS NOT NULL").fetchall()
        again, gone = set(), []
        for n, dataset, name, finished in rows:
            if (n >= BY_PEOPLE) == is_people:
                now = reader.recorded_at(dataset, name)
                if now is None or now[0] | (n & BY_PEOPLE) != n:
                    gone.append(n)
                elif now[1] != finished:
                    again.add(n)
        self._remove(gone)
        return again

    def _take_in(self, reader: JournalReader, flag: int, episodes: Sequence[int]) -> None:
        attempts = list(reader.scan_attempts(episodes))
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            again = [attempt.episode | flag for attempt in attempts if attempt.episode | flag in self.known]
            self._remove_rows(again)
            for attempt in attempts:
                self._add(reader, flag, attempt)
        self.known.update(attempt.episode | flag for attempt in attempts)

    def _add(self, reader: JournalReader, flag: int, attempt: ScannedAttempt) -> None:
        n = attempt.episode | flag
        self._db.execute(_INSERT, attempt_row(n, attempt))
        own = ToolCount(attempt.nodes)
        calls = own.calls
        if attempt.parent is not None:
            calls = ToolCount([*self._inherit(reader, flag, attempt), *attempt.nodes]).calls
        self._db.executemany(
            "INSERT OR REPLACE INTO tools VALUES (?, ?, ?, ?, ?)",
            [(tool, n, number, own.results[tool], own.errors[tool]) for tool, number in calls.items()],
        )
        head = attempt.head
        self._db.executemany(
            "INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?)",
            [(score.name, n, score.value, score.decides) for score in head.scores],
        )
        self._db.executemany("INSERT OR IGNORE INTO live_marks VALUES (?, ?)", [(mark, n) for mark in head.marks])
        opening = () if attempt.parent is not None else attempt.opening
        self._write_document(n, [words_of(opening), *_texts(attempt.nodes)])

    def _remove(self, numbers: Sequence[int]) -> None:
        if not numbers:
            return
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._remove_rows(numbers)
        self.known.difference_update(numbers)

    def _remove_rows(self, numbers: Sequence[int]) -> None:
        """Their words stay, under numbers that no attempt has: other attempts may share them."""
        for table in ("attempts", "tools", "scores", "live_marks"):
            self._db.executemany(f"DELETE FROM {table} WHERE n = ?", [(n,) for n in numbers])
        self._db.executemany("DELETE FROM lineage WHERE n = ?", [(n,) for n in numbers])

    # ---- words --------------------------------------------------------------------------------------------------

    def _inherit(self, reader: JournalReader, flag: int, attempt: ScannedAttempt) -> list[ScannedNode]:
        """The nodes that an attempt shares with earlier ones, from the opening on. Each owner of such nodes gets a
        document for each of them."""
        shared: list[ScannedNode] = []
        parent: tuple[int, int] | None = (attempt.parent or 0, attempt.place)
        while parent is not None:
            owner, place = parent
            parent = reader.scan_branch(owner)
            nodes = reader.scan_nodes(owner)
            opening = reader.scan_opening(owner) if parent is None else ()
            self._split(owner | flag, [words_of(opening), *_texts(nodes)])
            shared = nodes[: place + 1] + shared
            self._db.execute(
                "INSERT OR REPLACE INTO lineage VALUES (?, ?, ?)", (owner | flag, attempt.episode | flag, place)
            )
        return shared

    def _write_document(self, n: int, texts: Sequence[str]) -> None:
        """Write the words of an episode: those of the opening, and those of each node."""
        row = self._db.execute("SELECT is_split FROM documents WHERE n = ?", (n,)).fetchone()
        if row is not None and row[0]:
            self._split(n, texts)
            return
        if row is not None:
            self._delete_document(n, texts)
        text = "\n".join(texts)
        self._insert(n, 0, text)
        self._note(n, len(texts), text, is_split=False)

    def _split(self, n: int, texts: Sequence[str]) -> None:
        """Write a document for each node that has none yet."""
        row = self._db.execute("SELECT nodes, is_split FROM documents WHERE n = ?", (n,)).fetchone()
        begin = 0
        if row is not None and row[1]:
            begin = max(row[0] - 1, 0)
        elif row is not None:
            self._delete_document(n, texts)
        for place, text in enumerate(texts[1:]):
            if place >= begin:
                self._insert(n, place, f"{texts[0]}\n{text}" if place == 0 else text)
        self._note(n, len(texts), "", is_split=True)

    def _delete_document(self, n: int, texts: Sequence[str]) -> None:
        """Take the one document of an episode out again: words are found by the text that they were made of."""
        count, digest = self._db.execute("SELECT nodes, digest FROM documents WHERE n = ?", (n,)).fetchone()
        text = "\n".join(texts[:count])
        if _digest(text) != digest:
            raise Outdated
        self._db.execute("INSERT INTO docs(docs, rowid, text) VALUES ('delete', ?, ?)", (n << PLACE_BITS, text))

    def _insert(self, n: int, place: int, text: str) -> None:
        self._db.execute("INSERT INTO docs(rowid, text) VALUES (?, ?)", (n << PLACE_BITS | place, text))

    def _note(self, n: int, count: int, text: str, *, is_split: bool) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?)", (n, count, _digest(text), int(is_split))
        )


def _texts(nodes: Iterable[ScannedNode]) -> list[str]:
    return [words_of(node_messages([node])) for node in nodes]


def _digest(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))
