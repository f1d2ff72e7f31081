"""What the closed sandbox of mock servers costs: a tool call, the opening of a world, the start of a process.

The same domain and the same worlds in four ways: in this process; in worker processes that give up nothing; in worker
processes with the layers that are not about system calls (resource limits, namespaces, Landlock, the audit hook); and
in the closed ones that a run uses. The ways take turns in every round, so that other work on the machine meets them
alike, and each figure is the median of its rounds. A start is everything from the fork of the template to servers that
are loaded; the new interpreter, which every process was before there was a template, is measured beside it.

    python -m benchmarks.isolation
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.worlds import calls_per_second, lay_out
from rollout.core.task import Task
from rollout.environments.domains.domain import Domain, load_domain
from rollout.environments.domains.mock import MockWorld, ServersInProcess
from rollout.environments.domains.worker_template import Template
from rollout.environments.domains.workers import WorkerPool, WorkerWorld

ROUNDS = 9
LIVE = 32
MAIN = "from rollout.environments.domains import sandbox, worker_main as main; {}; main.main()"
OPEN = ("-c", MAIN.format("main.give_up_rights = lambda reach, memory: {}"))
LAYERS = (
    "-c",
    MAIN.format("sandbox.allow_only_the_interpreter = sandbox._drop_capabilities = lambda libc: True"),
)


async def open_ms(make: Callable[[], Any]) -> float:
    """Milliseconds to open and close a world, of as many at once as are live."""

    async def one() -> None:
        world = make()
        await world.open(Task("bench"), 1)
        await world.close()

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(LIVE)))
    return (time.perf_counter() - started) / LIVE * 1e3


async def start_ms(domain: Domain, pool: WorkerPool) -> float:
    """Milliseconds until another process of a domain has loaded its servers."""
    started = time.perf_counter()
    process = await pool._start(domain)
    seconds = time.perf_counter() - started
    process.retire()
    return seconds * 1e3


def interpreter_ms() -> float:
    """Milliseconds for a new interpreter that has imported what a worker needs."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", "import rollout.environments.domains.worker_main"], check=True)
    return (time.perf_counter() - started) * 1e3


async def measure(base: Path) -> None:
    domain = load_domain(base, "Bench", [])
    servers = ServersInProcess(domain)
    ways: dict[str, tuple[WorkerPool | None, Callable[[], Any]]] = {
        "in this process": (None, lambda: MockWorld(servers))
    }
    for label, program in (("worker, open", OPEN), ("worker, without seccomp", LAYERS), ("worker, closed", None)):
        pool = WorkerPool()
        number = pool.add(domain)
        before, Template.program = Template.program, program or Template.program
        await pool.problem(number)
        Template.program = before
        ways[label] = (pool, lambda pool=pool, number=number: WorkerWorld(pool, domain, number))  # type: ignore[misc]
    seen: dict[str, list[tuple[float, float, float]]] = {label: [] for label in ways}
    new: list[float] = []
    for _ in range(ROUNDS):
        for label, (pool_, make) in ways.items():
            started = await start_ms(domain, pool_) if pool_ is not None else 0.0
            seen[label].append((1e6 / await calls_per_second(make), await open_ms(make), started))
        new.append(interpreter_ms())
    print(f"{'':26}{'call µs':>10}{'beside open':>13}{'opening ms':>12}{'beside open':>13}{'start ms':>10}")
    base_call, base_open, _ = (statistics.median(column) for column in zip(*seen["worker, open"], strict=True))
    for label, rounds in seen.items():
        call, opening, start = (statistics.median(column) for column in zip(*rounds, strict=True))
        row = f"{label:26}{call:10.1f}{call / base_call:12.2f}×{opening:12.2f}{opening / base_open:12.2f}×"
        print(row + (f"{start:10.1f}" if start else f"{'–':>10}"))
    print(f"{'a new interpreter':26}{'':48}{statistics.median(new):10.1f}")
    for pool_, _ in ways.values():
        if pool_ is not None:
            await pool_.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder))
        uvloop.run(measure(Path(folder)))


if __name__ == "__main__":
    main()
