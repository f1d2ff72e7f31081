"""Write-ahead logs: damage is noticed before SQLite drops what lies behind it, and ordinary kills are no damage."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rollout.core.errors import JournalError
from rollout.store.journal import open_journal
from rollout.store.reading.reader import open_reader
from rollout.store.recovery.recover import recover
from rollout.store.recovery.wal import FRAME_HEADER, WAL_HEADER, lost_frames

FRAME = FRAME_HEADER + 4096
COMMITS = 12
SCRIPT = f"""
import asyncio, os, shutil
from pathlib import Path
from rollout.store.journal import open_journal
from rollout.core.messages import Message
from rollout.trajectories.tree import NodeBody

async def fill():
    journal = open_journal(Path('run'))
    journal.set_meta('identity:d', '{{}}')
    for number in range({COMMITS}):
        shutil.copy('run/journal.db-shm', 'before-shm')
        shutil.copy('run/journal.db-wal', 'before-wal')
        episode = journal.begin_episode(journal.begin_tree('d', f't{{number}}', ()), f't{{number}}', 0, 5)
        journal.put(episode, 0, [NodeBody('user', message=Message('user', 'x' * 9000))])
        await journal.flush()
    os._exit(9)

asyncio.run(fill())
"""
DATABASE, WAL, INDEX = (Path("run") / name for name in ("journal.db", "journal.db-wal", "journal.db-shm"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that was killed after some commits, and its log as it was before the last of them."""
    folder = tmp_path_factory.mktemp("made")
    subprocess.run([sys.executable, "-c", SCRIPT], check=False, timeout=600, cwd=folder)
    return folder


@pytest.fixture
def killed(made: Path) -> Path:
    """The same in the working directory; the size of its log before the last commit is that of `before-wal`."""
    shutil.copytree(made, Path(), dirs_exist_ok=True)
    return Path()


def zero(place: int, length: int = 4096) -> None:
    with WAL.open("r+b") as file:
        file.seek(place)
        file.write(bytes(length))


def begun() -> int:
    with open_reader(Path("run")) as reader:
        return len(reader.begun_tasks("d"))


