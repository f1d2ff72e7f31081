"""Checks that need no model: the site keeps visitors apart, and in a browser the tasks can be solved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from shelf import make_app

import rollout

HAS_CHROMIUM = any(shutil.which(name) for name in ("chromium-headless-shell", "chromium", "google-chrome"))


def test_visitors_have_loans_of_their_own() -> None:
    import asyncio

    async def visit() -> None:
        async with TestServer(make_app()) as server, TestClient(server) as first, TestClient(server) as second:
            borrowed = await first.post("/borrow/dune")
            assert 'id="loans">Dune' in await borrowed.text()
            assert 'id="loans">none' in await (await second.get("/")).text()

    asyncio.run(visit())


@pytest.mark.skipif(not HAS_CHROMIUM, reason="needs Chromium")
def test_every_task_is_solved_by_its_reference_actions(tmp_path: Path) -> None:
    run = rollout.run(
        "project.yml", samples=1, run_dir=tmp_path / "run", output_path=tmp_path / "out.jsonl", progress=False
    )
    assert run.finished == 2
    assert run.solved == 2
