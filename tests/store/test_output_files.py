"""Output files that others touch, and disks that are full: noticed, said, and mended from the journal."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollout.core.errors import JournalError
from rollout.engine.observer import Progress
from rollout.store import journal as journal_module
from rollout.store.connection import connect
from rollout.store.files.output_files import Output, open_output
from rollout.store.journal import open_journal
from rollout.store.recovery.recover import recover
from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

OUT = Path("out.jsonl")
COUNT = 12


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return write_tasks(tmp_path / "tasks.jsonl", *(f"Question {number}" for number in range(COUNT)))


def once_when(fits: Callable[[Progress], bool], act: Callable[[], Any]) -> Callable[[Progress], bool]:
    """For `pause_when`: acts once as soon as the numbers fit, and never pauses."""
    done: list[bool] = []

    def look(progress: Progress) -> bool:
        if not done and fits(progress):
            done.append(True)
            act()
        return False

    return look


def edit_in_place() -> None:
    """Change one letter, as an editor that writes in place does."""
    data = OUT.read_bytes()
    with OUT.open("r+b") as file:
        file.write(data.replace(b"Question", b"question", 1))
    stat = OUT.stat()
    os.utime(OUT, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))


MEDDLING: dict[str, Callable[[], Any]] = {
    "was deleted or moved": OUT.unlink,
    "deleted or moved": lambda: OUT.rename("elsewhere.jsonl"),
    "was replaced by another file": lambda: (OUT.rename("elsewhere.jsonl"), OUT.write_bytes(b'{"mine": 1}\n')),
    "changed by another program": lambda: os.truncate(OUT, 10),
    "was changed by another program": edit_in_place,
}


@pytest.mark.parametrize("said", MEDDLING)
async def test_output_that_somebody_touches_under_a_run_is_noticed_and_mended_by_the_next_resume(
    stub: StubServer, tasks: Path, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = {**stub_config(stub.url, tasks), "max_workers": 1}
    is_half = once_when(lambda progress: progress.done >= COUNT // 2, MEDDLING[said])
    opened = await roll_out(config, pause_when=is_half)
    assert opened.summary is not None
    assert opened.summary.total.finished == COUNT, "the run goes on to its end"
    warnings = [record.getMessage() for record in caplog.records if said in record.getMessage()]
    assert len(warnings) == 1
    assert "out.jsonl" in warnings[0]
    assert "--resume" in warnings[0]
    paid = stub.stats.requests
    await roll_out(config)
    assert sorted(line["id"] for line in read_lines(OUT)) == sorted(f"task{number}" for number in range(COUNT))
    assert b"question" not in OUT.read_bytes()
    assert stub.stats.requests == paid


async def test_output_that_nobody_touches_is_not_complained_about(
    stub: StubServer, tasks: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await roll_out(stub_config(stub.url, tasks))
    # A network file system may correct a file's time afterwards.
    touch = once_when(lambda progress: progress.done >= 2, lambda: os.utime(OUT))
    await roll_out({**stub_config(stub.url, tasks, samples=2), "max_workers": 1}, pause_when=touch)
    assert not caplog.records
    assert len(read_lines(OUT)) == 2 * COUNT


async def test_second_run_does_not_move_an_output_that_a_first_one_is_writing(stub: StubServer, tasks: Path) -> None:
    config = {**stub_config(stub.url, tasks), "max_workers": 1}
    refused: list[str] = []
    second = {**stub_config(stub.url, tasks), "max_workers": 1}

    async def start_second() -> None:
        with pytest.raises(JournalError, match=r"out\.jsonl is being written by another run") as caught:
            await roll_out(second, Path("second"), resume=False)
        refused.append(str(caught.value))

    started: list[asyncio.Task[None]] = []
    begin = once_when(
        lambda progress: progress.done >= 2, lambda: started.append(asyncio.ensure_future(start_second()))
    )
    await roll_out(config, pause_when=begin)
    await started[0]
    assert refused
    assert [path.name for path in Path().glob("out.jsonl*")] == ["out.jsonl"]
    assert len(read_lines(OUT)) == COUNT


async def test_nothing_is_moved_aside_where_one_of_the_outputs_is_in_use(stub: StubServer, tasks: Path) -> None:
    await roll_out(stub_config(stub.url, tasks))
    held = open_output(OUT)
    with pytest.raises(JournalError, match="another run"):
        await roll_out(stub_config(stub.url, tasks), resume=False)
    held.close()
    assert not list(Path().glob("run.*")), "the run directory stays, too"
    assert not list(Path().glob("out.jsonl.*"))


async def test_output_that_was_moved_while_its_lock_was_awaited_is_opened_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rollout.store.files import output_files as output_module

    take_lock = output_module.take_lock
    moves = [lambda: OUT.rename("aside.jsonl")]

    def take_late(file: int, complaint: str) -> None:
        take_lock(file, complaint)
        if moves:
            moves.pop()()

    monkeypatch.setattr(output_module, "take_lock", take_late)
    output = open_output(OUT)
    output.append(b"line\n")
    output.close()
    assert OUT.read_bytes() == b"line\n"
    assert Path("aside.jsonl").read_bytes() == b""


async def test_full_disk_of_the_output_is_named_as_such_and_loses_nothing(
    stub: StubServer, tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    room = [3000]

    def write_little(file: int, data: Any) -> int:
        if os.path.realpath(f"/proc/self/fd/{file}") != str(OUT.resolve()):
            return write(file, data)
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(file, bytes(data)[: room[0]])
        room[0] -= written
        return written

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write_little)
        with pytest.raises(JournalError, match=r"output_path: out\.jsonl cannot be written: No space left") as caught:
            await roll_out({**stub_config(stub.url, tasks), "max_workers": 2})
    assert "journal.db" not in str(caught.value)
    assert "--resume" in str(caught.value)
    await roll_out(stub_config(stub.url, tasks))
    assert sorted(line["id"] for line in read_lines(OUT)) == sorted(f"task{number}" for number in range(COUNT))


async def test_disk_that_is_full_while_the_settings_are_written_down_leaves_a_run_that_can_be_resumed(
    stub: StubServer, tasks: Path
) -> None:
    await open_journal(Path("run")).close()
    connection = sqlite3.connect("run/journal.db", isolation_level=None)
    connection.execute(
        "CREATE TRIGGER full BEFORE INSERT ON meta WHEN NEW.key LIKE 'output:%' "
        "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    with pytest.raises(JournalError, match="disk is full"):
        await roll_out(stub_config(stub.url, tasks))
    connection.execute("DROP TRIGGER full")
    connection.close()
    await roll_out(stub_config(stub.url, tasks))
    assert len(read_lines(OUT)) == COUNT


async def test_full_disk_of_the_run_directory_is_named_by_its_file(
    stub: StubServer, tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, data: bytes, *, is_private: bool = False) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("rollout.store.files.run_file.write_atomic", refuse)
    with pytest.raises(JournalError, match=r"run\.json: cannot be written: No space left"):
        await roll_out(stub_config(stub.url, tasks))


async def test_blob_that_does_not_fit_on_the_disk_stops_the_run_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_journal(Path("run"))

    def refuse(run_dir: Path, name: str, data: bytes, *, is_synced: bool) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(run_dir / "blobs" / name))

    monkeypatch.setattr(journal_module, "write_named", refuse)
    with pytest.raises(JournalError, match=r"blobs/[0-9a-f]{16}\.json: cannot be written: No space left"):
        journal.keep_blob(b"text")
    await journal.close()


def test_output_says_a_change_once(caplog: pytest.LogCaptureFixture) -> None:
    output: Output = open_output(OUT)
    OUT.unlink()
    for _ in range(3):
        output.append(b"line\n")
    output.close()
    assert len(caplog.records) == 1


async def test_resume_from_another_folder_names_both_outputs_by_their_whole_paths(
    stub: StubServer, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, run_dir = OUT.resolve(), Path("run").resolve()
    await roll_out(stub_config(stub.url, tasks), run_dir)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match="now has") as caught:
        await roll_out(stub_config(stub.url, tasks), run_dir)
    assert f"wrote to {before} before and now has {OUT.resolve()}." in str(caught.value)


# ---- the journal -----------------------------------------------------------------------------------------------------


async def test_journal_that_is_deleted_under_a_run_is_missed_at_once_and_recovered_whole_from_its_wal(
    stub: StubServer, tasks: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal_module, "connect", _connect_and_copy_often)
    config = {**stub_config(stub.url, tasks), "max_workers": 1}
    said_at: list[int] = []

    def look(progress: Progress) -> bool:
        if progress.done == COUNT // 2 and Path("run/journal.db").exists():
            Path("run/journal.db").unlink()
        if any("journal.db was deleted" in record.getMessage() for record in caplog.records):
            said_at.append(progress.done)
        return False

    with pytest.raises(JournalError, match=r"journal\.db: was deleted.*out\.jsonl.*rollout recover run -o run-rec"):
        await roll_out(config, pause_when=look)
    assert said_at[0] < COUNT - 1, "it is said when it happens"
    assert sum("journal.db was deleted" in record.getMessage() for record in caplog.records) == 1
    assert len(read_lines(OUT)) == COUNT
    assert Path("run/metrics.json").is_file()
    with pytest.raises(JournalError, match=r"the journal is gone.*rollout recover run"):
        await roll_out(config)
    found = await asyncio.to_thread(recover, Path("run"), Path("new"))
    assert (found.finished["data"], found.lost) == (COUNT, [])
    assert sorted(read_lines(found.outputs["data"]), key=str) == sorted(read_lines(OUT), key=str)


def _connect_and_copy_often(*args: Any) -> sqlite3.Connection:
    """Copy the WAL into the database after every few pages, so that it holds only a part of a run."""
    connection = connect(*args)
    connection.execute("PRAGMA wal_autocheckpoint = 10")
    return connection


@pytest.mark.parametrize("act", ["move", "remove", "replace"])
async def test_run_directory_that_is_taken_away_under_a_run_is_an_error_at_its_end(
    stub: StubServer, tasks: Path, act: str, caplog: pytest.LogCaptureFixture
) -> None:
    def take_away() -> None:
        if act == "move":
            Path("run").rename("moved")
        elif act == "remove":
            shutil.rmtree("run")
        else:
            Path("run/journal.db").rename("run/old.db")
            Path("run/journal.db").write_bytes(b"other")

    config = {**stub_config(stub.url, tasks), "max_workers": 1}
    with pytest.raises(JournalError, match=r"journal\.db: was deleted, moved or replaced .*out\.jsonl"):
        await roll_out(config, pause_when=once_when(lambda progress: progress.done >= COUNT // 2, take_away))
    assert len(caplog.records) == 1
    assert len(read_lines(OUT)) == COUNT
    assert Path("run").exists() == (act == "replace"), "nothing is made in its place"
    if act == "move":
        Path("moved").rename("run")
        paid = stub.stats.requests
        await roll_out(config)
        assert stub.stats.requests == paid
        assert len(read_lines(OUT)) == COUNT
