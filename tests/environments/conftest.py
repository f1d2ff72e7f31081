"""Fixtures for worlds of mock servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rollout.core.world import World
from rollout.environments.domains.domain import Domain, load_domain
from rollout.environments.domains.workers import WorkerPool, WorkerWorld
from tests.environments.desks import SECRET, MakeWorld, lay_out


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Two servers in AgentSkiller's layout that read the same members, each with loans of its own."""
    (tmp_path / "ours.txt").write_text(SECRET)
    return lay_out(tmp_path / "data", "Desk", "Room")


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool]:
    pool = WorkerPool(memory_mb=512)
    yield pool
    await pool.close()


@pytest.fixture
def make_world(base: Path, pool: WorkerPool) -> MakeWorld:
    domains: dict[str, tuple[Domain, int]] = {}

    def make(name: str = "Desk", timeout: float = 30.0) -> World:
        if name not in domains:
            domain = load_domain(base, name, [])
            domains[name] = (domain, pool.add(domain))
        return WorkerWorld(pool, *domains[name], timeout)

    return make
