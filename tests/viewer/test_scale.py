"""The cost of looking at a run follows what changed and what is shown, not how large the run is."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollout.store.files.filter_file import read_filter_names
from rollout.store.marks import MarksFile
from rollout.store.reading.scanning import ScanReader
from rollout.store.run_dir import lock_run
from rollout.viewer.index import run_index as index_module
from rollout.viewer.index.queries import TableQuery
from rollout.viewer.index.table import read_table
from rollout.viewer.index.writer import IndexWriter
from rollout.viewer.kept import Kept
from rollout.viewer.open_runs import OpenRun
from rollout.viewer.pages import run_page
from rollout.viewer.pages.run_page import read_run_page, read_series
from tests.viewer.writing import WrittenRun, answer

Opener = Callable[..., OpenRun]
RUN = Path("run")
GONE: dict[str, Any] = {"status": "failed", "error": {"kind": "model", "text": "gone"}}


def ids(run: OpenRun, **query: Any) -> set[str]:
    return {row.id for row in read_table(run, TableQuery(**query, limit=1000)).rows}


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many episodes were read from the journal, each time."""
    counts: list[int] = []
    for name in ("ended_episodes", "ended_among", "begun_episodes"):
        read = getattr(ScanReader, name)

        def counted(reader: ScanReader, *given: Any, read: Callable[..., Any] = read) -> Any:
            found = read(reader, *given)
            counts.append(len(found[0] if isinstance(found, tuple) else found))
            return found

        monkeypatch.setattr(ScanReader, name, counted)
    return counts


@contextlib.contextmanager
def going_on() -> Iterator[None]:
    """Holds the run as a command does that writes it."""
    lock = lock_run(RUN)
    try:
        yield
    finally:
        os.close(lock)


def test_following_a_live_run_reads_what_is_new_and_nothing_else(open_run: Opener, looked_at: list[int]) -> None:
    written, run = WrittenRun(), open_run()
    for number in range(200):
        written.add(f"t{number}", [answer("x")])
    with going_on():
        assert len(ids(run)) == 200
        looked_at.clear()
        for number in range(200, 205):
            written.add(f"t{number}", [answer("x")])
            assert len(ids(run)) == number + 1
    assert sum(looked_at) == 2 * 5, "each of them has begun, and has ended"


def test_a_live_run_is_followed_also_where_attempts_end_late_fail_and_are_replaced(open_run: Opener) -> None:
    written, run = WrittenRun(), open_run()
    before = written.add("resumed", [answer("one")], **GONE)
    late = written.add("late", [answer("late")], is_ended=False)
    with going_on():
        assert ids(run) == {"resumed"}
        written.add("early", [answer("early")])
        written.add("again", [answer("broken")], **GONE)
        assert ids(run) == {"resumed", "early", "again"}
        written.add("late", [answer("words")], episode=late, first_place=1)
        written.add("resumed", [answer("two")], episode=before, first_place=1, finished=9000.0)
        written.add("again", [answer("repaired")])
        assert ids(run, status=("completed",)) == {"resumed", "early", "again", "late"}
        assert ids(run, q="two") == {"resumed"}
        assert ids(run, q="broken") == set()
        assert ids(run, q="repaired") == {"again"}
    assert ids(run) == {"resumed", "early", "again", "late"}


def test_attempts_that_a_request_left_for_later_are_taken_in_then(
    open_run: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "MOST_AT_ONCE", 2)
    written, run = WrittenRun(), open_run()
    with going_on():
        for number in range(3):
            for each in range(5):
                written.add(f"t{number}-{each}", [answer("x")])
            ids(run)
        run.index.sync()
        assert len(ids(run)) == 15


