"""Random damage to the files of a run, against every command that reads them.

Each damage is done to a copy of a run that is half over. Commands that read it must end with 0 and a right result, or
with 2 and an error that says so; never with a traceback. Then the run is brought to its end, by a resume or by `rollout
recover` and a resume, and every attempt is accounted for. Commands run in forks of a process that has imported the
package, because a thousand imports would take longer than everything else.

A byte that changes inside a text cannot be noticed, since nothing keeps a second copy of it: after flipped bytes and
foreign values only the ids are compared.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import re
import select
import signal
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from rollout.cli import main
from rollout.trajectories.line import comparable
from tests.conftest import read_lines
from tests.faults.accounting import Ledger, audit_lines, find_secrets
from tests.faults.runs import SECRETS, make_conversations
from tests.store.damages import PAGE, copy_run, execute, make_run

PART = "journal damage"
EACH = 24
TASKS = 60
DEADLINE = 120.0
TABLES = {
    "trees": "id",
    "episodes": "id",
    "nodes": "episode * 7 + place",
    "trajectories": "episode",
    "meta": "length(key)",
}
"""Each with a number by which some of its rows are chosen."""
SAID = re.compile(
    r"damaged|is gone|cannot be read|cannot be used|is no |not a run|nothing in it can be read|not valid"
    r"|nothing was written|was begun with other settings|is not there|is missing"
)
"""How an error of exit code 2 names the damage."""
NAMED = "problem "
"""What a command that reads lines, and ends with 1, says before each that it had to leave out."""
UNNOTICED = ("flipped bytes", "foreign values")
"""Damage that may change a text and nothing else."""


def _flip(folder: Path, chance: random.Random) -> None:
    path = folder / "run" / "journal.db"
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 3, 30, 300, 3000))):
        data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
    path.write_bytes(data)


def _truncate(folder: Path, chance: random.Random) -> None:
    path = folder / "run" / "journal.db"
    os.truncate(path, chance.randrange(path.stat().st_size))


def _zero(folder: Path, chance: random.Random) -> None:
    path = folder / "run" / "journal.db"
    pages = path.stat().st_size // PAGE
    with path.open("r+b") as file:
        for page in chance.sample(range(pages), chance.choice((1, 2, 5, pages // 3))):
            file.seek(page * PAGE)
            file.write(bytes(PAGE))


def _delete_rows(folder: Path, chance: random.Random) -> None:
    table, rest = chance.choice([*TABLES]), chance.choice((2, 3, 7))
    execute(folder, f"DELETE FROM {table} WHERE ({TABLES[table]}) % {rest} = {chance.randrange(rest)}")


def _foreign_values(folder: Path, chance: random.Random) -> None:
    table = chance.choice([*TABLES])
    with contextlib.closing(sqlite3.connect(folder / "run" / "journal.db")) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if not row[5]]
    value = chance.choice(("x'c1ff00'", "'words'", "-1", "NULL", f"x'{chance.randbytes(40).hex()}'"))
    rest = chance.choice((1, 2, 5))
    where = f"({TABLES[table]}) % {rest} = {chance.randrange(rest)}"
    with contextlib.suppress(sqlite3.IntegrityError):
        # A column that refuses such a value is not damaged, and the injection does not count.
        execute(folder, f"UPDATE {table} SET {chance.choice(columns)} = {value} WHERE {where}")


def _files(folder: Path, chance: random.Random) -> None:
    run = folder / "run"
    path = chance.choice((run / "journal.db", run / "run.json", run / "failed.jsonl", run / "metrics.json",
                          folder / "out.jsonl", *sorted((run / "blobs").iterdir())))  # fmt: skip
    match chance.choice(("delete", "truncate", "noise", "wal")):
        case "delete":
            path.unlink()
        case "truncate":
            os.truncate(path, chance.randrange(path.stat().st_size + 1))
        case "noise":
            path.write_bytes(chance.randbytes(5000))
        case "wal":
            (run / "journal.db-wal").write_bytes(chance.randbytes(chance.choice((31, 5000, 50_000))))


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "flipped bytes": _flip,
    "truncated": _truncate,
    "zeroed pages": _zero,
    "deleted rows": _delete_rows,
    "foreign values": _foreign_values,
    "files": _files,
}


class Patient:
    """A copy of the run, damaged in one way, and the commands over it."""

    def __init__(self, base: Path, folder: Path, kind: str, seed: int, wanted: dict[str, Any]) -> None:
        self.ledger = Ledger(PART)
        self.folder, self.kind, self.wanted = folder, kind, wanted
        self.markers = {name: _marker_of(line) for name, line in wanted.items()}
        copy_run(base, folder)
        before = _contents(folder)
        DAMAGES[kind](folder, random.Random(seed))
        self.is_damaged = _contents(folder) != before
        self.said = folder / "said"
        self.said.mkdir()

    def treat(self) -> Ledger:
        run, config = str(self.folder / "run"), str(self.folder / "config.yml")
        self.ledger.inject(self.kind, int(self.is_damaged))
        self.ledger.expose(self.kind, len(self.wanted))
        recovered = self.call("recover", run, "-o", str(self.folder / "new"))
        self.call("score", run)
        self.call("filter", run)
        if self.call("export", run, "-f", "openai", "-o", str(self.folder / "export.jsonl")) in (0, 1):
            self.check_markers(self.folder / "export.jsonl")
        if self.call("label", run, "-o", str(self.folder / "labelled.jsonl")) in (0, 1):
            self.check_markers(self.folder / "labelled.jsonl")
        if self.call("train-data", run, "-f", "jsonl", "-o", str(self.folder / "rows")) in (0, 1):
            for path in self.folder.glob("rows*"):
                if path.is_file():
                    self.check_markers(path)
        if self.call("run", config, "--resume") == 0:
            self.check_output(self.folder / "out.jsonl")
        elif recovered == 0:
            output = self.point_at(self.folder / "new")
            code = self.call("run", config, "--resume")
            if code == 2 and self.kind in UNNOTICED and "was begun with other settings" in self.last:
                # A byte changed in the settings on record, and nobody can know which of the two are right.
                self.call("run", config, "--no-resume")
            elif code != 0:
                self.ledger.blame(self.kind, "unfit", f"the recovered run cannot be resumed: {self.last[-500:]}")
            self.check_output(output)
        else:
            # Nothing can be read, and the commands have said so: what is left is to start again.
            self.call("run", config, "--no-resume")
            self.check_output(self.folder / "out.jsonl")
        for text in find_secrets((path for path in self.folder.rglob("*") if path.is_file()), SECRETS):
            self.ledger.blame(self.kind, "secrets", text)
        return self.ledger

    def call(self, *words: str) -> int | None:
        """A command in a fork; its exit code, or None where it has hung."""
        path = self.said / f"{len(list(self.said.iterdir()))}-{words[0]}.txt"
        code = _forked(words, self.folder, path)
        self.last = path.read_text(errors="replace")
        where = f"{self.folder.name}: rollout {words[0]}"
        if code is None:
            self.ledger.blame(self.kind, "hung", f"{where}: no end within {DEADLINE:g} s")
        elif not _is_fit(words[0], code, self.last):
            self.ledger.blame(self.kind, "unfit", f"{where} ended with {code}: {self.last[-700:]}")
        if "Traceback (most recent call last)" in self.last:
            self.ledger.blame(self.kind, "unfit", f"{where}: {self.last[-1200:]}")
        return code

    def point_at(self, new: Path) -> Path:
        """Make the config that of the recovered run; its output."""
        path = self.folder / "config.yml"
        config = yaml.safe_load(path.read_text())
        output = new / "outputs" / "data.jsonl"
        config["run_dir"] = str(new)
        config["datasets"]["data"]["output_path"] = str(output)
        path.write_text(yaml.safe_dump(config))
        return output

    def check_output(self, path: Path) -> None:
        """Every attempt has its line, once, and it is the right one."""
        lines = read_lines(path) if path.exists() else []
        if self.kind in UNNOTICED:
            expected = {line["id"]: _marker_of(line) for line in lines}
            expected = {name: expected.get(name, "") for name in self.wanted}
            found = [each for each in audit_lines(expected, lines) if each[1] != "mixed"]
        else:
            found = list(audit_lines(self.markers, lines))
            for line in lines:
                if comparable(line) != self.wanted.get(line["id"]):
                    found.append((line["id"], "changed", f"{line['id']} differs from the calm run"))
        for _, wrong, text in found:
            self.ledger.blame(self.kind, wrong, f"{self.folder.name}: {text}")

    def check_markers(self, path: Path) -> None:
        """Rows of a result belong to one conversation each."""
        if self.kind in UNNOTICED:
            return
        for row in path.read_text().splitlines():
            markers = set(re.findall(r"mk-[0-9a-f]{16}", row))
            if len(markers) > 1 or not markers <= set(self.markers.values()):
                self.ledger.blame(self.kind, "mixed", f"{self.folder.name}: a row of {path.name} has {markers}")


def _is_fit(command: str, code: int, said: str) -> bool:
    """Whether a command may end like this: it worked, left out lines and named them, or named the damage."""
    if code == 1:
        return command != "run" and NAMED in said
    return code == 0 or (code == 2 and SAID.search(said) is not None)


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _marker_of(line: dict[str, Any]) -> str:
    found = re.findall(r"mk-[0-9a-f]{16}", json.dumps(line))
    return str(found[0]) if found else ""


def _forked(words: tuple[str, ...], folder: Path, said: Path) -> int | None:
    pid = os.fork()
    if pid == 0:
        _be_command(words, folder, said)
    waiting = os.pidfd_open(pid)
    has_ended, _, _ = select.select([waiting], [], [], DEADLINE)
    os.close(waiting)
    if not has_ended:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) if has_ended else None


def _be_command(words: tuple[str, ...], folder: Path, said: Path) -> None:
    """Never returns."""
    code = 99
    try:
        os.chdir(folder)
        file = os.open(said, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        main([*words])
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _treat(base: Path, folder: Path, kind: str, seed: int, wanted: dict[str, Any]) -> Ledger:
    return Patient(base, folder, kind, seed, wanted).treat()


def run_part(folder: Path, scale: float, seed: int) -> Ledger:
    """A whole run and half of one; copies of the half one are damaged, two at a time."""
    ledger = Ledger(PART)
    names = [one.marker for one in make_conversations([""] * TASKS, seed)]
    make_run(folder / "whole", names=names)
    make_run(folder / "half", names=names, unfinished=True)
    wanted = {line["id"]: comparable(line) for line in read_lines(folder / "whole" / "out.jsonl")}
    jobs = [
        (folder / "half", folder / f"{kind.replace(' ', '-')}-{number}", kind, seed * 1000 + number, wanted)
        for kind in DAMAGES
        for number in range(max(2, round(EACH * scale)))
    ]
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as processes:
        for done in processes.map(_treat, *zip(*jobs, strict=True)):
            ledger.add(done)
    return ledger
