"""`rollout recover`: what is whole is saved, what is not is made again, and the damaged run is left as it is."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollout.cli import main
from rollout.core.errors import JournalError
from rollout.core.messages import Image, encode_message
from rollout.store.reading.reader import open_reader
from rollout.store.recovery.pruning import Recovered
from rollout.store.recovery.recover import recover
from rollout.store.recovery.salvage import read_shapes, salvage_rows
from rollout.store.run_dir import lock_run
from rollout.store.schema import LATER_COLUMNS, SCHEMA
from rollout.trajectories.line import comparable
from tests.conftest import read_lines, roll_out
from tests.store.damages import DAMAGES, TASKS, config_in, copy_run, execute, flip_bytes, make_run, write_at

TABLES = ("trees", "episodes", "nodes", "trajectories", "meta")
HOPELESS = {"many flipped bytes", "noise", "empty", "no nodes table", "no trees table"}
"""What leaves next to nothing that could be read."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    make_run(folder)
    return folder


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("half")
    make_run(folder, unfinished=True)
    return folder


def by_id(path: Path) -> dict[str, dict[str, Any]]:
    """The lines of an output, each of which must be there once."""
    lines = read_lines(path)
    assert len({line["id"] for line in lines}) == len(lines)
    return {line["id"]: comparable(line) for line in lines}


def files_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of a folder, with its content and the time of its last change."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def go_on(folder: Path, found: Recovered, **dataset: Any) -> dict[str, dict[str, Any]]:
    """Resume the recovered run to its end; its lines."""
    config = config_in(folder, **{"output_path": str(found.outputs["data"]), **dataset})
    asyncio.run(roll_out(config, found.target))
    return by_id(found.outputs["data"])


@pytest.mark.parametrize("damage", sorted(DAMAGES.keys() - HOPELESS))
def test_what_is_whole_is_kept_and_a_resume_makes_exactly_the_rest(
    whole: Path, half: Path, tmp_path: Path, damage: str
) -> None:
    wanted = by_id(whole / "out.jsonl")
    folder = tmp_path / "copy"
    copy_run(half, folder)
    DAMAGES[damage](folder)
    before = files_of(folder)
    found = recover(folder / "run", folder / "new")
    assert {path: content for path, content in files_of(folder).items() if "/new/" not in path} == before
    kept = by_id(found.outputs["data"])
    assert kept.items() <= wanted.items(), "every line that is kept is right"
    assert len(kept) == found.finished["data"]
    missing = by_id(folder / "out.jsonl").keys() - kept.keys()
    assert {entry.trajectory for entry in found.lost} >= missing, "and every other one is named"
    ends = go_on(folder, found)
    if damage != "flipped bytes":  # inside the text of an attempt that has no line yet a change cannot be noticed
        assert ends == wanted
    assert ends.keys() == wanted.keys()


def test_journal_that_is_whole_is_recovered_whole(half: Path, tmp_path: Path) -> None:
    copy_run(half, tmp_path / "copy")
    found = recover(tmp_path / "copy" / "run", tmp_path / "new")
    assert not found.lost
    assert not found.dropped
    assert by_id(found.outputs["data"]) == by_id(half / "out.jsonl")
    with open_reader(half / "run") as old, open_reader(tmp_path / "new") as new:
        assert list(new.heads("data")) == list(old.heads("data"))
        saved = new.unfinished("data")
        assert saved.keys() == {name for name, episode in old.unfinished("data").items() if old.nodes(episode.id)}
        assert all(new.nodes(episode.id) == old.nodes(episode.id) for episode in saved.values())


def test_pages_that_sqlite_cannot_reach_any_more_are_read(half: Path) -> None:
    with open_reader(half / "run") as reader:
        rows = {table: reader._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}
    shapes = read_shapes(SCHEMA, LATER_COLUMNS)
    found = Counter(
        shape.table for row in salvage_rows(half / "run" / "journal.db") for shape in shapes if shape.read(row)
    )
    assert {table: found[table] for table in TABLES} == rows