def test_a_mark_changes_one_row_of_the_index_and_reads_no_filters(
    open_run: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, run = WrittenRun(), open_run()
    marks = MarksFile(RUN)
    for number in range(50):
        written.add(f"t{number}", [answer("x")])
        marks.add("data", f"t{number}", "label", text="seen", author="ada")
    assert len(ids(run, label=("seen",))) == 50
    changed, filters = [], []
    write = IndexWriter.write_marks

    def counted(writer: IndexWriter, changes: Any) -> None:
        changed.append(len(changes.marks) + len(changes.removed))
        write(writer, changes)

    def read(path: Path) -> Any:
        filters.append(path)
        return read_filter_names(path)

    monkeypatch.setattr(IndexWriter, "write_marks", counted)
    monkeypatch.setattr(index_module, "read_filter_names", read)
    bad = marks.add("data", "t7", "bad", author="bob")
    assert ids(run, mark=("bad",)) == {"t7"}
    marks.remove(bad.number)
    assert ids(run, mark=("bad",)) == set()
    assert (changed, filters) == ([1, 1], [])


def test_marks_are_taken_in_again_by_the_next_server(open_run: Opener) -> None:
    WrittenRun().add("a", [answer("x")])
    marks = MarksFile(RUN)
    first = marks.add("data", "a", "good", author="ada")
    run = open_run()
    assert ids(run, mark=("good",)) == {"a"}
    run.close()
    marks.remove(first.number)
    marks.add("data", "a", "note", text="hm", author="ada")
    assert ids(open_run(), mark=("good",)) == set()


def test_a_mark_makes_no_figures_again(open_run: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    WrittenRun().add("a", [answer("x")])
    run, made = open_run(), []
    for name in ("_read_figures", "_read_series"):
        read = getattr(run_page, name)
        monkeypatch.setattr(run_page, name, lambda *given, read=read: made.append(read) or read(*given))
    for name in ("greedy", "rude"):
        read_run_page(run)
        read_series(run, None)
        MarksFile(RUN).add("data", "a", "label", text=name, author="ada")
    assert len(read_run_page(run).facets.labels) == 2
    assert len(made) == 2


class Announced:
    """A lock that tells when it is asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.asked = threading.Semaphore(0)

    def acquire(self, **options: Any) -> bool:
        self.asked.release()
        return self._lock.acquire(**options)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_what_a_page_asks_for_at_once_is_all_answered_from_the_first_index(
    open_run: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    WrittenRun().add("a", [answer("x")])
    run = open_run()
    lock = Announced()
    monkeypatch.setattr(run.index, "_writing", lock)
    follow = IndexWriter.follow

    def slowly(writer: IndexWriter, reader: Any, **options: Any) -> int:
        assert lock.asked.acquire(timeout=60)
        assert lock.asked.acquire(timeout=60), "the second query has come, too"
        return follow(writer, reader, **options)

    monkeypatch.setattr(IndexWriter, "follow", slowly)
    found: list[set[str]] = []
    threads = [threading.Thread(target=lambda: found.append(ids(run))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [{"a"}, {"a"}]


class Clocks:
    """Time that passes when it is told."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def make(self, takes: float) -> Kept:
        self.takes = takes
        return Kept(lambda: self.wall, lambda: self.cpu)

    def answer(self) -> float:
        self.cpu += self.takes
        return self.wall


def test_dear_figures_of_a_live_run_are_made_at_most_a_tenth_of_the_time() -> None:
    clocks = Clocks()
    kept = clocks.make(takes=1.0)
    made = set()
    for second in range(100):
        clocks.wall = float(second)
        made.add(kept.get("figures", second, clocks.answer, is_moving=True))
    assert sorted(made) == [float(second) for second in range(0, 100, 10)]
    assert kept.get("figures", 100, clocks.answer) == 99.0, "what has come to rest is shown as it is"


def test_cheap_figures_are_made_after_every_change() -> None:
    clocks = Clocks()
    kept = clocks.make(takes=0.01)
    for second in range(5):
        clocks.wall = float(second)
        assert kept.get("figures", second, clocks.answer, is_moving=True) == float(second)


def test_what_several_ask_for_at_once_is_made_once() -> None:
    kept, made, begun, going = Kept(), [], threading.Event(), threading.Event()

    def make() -> int:
        begun.set()
        going.wait(60)
        made.append(1)
        return 7

    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(kept.get("page", 1, make))) for _ in range(4)]
    for thread in threads:
        thread.start()
    begun.wait(60)
    going.set()
    for thread in threads:
        thread.join(60)
    assert (found, made) == ([7] * 4, [1])


def test_queries_at_the_same_time_share_a_few_connections(open_run: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    WrittenRun().add("a", [answer("x")])
    run = open_run()
    assert ids(run) == {"a"}
    opened: list[str] = []
    connect = sqlite3.connect

    def counted(name: Any, *given: Any, **options: Any) -> sqlite3.Connection:
        if "view.db" in str(name):
            opened.append(str(name))
        return connect(name, *given, **options)

    monkeypatch.setattr(index_module.sqlite3, "connect", counted)
    held, inside = threading.Event(), threading.Semaphore(0)

    def look() -> None:
        with run.index.reading():
            inside.release()
            held.wait(60)

    threads = [threading.Thread(target=look) for _ in range(12)]
    for thread in threads:
        thread.start()
    for _ in range(index_module.MOST_READERS):
        assert inside.acquire(timeout=60)
    held.set()
    for thread in threads:
        thread.join(60)
    assert len(opened) < index_module.MOST_READERS
