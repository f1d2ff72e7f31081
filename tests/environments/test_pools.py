"""Resources that the environments of a run share."""

from __future__ import annotations

import pytest

from rollout.environments.domains.workers import WorkerPool
from rollout.environments.resources import Resources
from rollout.environments.web.browsers import BrowserPool


async def test_browsers_that_do_not_close_keep_no_server_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    close = WorkerPool.close

    async def close_workers(pool: WorkerPool) -> None:
        await close(pool)
        closed.append(pool)

    async def fail(pool: BrowserPool) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(WorkerPool, "close", close_workers)
    monkeypatch.setattr(BrowserPool, "close", fail)
    resources = Resources()
    workers = resources.share(WorkerPool, WorkerPool)
    resources.share(BrowserPool, BrowserPool)
    with pytest.raises(OSError, match="disk is full"):
        async with resources:
            pass
    assert closed == [workers]


async def test_environments_of_a_run_get_the_same_resource() -> None:
    async with Resources() as resources:
        assert resources.share(WorkerPool, WorkerPool) is resources.share(WorkerPool, WorkerPool)
