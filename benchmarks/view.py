"""`rollout view` on runs of 1,000, 10,000 and 100,000 trajectories of 4 generations: CPU of the server over HTTP.

First the index is built, with nobody asking for anything else; then each kind of request is sent, and the server's CPU
seconds are divided by their number. Of several kinds of sorts, filters and searches the dearest one stands in the
table; `--all` prints each. Then 10,000 marks are set, attempts are added to the run while the server looks at it, and
the run is served from a directory that cannot be written. The exponent is that of `benchmarks.growth`.

    python -m benchmarks.view                        # the table; about 10 minutes
    python -m benchmarks.view --sizes 1000,10000     # a quick look
    python -m benchmarks.view --runs FOLDER          # keeps the generated runs there, and uses those that are there
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.generated import SAMPLES, WORDS, words
from benchmarks.growth import NOISE, exponent
from benchmarks.view_server import ROOT, Server
from rollout.store.marks import MarksFile
from rollout.store.run_dir import lock_run
from rollout.viewer.index.queries import SORTS

SIZES = (1_000, 10_000, 100_000)
MARKS = 10_000
ADDED = 50
"""Attempts that are added while the server looks on, one at a time."""
MOST_CPU = 1.0
MOST_MB = 300
MOST_BUILD = 120.0
LIST = "trajectories"
Rows = dict[str, float]


def make_run(folder: Path, size: int) -> Path:
    """The run of one size, generated unless it is there."""
    run = folder / str(size) / "run"
    if not run.exists():
        command = (sys.executable, "-m", "benchmarks.generated", str(folder / str(size)), "--trajectories", str(size))
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    for path in run.glob("*.db*"):
        if not path.name.startswith("journal"):
            path.unlink()
    return run


def sorts() -> Iterator[tuple[str, dict[str, Any]]]:
    """A query for each order of the table."""
    for name in (*SORTS, "score:lucky"):
        for desc in (1, 0):
            yield f"{name} {'down' if desc else 'up'}", {"sort": name, "desc": desc}


def searches(size: int) -> dict[str, dict[str, Any]]:
    """Queries of words."""
    number = size // SAMPLES - 1
    one, other = words(30, "task", number).split()[:2]
    return {
        "search, rare word": {"q": one + " " + str(number)},
        "search, word of one in 17": {"q": one},
        "search, word of all": {"q": "search"},
        "search, beginning of a word": {"q": WORDS[0][:4]},
        "search, two words": {"q": f"{one} {other}"},
        "search, phrase": {"q": f'"{one} {other}"'},
        "search, phrase of all": {"q": '"search query"'},
        "search, without a word": {"q": f"search -{one}"},
    }


def filters() -> dict[str, dict[str, Any]]:
    """A query for each filter."""
    return {
        "dataset": {"dataset": "big"},
        "status": {"status": ["completed", "failed"]},
        "stop reason": {"stop_reason": "user_stop"},
        "solved": {"success": "1"},
        "not scored": {"success": "none"},
        "score": {"score": "lucky:ge:0.5"},
        "no score": {"score": "lucky:none"},
        "reward": {"min_reward": 0.5, "max_reward": 1},
        "mark, a kind": {"mark": "bad"},
        "mark, any": {"mark": "any"},
        "mark, none": {"mark": "none"},
        "label": {"label": "greedy"},
        "tool": {"tool": "search"},
        "model": {"model": "varied"},
        "author": {"author": "ada"},
        "filter": {"filter": "loops"},
        "filter, none": {"filter": "none"},
        "task": {"task": "t0000007"},
        "people": {"by": "person"},
        "run": {"by": "run"},
        "together": {"success": "1", "tool": "search", "min_reward": 0.5, "mark": "none", "sort": "tokens"},
        "together, search": {"success": "1", "tool": "search", "q": "search", "sort": "cost"},
    }


def look_together(server: Server, size: int) -> None:
    """Ask for many things at once, as several open pages do."""
    queries = [query for _, query in sorts()][:8] + list(searches(size).values())
    with ThreadPoolExecutor(len(queries)) as threads:
        offset = max(0, size - 100)
        done = [threads.submit(server.ask, LIST, limit=100, offset=offset, **query) for query in queries]
        for each in done:
            each.result()


class Table:
    """Measured CPU seconds, by row."""

    def __init__(self, server: Server, *, shows_all: bool) -> None:
        self.rows: Rows = {}
        self._server = server
        self._shows_all = shows_all

    def measure(self, row: str, ask: Callable[[], object], repeats: int = 5) -> None:
        """Measure a request; of several for one row, keep the dearest."""
        cpu = self._server.measure(ask, repeats)
        self.rows[row] = max(cpu, self.rows.get(row, 0.0))
        if self._shows_all:
            print(f"    {row}: {cpu:.3f}", file=sys.stderr)

    def list(self, row: str, name: str, **query: Any) -> None:
        """Measure a part of the table."""
        if self._shows_all:
            print(f"    {name}:", file=sys.stderr, end="")
        # A query that is slow is slow the first time, too.
        self.measure(row, lambda: self._server.ask(LIST, limit=100, **query), 3)


def measure_requests(table: Table, server: Server, size: int) -> None:
    """Everything that only reads."""
    ask, last = server.ask, max(0, size - 100)
    table.measure("run, figures and facets", ask, 1)
    table.measure("run, plots", lambda: ask("series"), 1)
    table.list("first rows", "first rows")
    for name, query in sorts():
        table.list("sort, dearest", name, **query)
    table.list("last rows", "last rows", offset=last)
    for sort in ("tokens", "first", "score:lucky"):
        table.list("last rows, sorted", f"last rows by {sort}", offset=last, sort=sort)
    for name, query in searches(size).items():
        table.list(name, name, **query)
    for name, query in filters().items():
        table.list("filter, dearest", name, **query)
    one = json.loads(ask(LIST, limit=1, sort="id"))["rows"][0]
    key = {"dataset": one["dataset"], "id": one["id"]}
    table.measure("trajectory", lambda: ask("trajectory", **key))
    table.measure("neighbours", lambda: ask("neighbours", of=key["dataset"], id=key["id"], sort="tokens"))
    table.measure("tree", lambda: ask("tree", dataset=key["dataset"], task=one["task_id"]))
    for kind in ("sample", "disagree", "unmarked"):
        table.measure("review queue", lambda kind=kind: ask("queue", kind=kind, n=200))  # type: ignore[misc]
    table.measure("16 sorts and searches at once, each", lambda: look_together(server, size), 1)
    table.rows["16 sorts and searches at once, each"] /= 16
    table.measure("runs compared", lambda: server.ask_for(f"/api/diff?first={server.run}&second={server.run}"), 1)


def set_marks(run: Path, count: int) -> list[tuple[str, str]]:
    """Set marks of several kinds by several people; returns what is marked."""
    with contextlib.closing(sqlite3.connect(run / "journal.db")) as journal:
        keys = journal.execute("SELECT dataset, id FROM trajectories ORDER BY id LIMIT ?", (count,)).fetchall()
    MarksFile(run).add(*keys[0], "good", author="ada")
    kinds = (("label", None, "greedy"), ("verdict", 0.0, None), ("bad", None, None), ("good", None, None))
    rows = [
        (number, *keys[number], None, *kinds[number % 4], ("ada", "bob", "carol")[number % 3], time.time())
        for number in range(2, len(keys))
    ]
    # In one transaction: each by itself waits for the disk.
    with contextlib.closing(sqlite3.connect(run / "marks.db")) as marks, marks:
        marks.executemany(f"INSERT INTO marks VALUES ({', '.join('?' * 9)})", rows)
    return keys


def measure_marks(table: Table, server: Server, run: Path, size: int) -> None:
    """Requests about marks, once there are many."""
    keys = set_marks(run, min(MARKS, size))

    def wait_for_marks() -> None:
        while json.loads(server.ask(LIST, limit=0, mark="any"))["total"] < len(keys) - 1:
            time.sleep(0.2)

    table.measure("10,000 marks taken in", wait_for_marks, 1)
    table.measure("facets with 10,000 marks", server.ask, 1)
    for name, query in filters().items():
        if name.startswith(("mark", "label", "author")):
            table.list("filter by marks, dearest", name, **query)
    table.measure("queue beside 10,000 marks", lambda: server.ask("queue", kind="disagree", n=200))
    table.measure("queue beside 10,000 marks", lambda: server.ask("queue", kind="unmarked", n=200))
    texts = iter(range(1_000_000))

    def mark_one() -> None:
        dataset, name = keys[next(texts)]
        body = {"dataset": dataset, "id": name, "kind": "note", "text": "seen"}
        server.ask("marks", "POST", body)
        server.ask(LIST, limit=0)

    table.measure("one more mark", mark_one, 20)


def add_attempt(run: Path, number: int) -> None:
    """Add an attempt to the journal, as a live run does: a copy of one that is there, with an id of its own."""
    journal = sqlite3.connect(run / "journal.db", isolation_level=None)
    try:
        journal.execute("BEGIN IMMEDIATE")
        (newest,) = journal.execute("SELECT max(id) FROM episodes").fetchone()
        episode, source = newest + 1, number + 1
        columns = [name for _, name, *_ in journal.execute("PRAGMA table_info(trajectories)")]
        row = dict(
            zip(
                columns,
                journal.execute("SELECT * FROM trajectories WHERE episode = ?", (source,)).fetchone(),
                strict=True,
            )
        )
        head = msgspec.msgpack.decode(row["head"])
        name = f"added-{number}"
        assert isinstance(head, dict)
        row |= {"id": name, "episode": episode, "finished": time.time()}
        row["head"] = msgspec.msgpack.encode(head | {"id": name})
        journal.execute(
            "INSERT INTO episodes SELECT ?, tree, ?, attempt, seed, started FROM episodes WHERE id = ?",
            (episode, name, source),
        )
        journal.execute("INSERT INTO nodes SELECT ?, place, body FROM nodes WHERE episode = ?", (episode, source))
        journal.execute(f"INSERT INTO trajectories VALUES ({', '.join('?' * len(row))})", list(row.values()))
        journal.execute("COMMIT")
    finally:
        journal.close()


def measure_following(table: Table, server: Server, run: Path, size: int) -> None:
    """What attempts cost that a live run adds, one after the other: to be taken in, and to be seen in an open page."""
    numbers = iter(range(1_000_000))

    def add_one() -> None:
        add_attempt(run, next(numbers))
        server.ask(LIST, limit=1)

    def look_again() -> None:
        add_one()
        server.ask()
        server.ask("series")
        server.ask(LIST, limit=100)

    lock = lock_run(run)
    try:
        add_one()
        table.measure("one more attempt", add_one, ADDED)
        look_again()
        table.measure("one more attempt, page open", look_again, ADDED)
    finally:
        os.close(lock)
    total = json.loads(server.ask(LIST, limit=0))["total"]
    if total != size + next(numbers):
        raise RuntimeError(f"{total} of {size:,} and the added attempts are in the index")


def measure_size(run: Path, folder: Path, size: int, *, shows_all: bool) -> tuple[Rows, float, float]:
    """All rows of one size, the seconds that the index took, and the server's peak memory."""

    def show(line: str) -> None:
        if sys.stderr.isatty():
            print(f"\r  {size:,}: index {line}   ", end="", file=sys.stderr)

    with Server(run, folder / "log.txt") as server:
        table = Table(server, shows_all=shows_all)
        before, began = server.cpu(), time.perf_counter()
        told = server.follow_index(size, show)
        built = time.perf_counter() - began
        table.rows["index, built"] = server.cpu() - before
        print(f"  {size:,}: index in {built:.1f} s, told {told} times, {server.memory_mb():.0f} MB", file=sys.stderr)
        measure_requests(table, server, size)
        measure_marks(table, server, run, size)
        measure_following(table, server, run, size)
        time.sleep(1.5)
    peak = server.peak_mb
    with Server(run, folder / "log.txt") as server:
        table.rows["next server, first rows"] = server.measure(lambda: server.ask(LIST, limit=100), 1)
    for path in (run, *run.iterdir()):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with Server(run, folder / "log.txt", read_only=True) as server:
            before = server.cpu()
            server.follow_index(size, show)
            table.rows["read-only run, index"] = server.cpu() - before
            table.rows["read-only run, first rows"] = server.measure(lambda: server.ask(LIST, limit=100))
    finally:
        for path in (run, *run.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        shutil.rmtree(folder / "cache")
    return table.rows, built, max(peak, server.peak_mb)


def print_table(sizes: Sequence[int], found: Sequence[tuple[Rows, float, float]]) -> None:
    heads = "".join(f"{f'{size:,}':>10}" for size in sizes)
    print(f"{'CPU s':34}{heads}{'exponent':>10}")
    for row in found[0][0]:
        points = [(size, rows[row]) for size, (rows, _, _) in zip(sizes, found, strict=True)]
        cells = "".join(f"{cpu:10.3f}" for _, cpu in points)
        slope = f"{exponent(points):10.2f}" if len(points) > 1 and points[-1][1] >= NOISE else f"{'–':>10}"
        is_met = row.endswith(("built", "index")) or points[-1][1] <= MOST_CPU
        print(f"{row:34}{cells}{slope}{'' if is_met else '  over the target'}")
    for title, place, most in (("index, wall s", 1, MOST_BUILD), ("peak MB", 2, MOST_MB)):
        values = [float(each[place]) for each in found]  # type: ignore[arg-type]
        cells = "".join(f"{value:10.1f}" for value in values)
        print(f"{title:34}{cells}{'' if values[-1] <= most else '  over the target'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--runs", type=Path, help="Keep the generated runs here.")
    parser.add_argument("--all", action="store_true", help="Print each sort, filter and search.")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    with tempfile.TemporaryDirectory() as name:
        found = []
        for size in sizes:
            kept = options.runs or Path(name)
            source = make_run(kept, size)
            folder = Path(name) / f"served-{size}"
            shutil.copytree(source, folder / "run")
            found.append(measure_size(folder / "run", folder, size, shows_all=options.all))
            shutil.rmtree(folder)
    print_table(sizes, found)


if __name__ == "__main__":
    main()
