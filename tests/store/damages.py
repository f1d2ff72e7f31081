"""A small run that needs no server, and the ways in which its journal is damaged."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import roll_out, write_tasks

PAGE = 4096
TASKS = 24
NAMES = tuple(map(str, range(TASKS)))


def config_in(folder: Path, **dataset: Any) -> dict[str, Any]:
    """A config all of whose paths are absolute. Its agent plays what the tasks say."""
    return {
        "enable_monitor": False,
        "max_workers": 4,
        "run_dir": str(folder / "run"),
        "datasets": {
            "data": {
                "path": str(folder / "tasks.jsonl"),
                "output_path": str(folder / "out.jsonl"),
                "tools": ["tests.tools:echo"],
                "agent": {"model": "builtin/oracle"},
                **dataset,
            }
        },
    }


def make_run(folder: Path, *, unfinished: bool = False, names: Sequence[str] = NAMES, **dataset: Any) -> Path:
    """Roll a run out below `folder`; with `unfinished`, only about half of it. Returns its config file.

    There is a task for each of `names`, which its messages repeat."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = []
    for number, name in enumerate(names):
        actions = [{"name": "echo", "arguments": {"text": f"{word} {name} " + "x" * 300}} for word in ("one", "two")]
        opening = [{"role": "user", "content": f"Question {name}"}]
        tasks.append({"id": f"task{number}", "messages": opening, "task_info": {"actions": actions}})
    write_tasks(folder / "tasks.jsonl", *tasks)
    config = config_in(folder, **dataset)
    path = folder / "config.yml"
    path.write_text(yaml.safe_dump(config))
    pause = (lambda progress: progress.finished >= len(names) // 2) if unfinished else None
    asyncio.run(roll_out(config, folder / "run", pause_when=pause))
    return path


def copy_run(source: Path, target: Path) -> Path:
    """The run of `make_run` in another folder, as if it had been made there. Returns its config file."""
    shutil.copytree(source, target)
    for name in ("config.yml", "run/run.json"):
        path = target / name
        path.write_text(path.read_text().replace(str(source), str(target)))
    execute(target, f"UPDATE meta SET value = replace(value, '{source}', '{target}') WHERE key LIKE 'output:%'")
    return target / "config.yml"


def execute(folder: Path, *statements: str) -> None:
    """Change the journal by hand."""
    connection = sqlite3.connect(folder / "run" / "journal.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    for name in ("journal.db-wal", "journal.db-shm"):
        (folder / "run" / name).unlink(missing_ok=True)


def pages_of(folder: Path, table: str) -> list[int]:
    """The pages of a table, leaves and others, by number from 1; only those that hold rows where there are such."""
    data = (folder / "run" / "journal.db").read_bytes()
    connection = sqlite3.connect(folder / "run" / "journal.db")
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    connection.close()
    found, due = [], [root]
    while due:
        page = due.pop()
        start = (page - 1) * PAGE + (100 if page == 1 else 0)
        if data[start] in (2, 5):
            cells = int.from_bytes(data[start + 3 : start + 5], "big")
            due.append(int.from_bytes(data[start + 8 : start + 12], "big"))
            for cell in range(cells):
                place = int.from_bytes(data[start + 12 + 2 * cell : start + 14 + 2 * cell], "big")
                at = (page - 1) * PAGE + place
                due.append(int.from_bytes(data[at : at + 4], "big"))
        found.append(page)
    return found


def zero_page(folder: Path, page: int) -> None:
    write_at(folder, (page - 1) * PAGE, bytes(PAGE))


def write_at(folder: Path, place: int, data: bytes) -> None:
    with (folder / "run" / "journal.db").open("r+b") as file:
        file.seek(place)
        file.write(data)


def flip_bytes(folder: Path, seed: int, count: int = 200) -> None:
    """Change bytes all over the file but for its first page."""
    chance = random.Random(seed)
    path = folder / "run" / "journal.db"
    data = bytearray(path.read_bytes())
    for _ in range(count):
        data[chance.randrange(PAGE, len(data))] ^= chance.randrange(1, 256)
    path.write_bytes(data)


def _truncate(folder: Path) -> None:
    path = folder / "run" / "journal.db"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 // PAGE * PAGE + 100])


def _leaf(folder: Path, table: str) -> int:
    """A page in the middle of a table that holds rows."""
    data = (folder / "run" / "journal.db").read_bytes()
    leaves = [page for page in pages_of(folder, table) if data[(page - 1) * PAGE] in (10, 13)]
    return leaves[len(leaves) // 2]


def _reversed_body(table: str, column: str, where: str = "1") -> Callable[[Path], None]:
    return lambda folder: execute(folder, f"UPDATE {table} SET {column} = x'c1ff00' WHERE {where}")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "truncated": _truncate,
    "zeroed nodes": lambda folder: zero_page(folder, _leaf(folder, "nodes")),
    "zeroed trajectories": lambda folder: zero_page(folder, _leaf(folder, "trajectories")),
    "zeroed roots": lambda folder: (
        [zero_page(folder, pages_of(folder, t)[0]) for t in ("nodes", "trajectories")] and None
    ),
    "zeroed first page": lambda folder: zero_page(folder, 1),
    "flipped bytes": lambda folder: flip_bytes(folder, 1),
    "many flipped bytes": lambda folder: flip_bytes(folder, 2, 4000),
    "wrong header": lambda folder: write_at(folder, 0, b"SQLite format 9\0"),
    "wrong page size": lambda folder: write_at(folder, 16, b"\x12\x34"),
    "noise": lambda folder: (folder / "run" / "journal.db").write_bytes(random.Random(3).randbytes(50_000)) and None,
    "empty": lambda folder: (folder / "run" / "journal.db").write_bytes(b"") and None,
    "no nodes table": lambda folder: execute(folder, "DROP TABLE nodes"),
    "no trees table": lambda folder: execute(folder, "DROP TABLE trees"),
    "no meta table": lambda folder: execute(folder, "DROP TABLE meta"),
    "bodies of nodes": _reversed_body("nodes", "body", "episode % 3 = 0"),
    "heads": _reversed_body("trajectories", "head", "episode % 3 = 0"),
    "openings": _reversed_body("trees", "opening", "id % 3 = 0"),
    "a text where a body was": lambda folder: execute(folder, "UPDATE nodes SET body = 'words' WHERE episode = 3"),
    "episodes that are missing": lambda folder: execute(folder, "DELETE FROM episodes WHERE id % 3 = 0"),
    "trees that are missing": lambda folder: execute(folder, "DELETE FROM trees WHERE id % 3 = 0"),
    "nodes that are missing": lambda folder: execute(folder, "DELETE FROM nodes WHERE episode % 3 = 0 AND place = 1"),
    "meta that is no JSON": lambda folder: execute(
        folder, "UPDATE meta SET value = '{' WHERE key LIKE 'identity:%' OR key LIKE 'planned:%' OR key = 'seconds'"
    ),
    "meta that is no text": lambda folder: execute(folder, "UPDATE meta SET value = x'ff00'"),
}
"""Each with what it does to the journal of the run in a folder."""
