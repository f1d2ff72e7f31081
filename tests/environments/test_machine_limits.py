"""Turns and memory: who waits, who goes on, and what the machine is read to have."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.environments.web.limits import (
    CONTEXT_MB,
    MemoryGate,
    Turns,
    free_memory_mb,
    raise_file_limit,
    usable_cores,
)

MB = 1 << 20


async def _settled() -> None:
    """Until everything that can go on has gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


@given(limit=st.integers(1, 4), fates=st.lists(st.sampled_from(["done", "failed", "cancelled", "hung"]), max_size=20))
def test_turns_are_limited_and_come_back_whatever_happens(limit: int, fates: list[str]) -> None:
    async def play() -> None:
        turns = Turns(limit)
        active, most, begun = 0, 0, []

        async def step(number: int, fate: str) -> None:
            nonlocal active, most
            async with turns.taken(), asyncio.timeout(0 if fate == "hung" else None):
                begun.append(number)
                active += 1
                most = max(most, active)
                try:
                    await asyncio.sleep(0)
                    if fate == "failed":
                        raise ValueError
                    if fate in ("hung", "cancelled"):
                        await asyncio.Event().wait()
                finally:
                    active -= 1

        steps = [asyncio.create_task(step(number, fate)) for number, fate in enumerate(fates)]
        pending = set(steps)
        while pending:
            # Those that hang for ever are cancelled as soon as they are reached; the others are not held up for good.
            await _settled()
            for number, task in enumerate(steps):
                if fates[number] == "cancelled" and number in begun:
                    task.cancel()
            _, pending = await asyncio.wait(steps, timeout=0)
        await asyncio.gather(*steps, return_exceptions=True)
        assert most <= limit
        assert begun == sorted(begun), "first come, first served"
        assert len(begun) == len(fates)
        async with asyncio.timeout(300), contextlib.AsyncExitStack() as held:
            for _ in range(limit):
                await held.enter_async_context(turns.taken())

    asyncio.run(play())


async def test_who_is_cancelled_while_waiting_takes_no_turn() -> None:
    turns = Turns(1)
    has_turn: list[int] = []

    async def hold(number: int) -> None:
        async with turns.taken():
            has_turn.append(number)
            await asyncio.Event().wait()

    async with turns.taken():
        waiting = [asyncio.create_task(hold(number)) for number in range(3)]
        await _settled()
        waiting[0].cancel()
    await _settled()
    assert has_turn == [1]
    waiting[1].cancel()
    await _settled()
    assert has_turn == [1, 2]
    waiting[2].cancel()


class Memory:
    """Memory that a test fills and empties."""

    def __init__(self, free: float) -> None:
        self.free = free
        self.live = 0
        self.under_way = 0
        self.gate = MemoryGate(100, lambda: self.free)

    async def let_in(self) -> None:
        await self.gate.passed(lambda: self.live, lambda: self.under_way)
        self.live += 1

    def give_back(self) -> None:
        self.live -= 1
        self.gate.look_again()


async def test_contexts_wait_for_memory_but_the_only_one_does_not(caplog: pytest.LogCaptureFixture) -> None:
    memory = Memory(free=10)
    await memory.let_in()
    waiting = [asyncio.create_task(memory.let_in()) for _ in range(3)]
    await _settled()
    assert not any(task.done() for task in waiting)
    waiting[0].cancel()
    memory.give_back()
    await _settled()
    assert [task.done() for task in waiting] == [True, True, False]
    memory.free = 100
    memory.gate.look_again()
    await _settled()
    assert waiting[2].done()
    assert [record.message for record in caplog.records if "min_free_mb" in record.message] == [
        "1 browser contexts are live and less than 100 MB of memory are free: further episodes wait "
        "(browsers.min_free_mb)"
    ]


async def test_contexts_that_are_on_their_way_count_as_memory_taken() -> None:
    memory = Memory(free=100 + CONTEXT_MB)
    assert memory.gate.is_open(1)
    assert not memory.gate.is_open(2)


async def test_memory_that_others_let_go_of_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollout.environments.web.limits.LOOK_AGAIN", 0.01)
    memory = Memory(free=10)
    await memory.let_in()
    waiting = asyncio.create_task(memory.let_in())
    await _settled()
    memory.free = 1000
    async with asyncio.timeout(300):
        await waiting


def _machine(root: Path, available_mb: int, cgroup: str, **files: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable: {available_mb * 1024} kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_free_memory_is_the_machines_where_nothing_limits_it(tmp_path: Path) -> None:
    assert free_memory_mb(_machine(tmp_path, 2048, "0::/\n")) == 2048
    assert free_memory_mb(tmp_path / "elsewhere") == float("inf")


def test_free_memory_is_what_the_tightest_group_leaves(tmp_path: Path) -> None:
    root = _machine(
        tmp_path,
        8192,
        "0::/outer/inner\n",
        **{
            "outer/memory.max": f"{1000 * MB}\n",
            "outer/memory.current": f"{900 * MB}\n",
            "outer/memory.stat": f"anon 5\ninactive_file {50 * MB}\n",
            "outer/inner/memory.max": "max\n",
            "outer/inner/memory.current": f"{800 * MB}\n",
        },
    )
    assert free_memory_mb(root) == 150


def test_free_memory_in_a_container_whose_group_is_mounted_as_the_root(tmp_path: Path) -> None:
    root = _machine(
        tmp_path,
        8192,
        "4:memory:/docker/abc\n0::/\n",
        **{
            "memory/memory.limit_in_bytes": f"{600 * MB}\n",
            "memory/memory.usage_in_bytes": f"{200 * MB}\n",
            "memory/memory.stat": f"total_inactive_file {100 * MB}\n",
        },
    )
    assert free_memory_mb(root) == 500


def test_cores_are_those_that_the_container_may_use(tmp_path: Path) -> None:
    assert usable_cores(_machine(tmp_path / "a", 1, "0::/x\n", **{"x/cpu.max": "50000 100000\n"})) == 0.5
    old = {"cpu,cpuacct/cpu.cfs_quota_us": "25000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}
    assert usable_cores(_machine(tmp_path / "b", 1, "2:cpu,cpuacct:/\n", **old)) == 0.25
    free = _machine(tmp_path / "c", 1, "0::/\n", **{"cpu.max": "max 100000\n"})
    assert usable_cores(free) == usable_cores(tmp_path / "nowhere") >= 1


def test_as_many_files_may_be_open_as_the_system_lets_us() -> None:
    resource = pytest.importorskip("resource")
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before, hard - 1), hard))
        raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))
