"""What a tool call costs through a mock world, here and in a worker process, and what a world with a large state costs.

The domain is made for the occasion and written as AgentSkiller's servers are: `json.load`, `copy.deepcopy` for a
session, a scan over a table in a call. Its database is 3 MB in ten tables. A fork is a new world that becomes a
snapshot. All of it happens in 32 worlds at once, as in a run: alone, a round trip between processes is mostly
waiting to be woken.

    python -m benchmarks.worlds
"""

from __future__ import annotations

import asyncio
import copy
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from rollout.core.task import Task
from rollout.core.world import Invocation
from rollout.environments.domains.domain import load_domain
from rollout.environments.domains.mock import MockWorld, ServersInProcess
from rollout.environments.domains.workers import WorkerPool, WorkerWorld

LIVE = 32
CALLS = 400
ROUNDS = 20
TABLES, ROWS = 10, 1000
SERVER = """
import copy
import json
from pathlib import Path


class Session:
    def __init__(self, tables):
        self.databases = tables


class BenchServer:
    is_quick = True
    isolates_sessions = True

    def __init__(self, domain_name):
        folder = Path(__file__).parent.parent / "database" / "outputs" / "entities"
        self.tables = {}
        for path in sorted(folder.iterdir()):
            with path.open() as file:
                self.tables[path.stem] = json.load(file)
        self.sessions = {}

    def _get_session(self, session_id):
        if session_id not in self.sessions:
            self.sessions[session_id] = Session(copy.deepcopy(self.tables))
        return self.sessions[session_id]

    def close_session(self, session_id):
        self.sessions.pop(session_id, None)

    def invoke(self, session_id, tool_name, table, row, status=None):
        rows = self._get_session(session_id).databases[table]
        found = next(entry for entry in rows if entry["row_id"] == row)
        if status is not None:
            found["status"] = status
        return found
"""


def lay_out(base: Path) -> int:
    """Write the domain; returns the bytes of its database."""
    for folder in ("mcp_servers", "tool_lists", "database/outputs/entities", "database/outputs/relationships/Bench"):
        (base / folder).mkdir(parents=True)
    (base / "mcp_servers" / "Bench.py").write_text(SERVER)
    properties = {"table": {"type": "string"}, "row": {"type": "integer"}, "status": {"type": "string"}}
    function = {"name": "touch", "parameters": {"type": "object", "properties": properties}}
    (base / "tool_lists" / "Bench.json").write_text(json.dumps([{"type": "function", "function": function}]))
    size = 0
    for number in range(TABLES):
        rows = [
            {"row_id": row, "status": "open", "amount": row * 1.25}
            | {f"field_{field}": f"value {field} of row {row} of table {number}" for field in range(6)}
            for row in range(ROWS)
        ]
        text = json.dumps(rows)
        size += len(text)
        (base / "database" / "outputs" / "entities" / f"Table{number}.json").write_text(text)
    return size


def touch(row: int, status: str | None = None) -> Invocation:
    return Invocation("call", "touch", {"table": "Table0", "row": row} | ({"status": status} if status else {}))


async def calls_per_second(make: Callable[[], Any]) -> float:
    worlds = [make() for _ in range(LIVE)]
    for world in worlds:
        await world.open(Task("bench"), 1)
        await world.call([touch(0)])

    async def work(world: Any) -> None:
        for number in range(CALLS):
            (result,) = await world.call([touch(number % 20)])
            assert not result.is_error, result.content

    started = time.perf_counter()
    await asyncio.gather(*map(work, worlds))
    seconds = time.perf_counter() - started
    for world in worlds:
        await world.close()
    return LIVE * CALLS / seconds


async def each_ms(act: Callable[[], Awaitable[Any]]) -> float:
    """Milliseconds for one, the median over rounds of as many at once as worlds are live."""
    spans = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await asyncio.gather(*(act() for _ in range(LIVE)))
        spans.append((time.perf_counter() - started) / LIVE)
    return statistics.median(spans) * 1e3


async def state_costs(make: Callable[[], Any]) -> tuple[float, float, float]:
    """Milliseconds to open a world, to snapshot one that was used, and to fork it."""

    async def open_one() -> None:
        world = make()
        await world.open(Task("bench"), 1)
        await world.close()

    await open_one()
    used = make()
    await used.open(Task("bench"), 1)
    for row in range(20):
        await used.call([touch(row, "closed")])
    snapshot = await used.snapshot()

    async def fork() -> None:
        world = make()
        await world.open(Task("bench"), 1)
        await world.restore(snapshot)
        await world.close()

    return await each_ms(open_one), await each_ms(used.snapshot), await each_ms(fork)


async def measure(base: Path) -> None:
    domain = load_domain(base, "Bench", [])
    servers, pool = ServersInProcess(domain), WorkerPool()
    number = pool.add(domain)
    print(f"{'':24}{'calls/s':>10}{'open ms':>10}{'snapshot ms':>13}{'fork ms':>10}")
    kinds: list[tuple[str, Callable[[], Any]]] = [
        ("in this process", lambda: MockWorld(servers)),
        ("in a worker process", lambda: WorkerWorld(pool, domain, number)),
    ]
    rates = []
    for label, make in kinds:
        rates.append(await calls_per_second(make))
        costs = await state_costs(make)
        print(f"{label:24}{rates[-1]:10,.0f}{costs[0]:10.2f}{costs[1]:13.2f}{costs[2]:10.2f}")
    print(f"a call through the worker process costs {rates[0] / rates[1]:.1f}× one in this process")
    await pool.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        size = lay_out(Path(folder))
        tables = [json.loads(path.read_text()) for path in (Path(folder) / "database/outputs/entities").iterdir()]
        started = time.perf_counter()
        copy.deepcopy(tables)
        print(f"database: {size / 1e6:.1f} MB; a deep copy of it takes {(time.perf_counter() - started) * 1e3:.0f} ms")
        uvloop.run(measure(Path(folder)))


if __name__ == "__main__":
    main()
