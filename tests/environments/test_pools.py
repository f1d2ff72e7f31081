"""What all datasets of a run share."""

from __future__ import annotations

import pytest

from rollout.config.schema import Config
from rollout.environments.domains.workers import WorkerPool
from rollout.environments.web.browsers import BrowserPool
from rollout.pipelines.pools import open_pools


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
    with pytest.raises(OSError, match="disk is full"):
        async with open_pools(Config.model_validate({"mock_servers": {"isolation": "process"}})) as pools:
            pass
    assert closed == [pools.workers]
