"""What a cluster costs and gives: the same rollouts in one process, and on 1, 2 and 4 workers of a Ray on this machine.

The stub server answers after 200 ms; each worker has 32 episodes at once, so twice the workers should take half the
time. Printed are wall time, CPU of the driver and of the workers for 1,000 generations, and from that how many workers
one driver can feed: a core of it, divided by what one worker asks of it in a second.

    python -m benchmarks.cluster
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import uvloop

from benchmarks.engine import stub_config
from rollout.config.schema import Config
from rollout.engine.run import open_run
from rollout.models.stub import StubProcess

LATENCY = 0.2
LIVE = 32
"""Episodes of one worker at once."""
GENERATIONS = 4
"""Of one rollout."""


def worker_cpu() -> float:
    """CPU seconds of all workers so far."""
    total = 0.0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name().startswith("ray::_Actor"):
                times = process.cpu_times()
                total += times.user + times.system
    return total


async def measured(url: str, workers: int, rollouts: int) -> dict[str, float]:
    """The figures of one run; 0 workers: everything in this process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config: dict[str, Any] = stub_config(url, folder, LIVE * max(1, workers), rollouts)
        if workers:
            config["cluster"] = {"address": "local", "workers": workers}
        async with open_run(Config.model_validate(config), folder / "run", resume=False) as opened:
            far, near, begun = worker_cpu(), time.process_time(), time.perf_counter()
            await opened.engine.run()
            wall = time.perf_counter() - begun
            near, far = time.process_time() - near, worker_cpu() - far
        assert opened.summary is not None
        assert opened.summary.total.generations == rollouts * GENERATIONS, opened.summary.total
    thousands = rollouts * GENERATIONS / 1000
    return {
        "wall": wall,
        "per_second": rollouts * GENERATIONS / wall,
        "driver": near / thousands * 1000,
        "workers": far / thousands * 1000,
    }


def one(url: str, workers: int, rollouts: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.cluster", "--url", url, "--workers", str(workers)]
    done = subprocess.run([*command, "--rollouts", str(rollouts)], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=1200)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--url")
    options = parser.parse_args()
    if options.url:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            print(json.dumps(runner.run(measured(options.url, options.workers, options.rollouts))))
        return
    print(f"{'':16}{'wall s':>8}{'against 1':>11}{'generations/s':>15}{'CPU ms for 1,000 generations':>34}")
    print(f"{'':50}{'driver':>12}{'workers':>12}{'sum':>10}")
    results = {}
    with StubProcess({"latency": LATENCY}) as stub:
        for workers in (0, 1, 2, 4):
            found = results[workers] = one(stub.url, workers, options.rollouts)
            speed = results[1]["wall"] / found["wall"] if workers else 0.0
            label = f"{workers} worker{'s' if workers > 1 else ''}" if workers else "one process"
            print(
                f"{label:16}{found['wall']:8.1f}{f'{speed:.2f}×' if workers else '–':>11}{found['per_second']:15.0f}"
                f"{found['driver']:21.0f}{found['workers']:12.0f}{found['driver'] + found['workers']:10.0f}"
            )
    single, four = results[0], results[4]
    sums = {workers: found["driver"] + found["workers"] for workers, found in results.items()}
    for workers in (1, 2, 4):
        print(f"{workers}: {sums[workers] / sums[0]:.2f}× the CPU of one process for a generation")
    rate = LIVE / LATENCY
    fed = 1e6 / four["driver"] / rate
    print(
        f"a driver's core handles {1e6 / four['driver']:,.0f} generations/s; a worker with {LIVE} episodes and answers "
        f"after {LATENCY} s makes {rate:.0f}: {fed:.0f} such workers, or {1e6 / four['driver'] * 10:,.0f} live "
        "episodes with answers after 10 s"
    )
    print(f"one process alone: {single['driver']:.0f} ms for 1,000 generations")


if __name__ == "__main__":
    main()
