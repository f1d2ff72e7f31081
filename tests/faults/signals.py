"""Signals at every phase of a run: each life of a run is ended seven times, resumed, and then audited.

The phases follow events that can be seen from outside: CPU time that the process has used (start-up), the change of
`run.json` (planning, resuming), requests at the model server (first requests, middle), all of them answered (ending).
A signal counts if the process was alive, had work left, and ended by it.
"""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import psutil

from rollout.testing import StubProcess
from tests.faults.accounting import Ledger
from tests.faults.processes import Missed, wait_until
from tests.faults.runs import DEADLINE, NOTE, PEEK, Conversation, Run, agent_script, end_of, make_conversations

PART = "signals"
LIVES = 21
"""Runs for each signal, each of which gets it in every phase."""
CONVERSATIONS = 60
SCRIPT = agent_script(NOTE, PEEK, NOTE, latency=0.02)
REQUESTS = 4
"""Of one conversation."""
TRIES, MORE = 4, 16
"""How often a phase is tried, and the conversations that are added for each further try."""
MOST_LIVE = 32
"""Requests that may be under way when a signal comes."""
SIGNAL_DEADLINE = 60.0
"""Seconds for a command that got a signal: the grace, two more, and what a busy machine adds."""
PHASES = ("start-up", "planning", "first requests", "middle", "resuming", "second signal", "ending")
CODES = {signal.SIGKILL: (-9,), signal.SIGINT: (130, -2), signal.SIGTERM: (143, -15)}
"""Before the command's first line the interpreter itself answers a signal."""


class Life:
    """One run that gets the same signal in each phase."""

    def __init__(self, folder: Path, number: signal.Signals, seed: int, calm: Calm) -> None:
        self.ledger = Ledger(PART)
        self.number = number
        self.kind = ""
        self.chance = random.Random(seed)
        self.folder = folder
        self.calm = calm

    def live(self) -> Ledger:
        with StubProcess(SCRIPT) as stub:
            self.stub = stub
            self.run = Run(self.folder, self.calm.conversations, stub.url)
            for phase in PHASES:
                self.kind = f"{self.number.name}, {phase}"
                self._disturb(phase)
            self.run.finish(self.ledger, self.kind)
        # What is lost cannot be laid at the door of one phase: it is noted under the last.
        self.run.audit(
            self.ledger,
            lambda one: self.kind,
            calm=self.calm.lines,
            is_compared=lambda line: line["id"] in self.calm.lines,
        )
        for phase in PHASES[:-1]:
            self.ledger.expose(f"{self.number.name}, {phase}", len(self.run.conversations))
        return self.ledger

    def _disturb(self, phase: str) -> None:
        """Strike in a phase. A run that was quicker than we are gets more to do, and is struck again."""
        for _ in range(TRIES):
            if self._strike(phase):
                return
            self.run.write_tasks(make_conversations(["more"] * MORE, 0, first=len(self.run.conversations)))

    def _strike(self, phase: str) -> bool:
        """Start, wait for the phase, and send the signal. Whether it ended the command."""
        before = self.stub.stats().requests
        changed = _modified(self.run)
        child = self.run.start()
        needed = REQUESTS * len(self.run.conversations)
        target = before + self.chance.randint(16, CONVERSATIONS // 2)
        used = self.chance.uniform(0, self.calm.startup)
        due: dict[str, Callable[[], bool]] = {
            "start-up": lambda: _cpu(child) >= used,
            "planning": lambda: _modified(self.run) != changed,
            "resuming": lambda: _modified(self.run) != changed,
            "first requests": lambda: self.stub.stats().requests > before,
            "middle": lambda: self.stub.stats().requests >= target,
            "second signal": lambda: self.stub.stats().requests >= target,
            "ending": lambda: self._answered() >= needed,
        }
        self._wait(child, due[phase])
        has_work = phase == "ending" or self._answered() < needed
        if phase == "second signal":
            # The first one is always a polite one: it pauses the run. The second ends it at once.
            self._send_first(child)
        return self._send(child, has_work=has_work)

    def _wait(self, child: subprocess.Popen[bytes], is_due: Callable[[], bool]) -> None:
        try:
            wait_until(lambda: child.poll() is not None or is_due(), DEADLINE, self.kind)
        except Missed as missed:
            self.ledger.blame(self.kind, "hung", str(missed))

    def _send_first(self, child: subprocess.Popen[bytes]) -> None:
        child.send_signal(signal.SIGTERM if self.number == signal.SIGKILL else self.number)
        with contextlib.suppress(Missed):
            wait_until(lambda: child.poll() is not None or "SIG" in self.run.said(), SIGNAL_DEADLINE, "acknowledgement")

    def _send(self, child: subprocess.Popen[bytes], *, has_work: bool) -> bool:
        """Send the signal; whether it is what ended the command, in time."""
        was_alive = child.poll() is None
        asked = self.stub.stats().requests
        if was_alive:
            child.send_signal(self.number)
        code = end_of(child, self.ledger, self.kind, SIGNAL_DEADLINE if was_alive else DEADLINE)
        if code is not None and code not in (0, *CODES[self.number]):
            self.ledger.blame(self.kind, "unfit", f"ended with {code}: {self.run.said()[-500:]}")
        more = self.stub.stats().requests - asked
        if was_alive and code == 0 and more > MOST_LIVE:
            self.ledger.blame(self.kind, "unfit", f"went on for {more} requests: {self.run.said()[-500:]}")
        if was_alive and has_work and code in CODES[self.number]:
            self.ledger.inject(self.kind)
            return True
        return False

    def _answered(self) -> int:
        return self.stub.stats().distinct


class Calm(msgspec.Struct, frozen=True):
    """What the undisturbed run gave."""

    conversations: list[Conversation]
    lines: dict[str, Any]
    startup: float
    """CPU seconds that a start takes until it plans."""


def run_calm(folder: Path, seed: int, ledger: Ledger) -> Calm:
    conversations = make_conversations(["signals"] * CONVERSATIONS, seed)
    with StubProcess(SCRIPT) as stub:
        run = Run(folder, conversations, stub.url)
        child = run.start()
        wait_until(lambda: _modified(run) > 0 or child.poll() is not None, DEADLINE, "run.json")
        startup = _cpu(child)
        end_of(child, ledger, PHASES[0], DEADLINE)
    return Calm(conversations, run.by_id(), startup)


def _cpu(child: subprocess.Popen[bytes]) -> float:
    try:
        times = psutil.Process(child.pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _modified(run: Run) -> int:
    path = run.out / "run" / "run.json"
    return path.stat().st_mtime_ns if path.exists() else 0


def run_part(folder: Path, scale: float, seed: int) -> Ledger:
    """Lives for each signal, two at a time."""
    ledger = Ledger(PART)
    calm = run_calm(folder / "calm", seed, ledger)
    lives = [
        Life(folder / f"{number.name}-{life}", number, seed * 1000 + life * 10 + place, calm)
        for life in range(max(1, round(LIVES * scale)))
        for place, number in enumerate(CODES)
    ]
    with ThreadPoolExecutor(2) as threads:
        for one in threads.map(Life.live, lives):
            ledger.add(one)
    return ledger
