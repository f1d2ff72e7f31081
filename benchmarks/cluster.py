"""What a cluster costs and gives: the same rollouts in one process, and on 1, 2 and 4 workers of a Ray on this machine.

The stub server answers after 200 ms; each worker has 32 episodes at once, so twice the workers should take half the
time. Printed are wall time, and CPU of the driver and of the workers for 1,000 generations.

How many workers one driver can feed depends on how it hears of generations: a parcel costs it something, and each
generation in a parcel something more. The last row has 4 workers with 2 episodes each, whose parcels are small; the two
costs follow from it and from the row before.

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import uvloop

from benchmarks.engine import stub_config
from rollout.config.schema import Config
from rollout.pipelines.run import open_run
from rollout.testing import StubProcess

LATENCY = 0.2
LIVE, FEW = 32, 2
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


@contextlib.contextmanager
def counted_parcels() -> Iterator[list[int]]:
    """Count in the first entry of a list what workers send."""
    from rollout.distributed.ray_nodes import RayLink

    count, receive = [0], RayLink.next

    async def counting(link: RayLink, told: bytes) -> bytes:
        count[0] += 1
        return await receive(link, told)

    RayLink.next = counting  # type: ignore[method-assign]
    try:
        yield count
    finally:
        RayLink.next = receive  # type: ignore[method-assign]


async def measured(url: str, workers: int, live: int, rollouts: int) -> dict[str, float]:
    """The figures of one run; 0 workers: everything in this process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config: dict[str, Any] = stub_config(url, folder, live * max(1, workers), rollouts)
        if workers:
            config["cluster"] = {"address": "local", "workers": workers}
        counting = counted_parcels() if workers else contextlib.nullcontext([0])
        async with open_run(Config.model_validate(config), folder / "run", resume=False) as opened:
            far, near, begun = worker_cpu(), time.process_time(), time.perf_counter()
            with counting as parcels:
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
        "parcels": parcels[0] / thousands,
    }


def one(url: str, workers: int, live: int, rollouts: int) -> dict[str, float]:
    given = {"url": url, "workers": workers, "live": live, "rollouts": rollouts}
    command = [sys.executable, "-m", "benchmarks.cluster", *(f"--{name}={value}" for name, value in given.items())]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=1200)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--live", type=int)
    parser.add_argument("--url")
    options = parser.parse_args()
    if options.url:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            print(json.dumps(runner.run(measured(options.url, options.workers, options.live, options.rollouts))))
        return
    print(f"{'':24}{'wall s':>8}{'against 1':>11}{'generations/s':>15}{'for 1,000 generations, CPU ms':>34}")
    print(f"{'':58}{'driver':>10}{'workers':>10}{'sum':>8}{'parcels':>10}")
    results = {}
    with StubProcess({"latency": LATENCY}) as stub:
        for workers, live in ((0, LIVE), (1, LIVE), (2, LIVE), (4, LIVE), (4, FEW)):
            rollouts = options.rollouts if live == LIVE else options.rollouts // 6
            found = results[workers, live] = one(stub.url, workers, live, rollouts)
            is_scaled = workers and live == LIVE
            speed = f"{results[1, LIVE]['wall'] / found['wall']:.2f}×" if is_scaled else "–"
            label = f"{workers} worker{'s' if workers > 1 else ''}, {live} live each" if workers else "one process"
            print(
                f"{label:24}{found['wall']:8.1f}{speed:>11}{found['per_second']:15.0f}{found['driver']:19.0f}"
                f"{found['workers']:10.0f}{found['driver'] + found['workers']:8.0f}{found['parcels']:10.0f}"
            )
    single = results[0, LIVE]["driver"]
    for workers in (1, 2, 4):
        found = results[workers, LIVE]
        total = found["driver"] + found["workers"]
        print(f"{workers}: {total / single:.2f}× the CPU of one process for a generation")
    large, small = results[4, LIVE], results[4, FEW]
    parcel = (small["driver"] - large["driver"]) / (small["parcels"] - large["parcels"])
    generation = (large["driver"] - parcel * large["parcels"]) / 1000
    print(f"the driver's CPU: {parcel:.2f} ms for a parcel, {generation:.3f} ms more for each generation in it")


if __name__ == "__main__":
    main()
