"""Browsers, and processes of browsers, that are killed and stopped under episodes on a shipped site.

Every episode searches the shop for its own marker, which the page repeats, and answers with it. A lost context is
brought back by replaying its calls, so every line must be that of the calm run. An episode whose browser is lost too
often fails, and the resume that ends each run makes it again.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from rollout.testing import StubProcess
from tests.faults.accounting import Ledger
from tests.faults.processes import Missed, below, command_line, is_stopped, strike, wait_until
from tests.faults.runs import DEADLINE, Run, agent_script, end_of, make_conversations

PART = "browsers"
STRIKES = 21
"""Of each kind."""
CONVERSATIONS = 150
ROUNDS = 10
"""Runs, at most, until there were enough strikes."""
CALLS = tuple(
    {"name": "navigate", "arguments": {"url": f"http://shop.test/search?q={{opening}}+{word}"}}
    for word in ("tea", "bowl", "kettle")
)
FINAL = {"name": "answer", "arguments": {"text": "{opening}"}}
KINDS: dict[str, tuple[signal.Signals, str]] = {
    "browser SIGKILL": (signal.SIGKILL, "--remote-debugging-pipe"),
    "browser SIGSTOP": (signal.SIGSTOP, "--remote-debugging-pipe"),
    "renderer SIGKILL": (signal.SIGKILL, "--type=renderer"),
    "renderer SIGSTOP": (signal.SIGSTOP, "--type=renderer"),
    "network process SIGKILL": (signal.SIGKILL, "--utility-sub-type=network.mojom.NetworkService"),
}
"""The signal, and the argument by which the process is known."""
SETTINGS: dict[str, Any] = {
    "dataset": {
        "web": {"sites": ["shop"], "mode": "text", "step_timeout": 15, "open_timeout": 30, "load_timeout": 5},
        "max_steps_per_turn": 10,
    },
    "task_info": {"website": "http://shop.test/"},
    "browsers": {"max_contexts": 6, "contexts_per_browser": 2},
    "max_workers": 6,
}


class Campaign:
    """Runs in browsers, and the strikes that are still due."""

    def __init__(self, stub: StubProcess, ledger: Ledger, scale: float, seed: int) -> None:
        self.stub, self.ledger = stub, ledger
        self.chance = random.Random(seed)
        self.seed = seed
        self.count = max(30, round(CONVERSATIONS * scale))
        self.due = [kind for kind in KINDS for _ in range(max(1, round(STRIKES * scale)))]
        self.chance.shuffle(self.due)

    def play(self, folder: Path, number: int) -> None:
        """One run, struck until it is over or nothing more is due."""
        conversations = make_conversations([""] * self.count, self.seed * 100 + number)
        calm = Run(folder / "calm", conversations, self.stub.url, **SETTINGS)
        first, *others = KINDS
        calm.finish(self.ledger, first)
        self.stub.reset()
        run = Run(folder / "struck", conversations, self.stub.url, **SETTINGS)
        child = run.start()
        while self.due and child.poll() is None:
            self._strike_next(child.pid, lambda: child.poll() is not None)
        # An episode that lost its browser too often fails as infrastructure, and is made again.
        if end_of(child, self.ledger, first, DEADLINE) not in (0, 1, None):
            self.ledger.blame(first, "unfit", f"a run ended badly: {run.said()[-500:]}")
        run.finish(self.ledger, first)
        wanted = calm.by_id()
        run.audit(self.ledger, lambda one: first, calm=wanted, is_compared=_is_untouched)
        for line in run.lines():
            if not _is_untouched(line) and line["metadata"]["status"] != "completed":
                self.ledger.blame(first, "changed", f"{line['id']} ended as {line['metadata']['stop_reason']}")
        for kind in others:
            self.ledger.expose(kind, len(conversations))

    def _strike_next(self, pid: int, has_ended: Callable[[], bool]) -> None:
        """Wait until the run goes on, and strike a process of a browser."""
        kind = self.due[-1]
        number, argument = KINDS[kind]
        target = self.stub.stats().requests + self.chance.randint(2, 8)
        victims: list[psutil.Process] = []

        def is_due() -> bool:
            if has_ended():
                return True
            if self.stub.stats().requests < target:
                return False
            victims[:] = _processes(pid, argument)
            return bool(victims)

        try:
            wait_until(is_due, DEADLINE, kind)
        except Missed as missed:
            self.ledger.blame(kind, "hung", str(missed))
            self.due.pop()
            return
        has_work = self.stub.stats().distinct < (len(CALLS) + 1) * self.count
        if victims and has_work and strike(self.chance.choice(victims), number):
            self.ledger.inject(kind)
            self.due.pop()


def _processes(pid: int, argument: str) -> list[psutil.Process]:
    """The live processes of browsers below a run that have an argument. A browser itself has no type."""
    found = []
    for process in below(pid):
        arguments = command_line(process)
        is_part = any(each.startswith("--type=") for each in arguments)
        is_meant = argument in arguments and argument.startswith(("--type", "--utility")) == is_part
        if is_meant and not is_stopped(process):
            found.append(process)
    return found


def _is_untouched(line: dict[str, Any]) -> bool:
    return not line["metadata"]["tool_errors"]


def run_part(folder: Path, scale: float, seed: int) -> Ledger:
    """Runs until there were enough strikes of each kind."""
    ledger = Ledger(PART)
    with StubProcess(agent_script(*CALLS, FINAL, latency=0.1)) as stub:
        campaign = Campaign(stub, ledger, scale, seed)
        for number in range(ROUNDS):
            if campaign.due:
                campaign.play(folder / str(number), number)
    return ledger
