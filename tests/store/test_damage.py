"""Damaged journals: every command says so, and says what to do. None of them ends in a traceback."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rollout.cli import main
from rollout.core.errors import JournalError
from rollout.core.messages import Message
from rollout.store.files.output_files import open_output
from rollout.store.journal import open_journal
from rollout.store.reading.reader import open_reader
from rollout.store.recovery.recover import recover
from rollout.trajectories.generation import Generation, Tokens
from rollout.trajectories.tree import NodeBody
from tests.conftest import read_lines
from tests.store.damages import DAMAGES, copy_run, execute, make_run

COMMANDS = ("run", "score", "filter", "export", "label", "train-data")
READS_NODES = {"score", "filter", "train-data"}
READS_HEADS = READS_NODES - {"train-data"}
READERS = {
    "no meta table": {"run", "export", "label", "train-data"},
    "meta that is no JSON": {"run"},
    "meta that is no text": {"run"},
    "heads": READS_HEADS,
    "openings": READS_HEADS,
    "episodes that are missing": READS_HEADS,
    "trees that are missing": READS_HEADS,
}
"""The commands that come across a damage, where these are not `READS_NODES`. `train-data` takes heads and openings
from the output file, and only the generations from the journal."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make_run(folder, unfinished=True)
    return folder


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger("rollout")
    before = (root.level, root.handlers[:], root.propagate)
    yield
    root.level, root.handlers[:], root.propagate = before