def test_a_killed_run_on_a_read_only_disk_is_read_to_its_last_commit(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert begun() == COMMITS


def test_a_log_that_cannot_be_read_on_a_read_only_disk_is_not_left_out(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    INDEX.unlink()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(JournalError, match=r"journal\.db: .*journal\.db-wal.*read-only.*copy the run directory"):
        begun()
    assert not INDEX.exists()


def test_a_run_without_a_log_is_read_on_a_read_only_disk(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite3.connect(DATABASE).execute("PRAGMA journal_mode = DELETE").close()
    sqlite3.connect(DATABASE).execute("PRAGMA journal_mode = WAL").close()
    WAL.unlink(missing_ok=True)
    INDEX.unlink(missing_ok=True)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert begun() == COMMITS
    assert not INDEX.exists()


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.5, 0.9])
def test_damage_in_the_middle_of_a_log_is_noticed_and_nothing_is_lost_by_it(
    killed: Path, share: float, has_index: bool
) -> None:
    zero(int(WAL.stat().st_size * share))
    if not has_index:
        INDEX.unlink()
    before = WAL.read_bytes()
    for _ in range(2):
        with pytest.raises(JournalError, match=r"the journal is damaged \(journal\.db-wal is damaged.*rollout recover"):
            begun()
        with pytest.raises(JournalError, match=r"the journal is damaged \(journal\.db-wal is damaged.*rollout recover"):
            open_journal(Path("run"))
    assert WAL.read_bytes() == before
    assert recover(Path("run"), Path("new")).unfinished["d"] >= COMMITS - 2


def test_a_log_that_was_found_whole_is_read_again_only_after_it_has_changed(killed: Path) -> None:
    assert lost_frames(DATABASE) == 0
    times = WAL.stat()
    zero(WAL_HEADER + FRAME_HEADER)
    os.utime(WAL, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert lost_frames(DATABASE) == 0, "nothing says that it changed, so it is not read"
    os.utime(WAL, ns=(times.st_atime_ns, times.st_mtime_ns + 1_000_000_000))
    assert lost_frames(DATABASE) > 0


@pytest.mark.parametrize("length", [0, 10, WAL_HEADER, WAL_HEADER + 5 * FRAME, WAL_HEADER + 5 * FRAME + 100])
def test_log_that_was_cut_is_damage_where_its_index_has_more(killed: Path, length: int) -> None:
    with WAL.open("r+b") as file:
        file.truncate(length)
    with pytest.raises(JournalError, match=r"the journal is damaged \(journal\.db-wal is damaged"):
        begun()


def test_damage_of_the_last_committed_frame_is_noticed_by_the_index(killed: Path) -> None:
    zero(WAL.stat().st_size - 100, 50)
    with pytest.raises(JournalError, match="the journal is damaged"):
        begun()


def test_kill_at_any_instant_of_a_commit_is_no_damage(killed: Path) -> None:
    whole = WAL.read_bytes()
    committed = Path("before-wal").stat().st_size
    assert len(whole) > committed + 2 * FRAME
    # A frame's header and its page are written one after the other, and the index after all of them.
    shutil.copy("before-shm", INDEX)
    starts = range(committed, len(whole), FRAME)
    for size in (*starts, *(start + FRAME_HEADER for start in starts), committed + FRAME + 1000, len(whole)):
        WAL.write_bytes(whole[:size])
        assert lost_frames(DATABASE) == 0, size
    INDEX.unlink()
    for size in range(committed, len(whole), 1000):
        WAL.write_bytes(whole[:size])
        assert lost_frames(DATABASE) == 0, size
    assert begun() >= COMMITS - 1


def test_frames_that_a_killed_or_undone_transaction_left_are_no_damage(killed: Path) -> None:
    connection = sqlite3.connect(DATABASE, isolation_level=None)
    connection.execute("PRAGMA cache_size = 5")
    size = WAL.stat().st_size
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", ((f"k{n}", "x" * 3000) for n in range(200)))
    connection.execute("ROLLBACK")
    assert WAL.stat().st_size > size + 50 * FRAME, "the transaction was written and undone"
    connection.execute("INSERT INTO meta VALUES ('a', 'b')")
    shutil.copytree("run", "copy")
    assert lost_frames(DATABASE) == lost_frames(Path("copy/journal.db")) == 0
    Path("copy/journal.db-shm").unlink()
    assert lost_frames(Path("copy/journal.db")) == 0
    connection.close()


def test_frames_of_an_earlier_round_of_the_log_are_no_damage_and_damage_to_them_harms_nothing(killed: Path) -> None:
    connection = sqlite3.connect(DATABASE, isolation_level=None)
    connection.execute("PRAGMA wal_checkpoint(RESTART)")
    connection.execute("INSERT INTO meta VALUES ('a', 'b')")
    shutil.copytree("run", "copy")
    connection.close()
    shutil.rmtree("run")
    shutil.copytree("copy", "run")
    assert WAL.stat().st_size > 10 * FRAME
    assert lost_frames(DATABASE) == 0
    zero(WAL.stat().st_size // 2)
    assert begun() == COMMITS


def test_broken_log_whose_pages_the_database_has_all_is_no_damage_from_its_first_frame_on(killed: Path) -> None:
    connection = sqlite3.connect(DATABASE, isolation_level=None)
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    shutil.copytree("run", "copy")
    connection.close()
    shutil.rmtree("run")
    shutil.copytree("copy", "run")
    zero(WAL_HEADER)
    assert begun() == COMMITS
    shutil.rmtree("run")
    shutil.copytree("copy", "run")
    # The older pages before the break would hide the newer ones that the database has.
    zero(WAL.stat().st_size // 2)
    with pytest.raises(JournalError, match="the journal is damaged"):
        begun()


def test_log_of_a_live_run_is_read_while_it_begins_new_rounds(tmp_path: Path) -> None:
    script = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect('live.db', isolation_level=None)\n"
        "db.execute('PRAGMA journal_mode = WAL')\n"
        "db.execute('PRAGMA wal_autocheckpoint = 20')\n"
        "db.execute('CREATE TABLE t(x)')\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    db.execute('INSERT INTO t VALUES (randomblob(9000))')\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=tmp_path)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        assert not any(lost_frames(tmp_path / "live.db") for _ in range(300))
    finally:
        writer.kill()
        writer.communicate()
    assert lost_frames(tmp_path / "live.db") == 0