def test_rows_of_a_run_that_was_killed_are_read_out_of_its_wal(tmp_path: Path) -> None:
    script = (
        "import asyncio, os; from pathlib import Path\n"
        "from rollout.store.journal import open_journal\n"
        "from rollout.core.messages import Message\n"
        "from rollout.trajectories.tree import NodeBody\n"
        "async def fill():\n"
        "    journal = open_journal(Path('run'))\n"
        "    episode = journal.begin_episode(journal.begin_tree('d', 't', (Message('user', 'hi'),)), 't', 0, 5)\n"
        "    journal.put(episode, 0, [NodeBody('user', message=Message('user', 'x' * 20_000))])\n"
        "    journal.set_meta('identity:d', '{}')\n"
        "    await journal.flush()\n"
        "    os._exit(9)\n"
        "asyncio.run(fill())\n"
    )
    subprocess.run([sys.executable, "-c", script], check=False, timeout=600)
    assert Path("run/journal.db-wal").stat().st_size > 20_000
    Path("run/journal.db").write_bytes(b"")
    found = recover(Path("run"), Path("new"))
    assert found.unfinished == {"d": 1}
    with open_reader(Path("new")) as reader:
        (body,) = reader.nodes(1)
    assert body.message is not None
    assert body.message.content == "x" * 20_000


