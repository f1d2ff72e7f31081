"""Disks that are full or broken under the journal, the output and the blobs of a run; then there is room again.

A library between the command and the system (`failing_disk.c`) lets writes to chosen files fail, a limit on the size of
files does so without a compiler, and where we may mount one, a small file system is really full. The command must end
with 2 and an error that names a file; a resume on a sound disk must bring every line.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from rollout.testing import StubProcess
from tests.faults.accounting import Ledger
from tests.faults.runs import DEADLINE, NOTE, PEEK, Run, agent_script, end_of, make_conversations

PART = "disk"
INCIDENTS = 22
CONVERSATIONS = 700
FEW = 20
"""Conversations of a run that has one incident only: blobs are written when a run begins."""
FILES = {"journal": "journal.db", "output": "/out.jsonl", "blobs": "/blobs/"}
LATEST = {"journal": 600, "output": 20}
"""The write, at most, from which on all of them fail. Early ones are as likely as late ones by order of magnitude."""
ERRORS = {"full": errno.ENOSPC, "I/O error": errno.EIO}
MEGABYTE = 1 << 20
SCRIPT = agent_script(NOTE, PEEK, NOTE)


class Disk:
    """The incidents of one kind."""

    def __init__(self, folder: Path, kind: str, seed: int, scale: float, calm: dict[str, Any]) -> None:
        self.ledger = Ledger(PART)
        self.ledger.inject(kind, 0)
        self.folder, self.kind, self.calm = folder, kind, calm
        self.seed = seed
        self.chance = random.Random(f"{seed}/{kind}")
        self.incidents = max(2, round(INCIDENTS * scale))
        self.conversations = make_conversations(["disk"] * max(60, round(CONVERSATIONS * scale)), seed)

    def fail_writes(self, library: Path, where: str, number: int) -> Ledger:
        """Let writes to one kind of file fail, each time from a random one on."""
        with StubProcess(SCRIPT) as stub:
            if where == "blobs":
                for incident in range(self.incidents):
                    run = Run(self.folder / f"{self.kind}-{incident}", self.conversations[:FEW], stub.url)
                    self._disturb(run, *self._failing(run, library, where, number, 1))
                    self._end(run)
            else:
                run = Run(self.folder / self.kind, self.conversations, stub.url)
                for _ in range(self.incidents):
                    first = round(LATEST[where] ** self.chance.random())
                    self._disturb(run, *self._failing(run, library, where, number, first))
                self._end(run)
        return self.ledger

    def limit_files(self) -> Ledger:
        """No file may grow beyond a size, which only lies a little above that of the largest one."""
        with StubProcess(SCRIPT) as stub:
            run = Run(self.folder / self.kind, self.conversations, stub.url)
            for _ in range(self.incidents):
                sizes = [path.stat().st_size for path in run.out.rglob("*") if path.is_file()]
                limit = max([*sizes, 40_000]) + self.chance.randint(0, 100_000)
                self._disturb(run, partial(_start_limited, run, limit), lambda: True)
            self._end(run)
        return self.ledger

    def fill(self, mount: Path) -> Ledger:
        """Fill a real file system, so that there is room for a little more."""
        with StubProcess(SCRIPT) as stub, _small_disk(mount):
            run = Run(mount / "run", self.conversations, stub.url, said=self.folder / "said")
            ballast = mount / "ballast"
            for _ in range(self.incidents):
                room = shutil.disk_usage(mount).free - self.chance.randint(4_000, 400_000)
                ballast.write_bytes(bytes(max(0, room)))
                self._disturb(run, run.start, lambda: True)
                ballast.unlink()
            self._end(run)
        return self.ledger

    def _failing(
        self, run: Run, library: Path, where: str, number: int, first: int
    ) -> tuple[Callable[[], subprocess.Popen[bytes]], Callable[[], bool]]:
        count = run.folder / "in" / "failures"
        count.unlink(missing_ok=True)
        environment = {
            "LD_PRELOAD": str(library),
            "FAILING_PATH": FILES[where],
            "FAILING_ERRNO": str(number),
            "FAILING_FIRST": str(first),
            "FAILING_COUNT": str(count),
        }
        return partial(run.start, **environment), count.exists

    def _disturb(self, run: Run, start: Callable[[], subprocess.Popen[bytes]], has_failed: Callable[[], bool]) -> None:
        """A start on the bad disk. It counts if a write failed, and the command has said so."""
        code = end_of(start(), self.ledger, self.kind, DEADLINE)
        if code == 2 and has_failed():
            self.ledger.inject(self.kind)
        if code not in (0, 2, None) or "is damaged" in run.said():
            self.ledger.blame(self.kind, "unfit", f"ended with {code}: {run.said()[-500:]}")
        elif code == 2 and "cannot be" not in run.said() and "disk" not in run.said():
            self.ledger.blame(self.kind, "unfit", f"names no file: {run.said()[-500:]}")

    def _end(self, run: Run) -> None:
        run.finish(self.ledger, self.kind)
        run.audit(self.ledger, lambda one: self.kind, calm=self.calm)


def _start_limited(run: Run, limit: int) -> subprocess.Popen[bytes]:
    child = run.start()
    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (limit, limit))
    return child


@contextlib.contextmanager
def _small_disk(mount: Path) -> Iterator[None]:
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(mount)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def _can_mount(mount: Path) -> bool:
    try:
        with _small_disk(mount):
            pass
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        with contextlib.suppress(OSError):
            mount.rmdir()
    return True


def build_library(folder: Path) -> Path | None:
    """The library that lets writes fail; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "failing_disk.so"
    source = Path(__file__).with_name("failing_disk.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def run_part(folder: Path, scale: float, seed: int) -> Ledger:
    """All kinds of which this machine is capable, two at a time."""
    ledger = Ledger(PART)
    conversations = make_conversations(["disk"] * max(60, round(CONVERSATIONS * scale)), seed)
    with StubProcess(SCRIPT) as stub:
        calm = Run(folder / "calm", conversations, stub.url)
        calm.finish(ledger, "file size limit")
    lines = calm.by_id()
    jobs = [Disk(folder, "file size limit", seed, scale, lines).limit_files]
    if (library := build_library(folder)) is not None:
        for where in FILES:
            for name, number in ERRORS.items():
                disk = Disk(folder, f"{where}: {name}".replace("/", ""), seed, scale, lines)
                jobs.append(partial(disk.fail_writes, library, where, number))
    if os.geteuid() == 0 and _can_mount(folder / "probe"):
        jobs.append(partial(Disk(folder, "full file system", seed, scale, lines).fill, folder / "disk"))
    with ThreadPoolExecutor(2) as threads:
        for done in threads.map(lambda job: job(), jobs):
            ledger.add(done)
    return ledger
