"""Limits of the machine: free memory, cores, and turns at using them.

Both count what the control groups of a container leave of the machine, at any level. Where a system tells nothing,
there is no limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

log = logging.getLogger(__name__)

ACTIVE_PER_CORE = 8
"""A step takes 50 to 300 ms of CPU and waits for its page the rest of the time. So many for each core keep it busy, and
leave each of them a small part of a step's timeout."""
CONTEXT_MB = 48
"""What a context that is being made will take: Chromium's own 21 to 28 MB, and a page."""
LOOK_AGAIN = 1.0
"""Seconds after which memory is looked at again: nothing tells when others let go of theirs."""


class Turns:
    """At most `limit` at once, first come, first served. Who waits for a turn must hold none."""

    def __init__(self, limit: int) -> None:
        self._free = asyncio.Semaphore(limit)

    @contextlib.asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """A turn, given back at the end whatever happens. Waits for it as long as it takes."""
        async with self._free:
            yield


class MemoryGate:
    """Lets contexts be made one after the other while there is memory for them."""

    def __init__(self, min_free_mb: int, free_mb: Callable[[], float] | None = None) -> None:
        self._min_free_mb = min_free_mb
        self._free_mb = free_mb or free_memory_mb
        self._one_at_a_time = asyncio.Lock()
        self._released = asyncio.Event()
        self._is_told = False

    def is_open(self, under_way: int) -> bool:
        """Whether there is memory for one more, with this many that have not taken theirs yet."""
        return self._free_mb() >= self._min_free_mb + under_way * CONTEXT_MB

    def look_again(self) -> None:
        """Something was given back."""
        self._released.set()

    async def passed(self, live: Callable[[], int], under_way: Callable[[], int]) -> None:
        """Wait until one more may be made. The only one always may: nothing of ours could be given back for it."""
        async with self._one_at_a_time:
            while live() and not self.is_open(under_way()):
                if not self._is_told:
                    self._is_told = True
                    log.warning(
                        "%d browser contexts are live and less than %d MB of memory are free: further episodes wait "
                        "(browsers.min_free_mb)",
                        live(),
                        self._min_free_mb,
                    )
                self._released.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_AGAIN):
                        await self._released.wait()


def raise_file_limit() -> None:
    """Let this process open as many files as it may: a context has a proxy, each of whose connections takes two."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def default_max_active() -> int:
    """Contexts that may act at once on this machine."""
    return math.ceil(ACTIVE_PER_CORE * usable_cores())


def usable_cores(root: Path = Path("/")) -> float:
    """Cores that this process may use."""
    cores = float(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else float(os.cpu_count() or 1)
    for folder in _groups(root, "cpu"):
        limit = _read(folder / "cpu.max").split()
        if len(limit) == 2 and limit[0] != "max":
            cores = min(cores, int(limit[0]) / int(limit[1]))
        quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        if quota is not None and period and quota > 0:
            cores = min(cores, quota / period)
    return cores


def free_memory_mb(root: Path = Path("/")) -> float:
    """Memory that can be had without swapping; infinite where this system does not tell."""
    free = math.inf
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) / 1024
    for folder in _groups(root, "memory"):
        for limit_file, used_file, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, used = _number(folder / limit_file), _number(folder / used_file)
            if limit is not None and used is not None:
                # Files that are no longer read count as used, but are let go of when memory is asked for.
                kept = dict(line.split(" ", 1) for line in _read(folder / "memory.stat").splitlines() if " " in line)
                free = min(free, (limit - used + int(kept.get(cache, 0))) / (1 << 20))
    return free


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the control groups that this process is in, from its own up to the one at the root."""
    base = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = base / controllers if controllers else base
        if not top.is_dir():
            top = base / controller
        # In a container the path may be the host's, of which only the lowest part is there, as the root.
        for folder in (top / path.lstrip("/"), *(top / path.lstrip("/")).parents):
            yield folder
            if folder == top:
                break


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