def test_finished_trajectory_with_a_hole_is_dropped_and_made_again(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    copy_run(whole, folder)
    execute(
        folder, "DELETE FROM nodes WHERE episode = 3 AND place = 4", "DELETE FROM nodes WHERE episode = 5 AND place = 0"
    )
    found = recover(folder / "run", folder / "new")
    assert {entry.trajectory for entry in found.lost} == {"task2", "task4"}
    assert found.finished["data"] == TASKS - 2
    with open_reader(folder / "new") as reader:
        assert not reader.unfinished("data"), "nothing is left of them that could be taken for theirs"
    assert go_on(folder, found) == by_id(whole / "out.jsonl")


def test_unfinished_attempt_goes_on_before_the_first_gap_and_open_calls_are_made_again(
    whole: Path, half: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    copy_run(half, folder)
    with open_reader(half / "run") as reader:
        (episode, *_) = [one.id for one in reader.unfinished("data").values() if len(reader.nodes(one.id)) > 1]
    execute(folder, f"DELETE FROM nodes WHERE episode = {episode} AND place = 1")
    found = recover(folder / "run", folder / "new")
    with open_reader(folder / "new") as reader:
        assert len(reader.nodes(episode)) == 1
    assert go_on(folder, found) == by_id(whole / "out.jsonl")


def test_byte_that_changed_inside_a_text_is_found_by_the_old_output(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    copy_run(whole, folder)
    data = (folder / "run" / "journal.db").read_bytes()
    place = data.index(b"echo: one 7 xxxx")
    write_at(folder, place, b"echo: one 8 xxxx")
    found = recover(folder / "run", folder / "new")
    assert [(entry.trajectory, entry.why) for entry in found.lost] == [("task7", "its output line differs")]
    assert go_on(folder, found) == by_id(whole / "out.jsonl")


def test_group_of_branching_attempts_is_kept_whole_or_made_again_whole(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    strategy = {"strategy": {"name": "random_tree"}}
    make_run(folder, **strategy)
    wanted = by_id(folder / "out.jsonl")
    with open_reader(folder / "run") as reader:
        parent = reader._db.execute("SELECT min(parent) FROM branches WHERE parent > 0").fetchone()[0]
        task = reader.trajectory_of(parent).partition("~")[0]
    execute(folder, f"DELETE FROM nodes WHERE episode = {parent} AND place = 1")
    found = recover(folder / "run", folder / "new")
    group = {name for name in wanted if name.partition("~")[0] == task}
    assert {entry.trajectory for entry in found.lost} == group
    assert by_id(found.outputs["data"]).keys() == wanted.keys() - group
    assert go_on(folder, found, **strategy).keys() == wanted.keys()


def test_attempt_whose_branch_is_forgotten_is_not_taken_for_a_first_one(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    make_run(folder, strategy={"name": "random_tree"})
    execute(folder, "DELETE FROM branches")
    with pytest.raises(JournalError, match="nothing in it can be read"):
        recover(folder / "run", folder / "new")


def test_trajectory_whose_image_is_lost_is_made_again(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    copy_run(whole, folder)
    image = Image("image/png", b"pixels")
    with open_reader(folder / "run") as reader:
        body = reader.nodes(3)[1]
    assert body.message is not None
    message = msgspec.structs.replace(body.message, images=(image.name,))
    shown = msgspec.msgpack.encode(msgspec.structs.replace(body, message=message)).hex()
    longer = len(encode_message(message)) - len(encode_message(body.message))
    execute(
        folder,
        f"UPDATE nodes SET body = x'{shown}' WHERE episode = 3 AND place = 1",
        f"UPDATE trajectories SET length = length + {longer} WHERE episode = 3",
    )
    (folder / "out.jsonl").unlink()
    blob = folder / "run" / "blobs" / image.name
    blob.write_bytes(image.data)
    assert recover(folder / "run", folder / "with").finished["data"] == TASKS
    blob.write_bytes(b"other pixels")
    found = recover(folder / "run", folder / "without")
    assert found.lost_blobs == [image.name], "a blob that is not what its name says is left out"
    assert [(entry.trajectory, entry.why) for entry in found.lost] == [("task2", "an image of it is lost")]


def test_kept_files_are_those_of_the_run_and_name_the_new_outputs(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    copy_run(whole, folder)
    flip_bytes(folder, 5, 1)
    found = recover(folder / "run", folder / "new")
    config = json.loads((folder / "new" / "run.json").read_text())["config"]
    assert config["run_dir"] == str(folder / "new")
    assert config["datasets"]["data"]["output_path"] == str(found.outputs["data"])
    blobs = {path.name for path in (folder / "run" / "blobs").iterdir()}
    assert {path.name for path in (folder / "new" / "blobs").iterdir()} == blobs
    assert not list(folder.glob(".*")), "nothing temporary is left"


def test_command_says_what_was_saved_and_lost_and_how_to_go_on(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    copy_run(whole, folder)
    execute(folder, "DELETE FROM nodes WHERE episode <= 23 AND place = 1")
    main_quietly(["recover", str(folder / "run")])
    said = capsys.readouterr().out
    assert "lost: data: 23 because a part of it cannot be read: task0, task1, task10" in said
    assert "… (3 more)" in said
    assert f"run_dir: {folder / 'run-recovered'}" in said
    assert f"datasets.data.output_path: {folder / 'run-recovered' / 'outputs' / 'data.jsonl'}" in said
    for words in (["export", "-f", "trl", "-o", "x.jsonl"], ["score"], ["filter"], ["train-data", "-o", "rows"]):
        main_quietly([words[0], str(folder / "run-recovered"), *words[1:]])
    assert len(read_lines(Path("x.jsonl"))) == 1


def test_prompts_that_are_gone_are_named_and_a_resume_writes_them_again(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    copy_run(whole, folder)
    names = sorted(path.name for path in (folder / "run" / "blobs").iterdir())
    shutil.rmtree(folder / "run" / "blobs")
    main_quietly(["recover", str(folder / "run"), "-o", str(folder / "new")])
    assert f"1 prompts are missing in blobs/: {names[0]}. Exports need them" in capsys.readouterr().out
    found = recover(folder / "run", folder / "other")
    assert found.finished["data"] == TASKS
    assert found.missing_prompts == names
    go_on(folder, found)
    assert sorted(path.name for path in (folder / "other" / "blobs").iterdir()) == names
    assert not recover(whole / "run", folder / "of-whole").missing_prompts


def main_quietly(words: list[str]) -> None:
    try:
        main(words)
    except SystemExit as ended:
        assert not ended.code, words


def test_existing_folder_and_running_run_and_unreadable_journal_are_refused(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    copy_run(whole, folder)
    (folder / "new").mkdir()
    with pytest.raises(JournalError, match="already exists"):
        recover(folder / "run", folder / "new")
    lock = lock_run(folder / "run")
    with pytest.raises(JournalError, match="another process is running"):
        recover(folder / "run", folder / "other")
    os.close(lock)
    (folder / "run" / "journal.lock").unlink()
    (folder / "run" / "journal.lock").symlink_to("journal.lock")
    with pytest.raises(JournalError, match=r"journal\.lock: cannot be opened: .*; remove it"):
        recover(folder / "run", folder / "other")
    for damage in ("noise", "empty", "no trees table"):
        copy_run(whole, tmp_path / damage)
        DAMAGES[damage](tmp_path / damage)
        with pytest.raises(JournalError, match="nothing in it can be read"):
            recover(tmp_path / damage / "run", tmp_path / damage / "new")
        assert not (tmp_path / damage / "new").exists()


@pytest.mark.parametrize("place", [-1, 1 << 62])
def test_place_that_no_file_has_says_nothing_about_its_line(whole: Path, tmp_path: Path, place: int) -> None:
    folder = tmp_path / "copy"
    copy_run(whole, folder)
    execute(folder, f"UPDATE trajectories SET place = {place} WHERE episode % 3 = 0")
    found = recover(folder / "run", folder / "new")
    assert by_id(found.outputs["data"]) == by_id(whole / "out.jsonl")