def call(folder: Path, command: str) -> int:
    """A command over the run in a folder, in this process; its exit code."""
    run = str(folder / "run")
    words = {
        "run": ["run", str(folder / "config.yml"), "--resume"],
        "export": ["export", run, "-f", "trl", "-o", "trl.jsonl"],
        "label": ["label", run, "-o", "labelled.jsonl"],
        "train-data": ["train-data", run, "-f", "jsonl", "-o", "rows"],
    }.get(command, [command, run])
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_journal_is_called_damaged_by_every_command_that_reads_the_damage(
    made: Path, tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    noticed = set()
    for command in COMMANDS:
        folder = tmp_path / command
        copy_run(made, folder)
        DAMAGES[damage](folder)
        code = call(folder, command)
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        if code == 2:
            assert f"{folder / 'run' / 'journal.db'}: the journal is damaged (" in said.err
            assert f"rollout recover {folder / 'run'} -o {folder / 'run-recovered'}" in said.err
            noticed.add(command)
    assert noticed >= READERS.get(damage, READS_NODES)


def test_lost_token_ids_are_damage() -> None:
    journal = open_journal(Path("run"))

    async def fill() -> None:
        episode = journal.begin_episode(journal.begin_tree("d", "t", ()), "t", 0, 5)
        answer = Generation(Message("assistant", "."), tokens=Tokens.of(range(600), (1,)))
        journal.put(episode, 0, [NodeBody("generation", generation=answer)])
        await journal.close()

    asyncio.run(fill())
    connection = sqlite3.connect("run/journal.db")
    connection.execute("DELETE FROM token_pieces")
    connection.commit()
    connection.close()
    with open_reader(Path("run")) as reader, pytest.raises(JournalError, match=r"damaged .*token ids.*rollout recover"):
        reader.nodes(1)


def test_lost_wal_is_damage_where_it_held_something(tmp_path: Path) -> None:
    script = (
        "import asyncio, os; from pathlib import Path\n"
        "from rollout.store.journal import open_journal\n"
        "async def fill():\n"
        "    journal = open_journal(Path('run'))\n"
        "    journal.begin_tree('d', 't', ())\n"
        "    await journal.flush()\n"
        "    os._exit(9)\n"
        "asyncio.run(fill())\n"
    )
    subprocess.run([sys.executable, "-c", script], check=False, timeout=600)
    Path("run/journal.db-wal").unlink()
    with pytest.raises(JournalError, match=r"damaged \(journal\.db-wal is gone"), open_reader(Path("run")):
        pass
    with pytest.raises(JournalError, match=r"damaged \(journal\.db-wal is gone"):
        open_journal(Path("run"))


def test_wal_that_a_reader_left_behind_may_be_deleted(made: Path, tmp_path: Path) -> None:
    copy_run(made, tmp_path / "copy")
    with open_reader(tmp_path / "copy/run") as reader:
        reader.datasets()
    (tmp_path / "copy/run/journal.db-wal").unlink(missing_ok=True)
    with open_reader(tmp_path / "copy/run") as reader:
        assert reader.datasets() == ["data"]


@pytest.mark.parametrize("command", COMMANDS)
def test_journal_that_is_gone_is_missed_and_nothing_starts_from_nothing(
    made: Path, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    copy_run(made, folder)
    (folder / "run" / "journal.db").unlink()
    before = (folder / "out.jsonl").read_bytes()
    assert call(folder, command) == 2
    assert "journal.db: the journal is gone, although" in capsys.readouterr().err
    assert not (folder / "run" / "journal.db").exists()
    assert (folder / "out.jsonl").read_bytes() == before


def test_run_whose_journal_is_gone_is_started_again_on_demand(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    config = copy_run(made, folder)
    (folder / "run" / "journal.db").unlink()
    with pytest.raises(SystemExit) as ended:
        main(["run", str(config), "--no-resume"])
    assert ended.value.code == 0
    assert len(read_lines(folder / "out.jsonl")) == 24
    assert len(list(folder.glob("run.*"))) == 1, "what was left is moved aside"


def test_trajectory_without_its_episode_is_missed_not_left_out(made: Path, tmp_path: Path) -> None:
    copy_run(made, tmp_path / "copy")
    execute(tmp_path / "copy", "DELETE FROM episodes WHERE id = (SELECT min(episode) FROM trajectories)")
    with open_reader(tmp_path / "copy" / "run") as reader:
        with pytest.raises(JournalError, match="damaged"):
            list(reader.finished("data"))
        with pytest.raises(JournalError, match="damaged"):
            list(reader.trajectories("data"))


def test_resume_leaves_one_line_of_an_attempt_whose_row_is_gone(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    copy_run(made, folder)
    execute(folder, "DELETE FROM trajectories WHERE place = 0")
    assert call(folder, "run") == 0
    names = [line["id"] for line in read_lines(folder / "out.jsonl")]
    assert len(names) == len(set(names)) == 24


@pytest.mark.parametrize("size", [0, 4096])
def test_journal_without_tables_of_a_run_that_never_began_is_filled(made: Path, tmp_path: Path, size: int) -> None:
    folder = tmp_path / "copy"
    copy_run(made, folder)
    for path in (folder / "run").iterdir():
        if path.is_file():
            path.unlink()
    (folder / "out.jsonl").unlink()
    # What a first start leaves behind that is killed, or meets a full disk, before the first commit.
    connection = sqlite3.connect(folder / "run" / "journal.db")
    if size:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    (folder / "run" / "journal.db").touch()
    assert (folder / "run" / "journal.db").stat().st_size == size
    assert call(folder, "run") == 0
    assert len(read_lines(folder / "out.jsonl")) == 24


def test_interrupted_query_is_no_damage(made: Path) -> None:
    with open_reader(made / "run") as reader:
        reader._db.set_progress_handler(lambda: 1, 1)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            list(reader.heads("data"))


NESTED = '{"a":' + "[" * 100_000


# ---- attempts that branch --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def branched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("branched")
    make_run(folder, names=("a", "b", "c", "d"), strategy={"name": "random_tree"})
    return folder


@pytest.fixture
def _limited() -> Iterator[None]:
    """End a test that goes round in circles."""

    def end(signum: int, frame: object) -> None:
        raise AssertionError("the test took too long")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


CHOSEN = "episode = (SELECT min(episode) FROM branches WHERE parent > 0)"
BRANCHES = {
    "its own parent": f"UPDATE branches SET parent = episode WHERE {CHOSEN}",
    "a circle of two": (
        "UPDATE branches SET parent = (SELECT max(episode) FROM branches WHERE parent = "
        f"(SELECT parent FROM branches WHERE {CHOSEN})) WHERE {CHOSEN}"
    ),
    "a place that is not there": f"UPDATE branches SET place = 999 WHERE {CHOSEN}",
    "a place before the first": f"UPDATE branches SET place = -3 WHERE {CHOSEN}",
    "a parent that is not there": f"UPDATE branches SET parent = -7 WHERE {CHOSEN}",
}


@pytest.mark.usefixtures("_limited")
@pytest.mark.parametrize("damage", BRANCHES)
def test_branch_that_leads_nowhere_is_damage_and_recover_drops_its_group(
    branched: Path, tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    copy_run(branched, folder)
    wanted = {line["id"] for line in read_lines(folder / "out.jsonl")}
    execute(folder, BRANCHES[damage])
    # An output to write again, and a tree to go on with.
    (folder / "out.jsonl").rename(folder / "lines.jsonl")
    execute(folder, "DELETE FROM grown")
    for command in ("score", "filter", "run"):
        assert call(folder, command) == 2, command
        assert "the journal is damaged (" in capsys.readouterr().err
    (folder / "lines.jsonl").rename(folder / "out.jsonl")
    for command in ("run", "train-data"):
        assert call(folder, command) == 2, command
        assert "the journal is damaged (" in capsys.readouterr().err
    found = recover(folder / "run", folder / "new")
    groups = {entry.trajectory.partition("~")[0] for entry in found.lost}
    assert len(groups) == 1
    assert {line["id"] for line in read_lines(found.outputs["data"])} == {
        name for name in wanted if name.partition("~")[0] not in groups
    }


def test_value_that_is_nested_too_deep_is_damage(made: Path, tmp_path: Path) -> None:
    copy_run(made, tmp_path / "copy")
    execute(tmp_path / "copy", f"UPDATE meta SET value = '{NESTED}' WHERE key LIKE 'identity:%'")
    with open_reader(tmp_path / "copy" / "run") as reader, pytest.raises(JournalError, match="damaged"):
        reader.identity("data")


# ---- the run file, and files that are none ---------------------------------------------------------------------------


def _written(path: Path, **parts: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **parts}))


def _made_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


RUN_FILES: dict[str, Callable[[Path], None]] = {
    "no object": lambda path: path.write_text("[1]") and None,
    "empty": lambda path: path.write_text("") and None,
    "no text": lambda path: path.write_bytes(b"\xff\x00") and None,
    "nested too deep": lambda path: path.write_text(NESTED) and None,
    "a pipe": _made_a_pipe,
    "a config that is none": lambda path: _written(path, config="x"),
    "a setting of another type": lambda path: _written(path, config={"monitor_max_no_tool_turns": "many"}),
    "starts that are none": lambda path: _written(path, starts=7),
    "datasets that are none": lambda path: _written(path, datasets=[5]),
    "modules that are none": lambda path: _written(path, modules=3),
}


@pytest.mark.usefixtures("_limited")
@pytest.mark.parametrize("damage", RUN_FILES)
def test_damaged_run_file_is_named_and_does_not_keep_a_run_from_going_on(
    made: Path, tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "copy" / "run" / "run.json"
    copy_run(made, tmp_path / "copy")
    RUN_FILES[damage](path)
    assert call(tmp_path / "copy", "score") in (0, 2)
    recover(tmp_path / "copy" / "run", tmp_path / "new")
    assert call(tmp_path / "copy", "run") == 0
    said = "".join("".join(capsys.readouterr()).split())
    assert "Traceback" not in said
    # A setting of another type is as good as one that is not there.
    assert f"{path}:" in said or damage == "a setting of another type"
    assert len(read_lines(tmp_path / "copy" / "out.jsonl")) == 24
    assert len(json.loads(path.read_text())["starts"]) >= 1


@pytest.mark.usefixtures("_limited")
@pytest.mark.parametrize("command", COMMANDS)
def test_journal_that_is_no_file_is_named(
    made: Path, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_run(made, tmp_path / "copy")
    path = tmp_path / "copy" / "run" / "journal.db"
    _made_a_pipe(path)
    assert call(tmp_path / "copy", command) == 2
    assert f"{path}: is not a file" in capsys.readouterr().err


# ---- modes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_of_a_run_are_for_their_owner_only_and_its_output_follows_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        make_run(tmp_path / "made")
        journal = open_journal(tmp_path / "made" / "run")
        journal.set_meta("any", "thing")
        journal.keep_blob(b"some text")
        for path in (tmp_path / "made" / "run").rglob("*"):
            wanted = 0o700 if path.is_dir() else 0o600
            assert stat.S_IMODE(path.stat().st_mode) == wanted, path
        names = {path.name for path in (tmp_path / "made" / "run").iterdir()}
        assert names >= {"journal.db", "journal.db-wal", "journal.db-shm", "run.json", "metrics.json", "failed.jsonl"}
        assert stat.S_IMODE((tmp_path / "made" / "run").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "made" / "out.jsonl").stat().st_mode) == 0o666 & ~umask
    finally:
        os.umask(before)


def test_run_directory_of_the_older_mode_goes_on(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    copy_run(made, folder)
    for path in (folder / "run").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (folder / "run").chmod(0o755)
    assert call(folder, "run") == 0
    assert len(read_lines(folder / "out.jsonl")) == 24


def test_output_is_made_by_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        open_output(tmp_path / "out.jsonl").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.jsonl").stat().st_mode) == 0o664
