"""Marks by people: several at once, beside a run that goes on, and never at its expense."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rollout.core.errors import ConfigError, JournalError
from rollout.store import marks as marks_module
from rollout.store.marks import MARKS_VERSION, MarksFile
from rollout.store.reading.reader import open_reader
from rollout.store.recovery.recover import recover
from rollout.store.run_dir import JOURNAL, MARKS, PEOPLE
from rollout.trajectories.person_marks import PersonMark
from tests.conftest import read_lines, roll_out
from tests.store.damages import config_in, copy_run, make_run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make_run(folder, names=("a", "b"))
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """The directory of a run of two tasks."""
    copy_run(made, tmp_path / "copy")
    return tmp_path / "copy" / "run"


def add(run: Path, kind: str, author: str = "ann", trajectory: str = "task0", **more: Any) -> PersonMark:
    return MarksFile(run).add("data", trajectory, kind, author=author, **more)


def kinds(run: Path) -> list[tuple[str, str, str | None, float | None]]:
    return [(mark.author, mark.kind, mark.text, mark.value) for mark in MarksFile(run).all()]


# ---- what marks mean -------------------------------------------------------------------------------------------------


def test_good_takes_the_place_of_the_same_authors_bad_and_the_other_way_round(run: Path) -> None:
    add(run, "bad")
    add(run, "good", "bob")
    add(run, "good")
    assert kinds(run) == [("bob", "good", None, None), ("ann", "good", None, None)]
    add(run, "bad", message=1)
    assert len(kinds(run)) == 3, "another place"
    add(run, "bad")
    assert [mark.kind for mark in MarksFile(run).all() if mark.author == "ann" and mark.message is None] == ["bad"]


def test_a_verdict_replaces_the_authors_earlier_one(run: Path) -> None:
    add(run, "verdict", value=0)
    add(run, "verdict", "bob", value=1)
    add(run, "verdict", value=0.5, text="half of it")
    assert kinds(run) == [("bob", "verdict", None, 1.0), ("ann", "verdict", "half of it", 0.5)]


def test_a_label_is_there_once_for_each_author_and_place_and_notes_are_collected(run: Path) -> None:
    first = add(run, "label", text=" wrong tool ")
    assert add(run, "label", text="wrong tool") == first
    add(run, "label", "bob", text="wrong tool")
    add(run, "label", text="slow")
    add(run, "note", text="look again")
    add(run, "note", text="look again")
    assert [text for _, _, text, _ in kinds(run)] == ["wrong tool", "wrong tool", "slow", "look again", "look again"]


@pytest.mark.parametrize(
    ("kind", "more", "told"),
    [
        ("fine", {}, "there is no kind 'fine'; expected one of good, bad, note, label, verdict"),
        ("verdict", {}, "a number from 0 (not solved) to 1 (solved), not None"),
        ("verdict", {"value": 1.5}, "not 1.5"),
        ("verdict", {"value": float("nan")}, "not nan"),
        ("good", {"value": 1}, "only a verdict has a value"),
        ("note", {"text": "  "}, "a note needs a text"),
        ("note", {"text": "\ud800"}, "not valid Unicode"),
        ("label", {"text": "two\nlines"}, "a label has 1 to 100 characters on one line"),
        ("label", {}, "a label has 1 to 100 characters"),
        ("good", {"author": ""}, "an author has 1 to 100 characters"),
        ("good", {"message": -1}, "named by its place in the trajectory"),
    ],
)
def test_a_mark_that_means_nothing_is_refused(run: Path, kind: str, more: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        add(run, kind, **more)
    assert not (run / MARKS).exists()


def test_marks_are_listed_by_trajectory_and_by_kind_and_removed_by_number(run: Path) -> None:
    good, note = add(run, "good"), add(run, "note", trajectory="task1", message=2, text="here")
    assert MarksFile(run).of("data", "task1") == [note]
    assert MarksFile(run).all(["good"]) == [good]
    assert MarksFile(run).by_trajectory() == {("data", "task0"): (good,), ("data", "task1"): (note,)}
    assert MarksFile(run).remove(good.number) == good
    assert MarksFile(run).all() == [note]
    for number in (good.number, 0, 2**70):
        with pytest.raises(ConfigError, match=f"there is no mark {number}"):
            MarksFile(run).remove(number)
    assert add(run, "good").number > note.number + 1, "a number is never given twice"


def test_changes_since_a_version_lead_to_the_marks_that_are_there(run: Path) -> None:
    file = MarksFile(run)
    assert (file.version, file.last_changed, file.changes(0).marks) == (0, None, ())
    bad = add(run, "bad")
    before = file.version
    known = {mark.number: mark for mark in file.changes(0).marks}
    note = add(run, "note", text="x")
    good = add(run, "good")
    gone = add(run, "note", text="y")
    file.remove(gone.number)
    changes = file.changes(before)
    for one in changes.removed:
        known.pop(one.number)
    known |= {mark.number: mark for mark in changes.marks}
    assert list(known.values()) == file.all() == [note, good]
    assert [one.number for one in changes.removed] == [bad.number]
    assert (changes.version, changes.is_whole) == (file.version, False)
    assert file.changes(changes.version).marks == ()
    assert file.changes(changes.version + 1).is_whole, "a version of another file"
    assert file.last_changed is not None
    assert file.last_changed >= gone.at


def test_marks_on_what_people_made_are_in_the_file_of_the_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(run, run / PEOPLE)
    mark = MarksFile(run / PEOPLE).add("data", "task0~+1", "good", author="ann")
    assert MarksFile(run).all() == [mark]
    assert not (run / PEOPLE / MARKS).exists()
    monkeypatch.chdir(run / PEOPLE)
    assert MarksFile(Path()).all() == [mark]


# ---- several at once -------------------------------------------------------------------------------------------------

MARKING = """
import sys
from pathlib import Path
from rollout.store.marks import MarksFile
file = MarksFile(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    file.add("data", "task0", "note", author=sys.argv[2], text=str(number))
    file.add("data", "task0", ("good", "bad")[number % 2], author=sys.argv[2])
"""


def test_two_processes_mark_at_once_and_no_mark_is_lost(run: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MARKING, str(run), author, "40"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for author in ("ann", "bob")
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait(120) for process in processes] == [0, 0]
    for process in processes:
        process.communicate()
    found = MarksFile(run).all()
    for author in ("ann", "bob"):
        own = [mark for mark in found if mark.author == author]
        assert [mark.text for mark in own if mark.kind == "note"] == [str(number) for number in range(40)]
        assert [mark.kind for mark in own if mark.kind != "note"] == ["bad"]
    assert len({mark.number for mark in found}) == len(found)
    assert not list(run.glob(".marks*")), "no temporary file stays"


def test_a_run_goes_on_while_someone_marks_and_marking_while_it_writes(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    folder.mkdir()
    shutil.copy(made / "tasks.jsonl", folder)
    run, marked = folder / "run", []

    class Marking:
        """Marks each attempt that ends, while the journal is being written and the marks are locked by another."""

        def episode_began(self, *_: Any) -> None:
            pass

        def node_added(self, *_: Any) -> None:
            pass

        def episode_ended(self, dataset: str, trajectory: str, head: Any) -> None:
            with closing(sqlite3.connect(run / JOURNAL, isolation_level=None)) as journal:
                journal.execute("BEGIN IMMEDIATE")
                marked.append(MarksFile(run).add(dataset, trajectory, "good", author="ann"))
                journal.execute("ROLLBACK")

    asyncio.run(roll_out(config_in(folder), run, observers=[Marking()]))
    assert MarksFile(run).all() == marked
    assert {mark.id for mark in marked} == {line["id"] for line in read_lines(folder / "out.jsonl")}
    wanted = {line["id"]: line["messages"] for line in read_lines(made / "out.jsonl")}
    assert {line["id"]: line["messages"] for line in read_lines(folder / "out.jsonl")} == wanted
    with closing(sqlite3.connect(run / MARKS, isolation_level=None)) as held:
        held.execute("BEGIN EXCLUSIVE")
        asyncio.run(roll_out({**config_in(folder, samples=2)}, run))
    assert len(read_lines(folder / "out.jsonl")) == 4


def test_marking_leaves_the_journal_as_it_is(run: Path) -> None:
    before = (run / JOURNAL).read_bytes(), (run / JOURNAL).stat().st_mtime_ns
    add(run, "good")
    MarksFile(run).remove(1)
    assert ((run / JOURNAL).read_bytes(), (run / JOURNAL).stat().st_mtime_ns) == before


# ---- the file --------------------------------------------------------------------------------------------------------


def test_only_its_owner_can_read_the_file(run: Path) -> None:
    mask = os.umask(0)
    try:
        add(run, "good")
        with closing(sqlite3.connect(run / MARKS)) as held:
            held.execute("SELECT * FROM marks").fetchall()
            add(run, "note", text="x")
            assert {path.stat().st_mode & 0o777 for path in run.glob(f"{MARKS}*")} == {0o600}
    finally:
        os.umask(mask)


def test_reading_creates_nothing(run: Path) -> None:
    before = sorted(run.iterdir())
    assert (MarksFile(run).all(), MarksFile(run).of("data", "task0"), MarksFile(run).by_trajectory()) == ([], [], {})
    assert sorted(run.iterdir()) == before


def test_a_directory_that_cannot_be_written_is_refused_and_its_marks_stay_readable(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = add(run, "good")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(
        JournalError, match=r"marks\.db: marks cannot be stored here: .*make the folder writable, or copy"
    ):
        add(run, "bad")
    assert MarksFile(run).all() == [mark]


def test_marks_are_read_on_a_read_only_disk_while_somebody_marks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(run, "bad")
    with closing(sqlite3.connect(run / MARKS)) as other:
        # A process that has the file open keeps what is marked meanwhile in its log.
        other.execute("SELECT count(*) FROM marks").fetchone()
        add(run, "good")
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        assert kinds(run) == [("ann", "good", None, None)]


def test_what_is_no_run_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="is not a run directory"):
        add(tmp_path, "good")
    assert list(tmp_path.iterdir()) == []


def test_marks_of_a_newer_version_are_refused(run: Path) -> None:
    add(run, "good")
    with closing(sqlite3.connect(run / MARKS)) as database:
        database.execute(f"PRAGMA user_version = {MARKS_VERSION + 1}")
    with pytest.raises(JournalError, match="newer version of rollout"):
        MarksFile(run).all()


def test_100000_marks_are_listed_by_one_query(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(run, "good")
    with closing(sqlite3.connect(run / MARKS)) as database, database:
        rows = ((number, "data", f"t{number % 50_000}", "note", "x", "ann", 1.0) for number in range(2, 100_001))
        database.executemany(
            "INSERT INTO marks(number, dataset, trajectory, kind, text, author, at) VALUES (?, ?, ?, ?, ?, ?, ?)", rows
        )
    asked: list[str] = []
    connect = sqlite3.connect

    def traced(*args: Any, **more: Any) -> sqlite3.Connection:
        connection = connect(*args, **more)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(marks_module.sqlite3, "connect", traced)
    assert len(MarksFile(run).by_trajectory()) == 50_000 - 2 + 3
    assert [text.split()[0] for text in asked] == ["PRAGMA", "BEGIN", "SELECT"]
    asked.clear()
    assert len(MarksFile(run).of("data", "t77")) == 2
    query = next(text for text in asked if text.startswith("SELECT"))
    with closing(connect(run / MARKS)) as database:
        assert "USING INDEX marks_by_trajectory" in str(database.execute(f"EXPLAIN QUERY PLAN {query}").fetchall())


# ---- damage ----------------------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "noise": lambda path: path.write_bytes(os.urandom(20_000)),
    "cut": cut,
    "a kind that does not exist": lambda path: path.write_bytes(path.read_bytes().replace(b"verdict", b"verdikt")),
    "no text": lambda path: path.write_bytes(path.read_bytes().replace(b"look here", b"\xff" * 9)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_marks_are_a_clear_error_and_never_hurt_the_run(run: Path, damage: str) -> None:
    add(run, "verdict", value=1)
    add(run, "note", text="look here")
    DAMAGES[damage](run / MARKS)
    with pytest.raises(
        JournalError, match=r"marks\.db: the marks are damaged .*; the run itself is not\. Move marks\.db"
    ):
        MarksFile(run).all()
    with open_reader(run) as reader:
        assert len(list(reader.trajectories("data"))) == 2
    found = recover(run, run.with_name("new"))
    assert found.finished["data"] == 2
    assert found.marks.is_damaged
    with open_reader(run.with_name("new")) as reader:
        assert len(list(reader.trajectories("data"))) == 2
    assert len(MarksFile(run.with_name("new")).all()) == found.marks.count


def test_what_is_readable_of_damaged_marks_is_recovered_without_what_was_removed(run: Path) -> None:
    kept = [add(run, "note", text=f"{number} " + "x" * 300) for number in range(60)]
    MarksFile(run).remove(kept.pop(7).number)
    with closing(sqlite3.connect(run / MARKS)) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'marks'").fetchone()
    data = bytearray((run / MARKS).read_bytes())
    data[(page - 1) * 4096 : (page - 1) * 4096 + 12] = b"\xff" * 12
    (run / MARKS).write_bytes(data)
    with pytest.raises(JournalError, match="damaged"):
        MarksFile(run).all()
    found = recover(run, run.with_name("new"))
    assert (found.marks.count, found.marks.is_damaged) == (len(kept), True)
    assert MarksFile(run.with_name("new")).all() == kept


def test_recover_copies_marks_with_their_numbers(run: Path) -> None:
    add(run, "bad")
    kept = [add(run, "good"), add(run, "label", "bob", message=1, text="slow")]
    found = recover(run, run.with_name("new"))
    assert (found.marks.count, found.marks.is_damaged) == (2, False)
    new = run.with_name("new")
    assert MarksFile(new).all() == MarksFile(run).all() == kept
    assert (new / MARKS).stat().st_mode & 0o777 == 0o600
    assert add(new, "note", text="more").number > kept[-1].number


def test_a_run_that_is_moved_aside_takes_its_marks_with_it(run: Path) -> None:
    file = MarksFile(run)
    mark = add(run, "good")
    run.rename(run.with_name("old"))
    shutil.copytree(run.with_name("old"), run, ignore=shutil.ignore_patterns(f"{MARKS}*"))
    assert file.all() == []
    file.add("data", "task1", "bad", author="ann")
    assert MarksFile(run.with_name("old")).all() == [mark]
