"""Worker processes of mock servers that are killed or stopped while conversations go on.

A worker serves many conversations. A call that it is busy with when it is struck is answered as an error, which the
model sees; every other conversation must come out as in the calm run.
"""

from __future__ import annotations

import contextlib
import random
import signal
from pathlib import Path
from typing import Any

import psutil

from rollout.testing import StubProcess
from tests.faults.accounting import Ledger
from tests.faults.processes import Missed, below, command_line, is_stopped, strike, wait_until
from tests.faults.runs import DEADLINE, NOTE, PEEK, PONDER, Run, agent_script, end_of, make_conversations

PART = "workers"
CONVERSATIONS = 2000
STRIKES = 40
CALLS = (NOTE, PEEK, PONDER, NOTE)
KINDS = {
    "SIGKILL": (signal.SIGKILL, False, "crash"),
    "SIGSTOP": (signal.SIGSTOP, False, "timeout"),
    "SIGKILL of the template": (signal.SIGKILL, True, "crash"),
}
"""The signal, whether the process that forks workers gets it, and the error that a call meets."""


def workers(pid: int, *, template: bool) -> list[psutil.Process]:
    """The workers of a run, or the process that forks them."""
    templates = [process for process in below(pid) if any("worker_main" in part for part in command_line(process))]
    parents = {process.pid for process in templates}
    return [process for process in templates if (_parent(process) not in parents) == template]


def _parent(process: psutil.Process) -> int | None:
    with contextlib.suppress(psutil.NoSuchProcess):
        return int(process.ppid())
    return None


def run_part(folder: Path, scale: float, seed: int) -> Ledger:
    """A calm run, then one for each kind of strike."""
    ledger = Ledger(PART)
    conversations = make_conversations(["workers"] * max(100, round(CONVERSATIONS * scale)), seed)
    settings: dict[str, Any] = {"mock_servers": {"processes": 4}, "timeouts": {"tool": 1.5, "grace": 3, "request": 10}}
    with StubProcess(agent_script(*CALLS, latency=0.05)) as stub:
        calm = Run(folder / "calm", conversations, stub.url, **settings)
        calm.finish(ledger, "calm")
        wanted = calm.by_id()
        for kind, (number, template, error) in KINDS.items():
            stub.reset()
            run = Run(folder / kind.replace(" ", "-"), conversations, stub.url, **settings)
            _strike_workers(run, stub, ledger, kind, number, template, round(STRIKES * scale), random.Random(seed))
            run.finish(ledger, kind)
            # A struck call is visible to the model: such lines have its error, and end as they should.
            run.audit(ledger, lambda one, kind=kind: kind, calm=wanted, is_compared=_is_untouched)  # type: ignore[misc]
            for line in run.lines():
                if not _is_untouched(line):
                    if set(line["metadata"]["tool_errors"]) != {error}:
                        text = f"{line['id']} has the errors {line['metadata']['tool_errors']}"
                        ledger.blame(kind, "changed", text)
                    if line["messages"][-1] != wanted[line["id"]]["messages"][-1]:
                        ledger.blame(kind, "changed", f"{line['id']} does not end as in the calm run")
    return ledger


def _is_untouched(line: dict[str, Any]) -> bool:
    return not line["metadata"]["tool_errors"]


def _strike_workers(
    run: Run,
    stub: StubProcess,
    ledger: Ledger,
    kind: str,
    number: signal.Signals,
    template: bool,
    strikes: int,
    chance: random.Random,
) -> None:
    """Strike a worker at a random moment of each share of the run."""
    needed = (len(CALLS) + 1) * len(run.conversations)
    child = run.start()
    for strike_number in range(strikes):
        due = round((strike_number + chance.random()) * needed / (strikes + 1))

        def is_due(due: int = due) -> bool:
            return child.poll() is not None or stub.stats().distinct >= due

        try:
            wait_until(is_due, DEADLINE, f"request {due}")
            wait_until(lambda: child.poll() is not None or bool(_victims(child.pid, template)), DEADLINE, "a worker")
        except Missed as missed:
            ledger.blame(kind, "hung", str(missed))
            break
        victims = _victims(child.pid, template)
        if victims and stub.stats().distinct < needed and strike(chance.choice(victims), number):
            ledger.inject(kind)
    code = end_of(child, ledger, kind, DEADLINE)
    # A conversation that cannot be opened on a stopped worker fails as infrastructure, and is made again on resume.
    if code not in (0, 1, None):
        ledger.blame(kind, "unfit", f"ended with {code}: {run.said()[-500:]}")


def _victims(pid: int, template: bool) -> list[psutil.Process]:
    return [process for process in workers(pid, template=template) if not is_stopped(process)]
