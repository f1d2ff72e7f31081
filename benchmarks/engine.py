"""What the engine costs: CPU for a rollout of 4 generations and 3 tool calls, against a bare aiohttp client.

Both sides talk to the same stub server (50 ms latency) in the same run; each measurement is a process of its own.
Printed are CPU milliseconds for a rollout (user + system, all threads), rollouts a second, event-loop lag and memory.

    python benchmarks/engine.py                    # the table: 128 and 1,000 live
    python benchmarks/engine.py --rollouts 4000    # more of the same
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rollout.testing import StubProcess

ANSWER = "row " * 45
SCRIPT = {"latency": 0.05}


async def lookup(query: str) -> str:
    """Look something up."""
    return ANSWER


class Meter:
    """CPU, wall time and event-loop lag between `start` and `stop`. Lag: how late a timer of 10 ms fires."""

    def __init__(self) -> None:
        self.lags: list[float] = []

    def start(self) -> None:
        self.cpu, self.wall = time.process_time(), time.perf_counter()
        self._watcher = asyncio.get_running_loop().create_task(self._watch())

    def stop(self) -> None:
        self._watcher.cancel()
        self.cpu, self.wall = time.process_time() - self.cpu, time.perf_counter() - self.wall

    def lag_p99(self) -> float:
        ordered = sorted(self.lags)
        return ordered[int(len(ordered) * 0.99)] * 1000 if ordered else 0.0

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + 0.01
            await asyncio.sleep(0.01)
            self.lags.append(loop.time() - due)


def tasks_file(folder: Path, count: int) -> Path:
    path = folder / "tasks.jsonl"
    with path.open("w") as file:
        for index in range(count):
            message = {"role": "user", "content": f"Question number {index}: please look it up for me."}
            file.write(json.dumps({"id": f"t{index:06}", "messages": [message]}) + "\n")
    return path


def stub_config(url: str, folder: Path, live: int, rollouts: int) -> dict[str, Any]:
    """So many rollouts against a stub server, so many at once."""
    return {
        "max_workers": live,
        "enable_monitor": False,
        "models": {"stub": {"api_base": url}},
        "datasets": {
            "bench": {
                "path": tasks_file(folder, rollouts),
                "output_path": folder / "out.jsonl",
                "tools": ["benchmarks.engine:lookup"],
                "agent": {"model": "stub"},
            }
        },
    }


async def run_engine(url: str, live: int, rollouts: int, meter: Meter) -> None:
    from rollout.config.schema import Config
    from rollout.pipelines.run import open_run

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = Config.model_validate(stub_config(url, folder, live, rollouts))
        async with open_run(config, folder / "run", resume=False) as opened:
            meter.start()
            await opened.engine.run()
        meter.stop()
        assert opened.summary is not None
        total = opened.summary.total
        assert total.finished == rollouts, total
        assert total.generations == rollouts * 4, total


async def run_bare(url: str, live: int, rollouts: int, meter: Meter) -> None:
    """The same requests and answers with nothing around them: no tree, no journal, no checks."""
    import aiohttp
    import msgspec

    from rollout.core.tools import spec_of

    tools = [spec_of(lookup).to_json()]
    numbers = iter(range(rollouts))

    async def worker(session: aiohttp.ClientSession) -> None:
        for index in numbers:
            messages = [{"role": "user", "content": f"Question number {index}: please look it up for me."}]
            while True:
                body = msgspec.json.encode({"model": "stub", "messages": messages, "tools": tools, "temperature": 0.7})
                async with session.post(f"{url}/chat/completions", data=body) as answer:
                    message = msgspec.json.decode(await answer.read())["choices"][0]["message"]
                messages.append(message)
                if not message.get("tool_calls"):
                    break
                for call in message["tool_calls"]:
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": ANSWER})

    meter.start()
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(live):
            group.create_task(worker(session))
    meter.stop()


async def measured(mode: str, url: str, live: int, rollouts: int) -> dict[str, float]:
    meter = Meter()
    await {"engine": run_engine, "bare": run_bare}[mode](url, live, rollouts, meter)
    return {
        "cpu_ms": meter.cpu / rollouts * 1000,
        "per_second": rollouts / meter.wall,
        "lag_p99_ms": meter.lag_p99(),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def one(mode: str, url: str, live: int, rollouts: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.engine", "--one", mode, "--url", url]
    command += ["--live", str(live), "--rollouts", str(rollouts)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=5000)
    parser.add_argument("--live", type=int, default=0)
    parser.add_argument("--one", choices=["engine", "bare"])
    parser.add_argument("--url")
    options = parser.parse_args()
    if options.one:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            print(json.dumps(runner.run(measured(options.one, options.url, options.live, options.rollouts))))
        return
    print(f"{'':24}{'CPU ms/rollout':>16}{'rollouts/s':>12}{'lag p99 ms':>12}{'RSS MB':>9}")
    results = {}
    with StubProcess(SCRIPT) as stub:
        for live in [options.live] if options.live else [128, 1000]:
            for mode in ("bare", "engine"):
                found = results[mode, live] = one(mode, stub.url, live, options.rollouts)
                label = f"{'bare aiohttp' if mode == 'bare' else 'rollout'}, {live} live"
                print(
                    f"{label:24}{found['cpu_ms']:16.2f}{found['per_second']:12.0f}"
                    f"{found['lag_p99_ms']:12.1f}{found['rss_mb']:9.0f}"
                )
    if ("engine", 1000) in results:
        few, many = results["engine", 128], results["engine", 1000]
        print(f"1,000 live against 128: {many['cpu_ms'] / few['cpu_ms']:.2f}× the CPU for a rollout")
        for live in (128, 1000):
            ratio = results["engine", live]["lag_p99_ms"] / max(1e-9, results["bare", live]["lag_p99_ms"])
            print(f"{live} live: loop lag p99 {ratio:.2f}× the bare client's")


if __name__ == "__main__":
    main()
