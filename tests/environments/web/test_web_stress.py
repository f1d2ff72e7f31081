"""Many episodes at once while browsers are killed at random: each comes to an end, and nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path

import psutil
import pytest

from rollout.config.schema import Config
from rollout.pipelines.run import open_run
from rollout.testing import StubServer
from tests.conftest import read_lines

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow, pytest.mark.timeout(900)]
EPISODES = 32
KINDS = [
    "click-button",
    "click-checkboxes",
    "click-tab",
    "enter-text",
    "login-user",
    "choose-list",
    "click-link",
    "email-inbox",
]
# Clicks whatever is first, then what is next: some tasks end by that, others by their limit of steps.
RULES = [
    {"when": {"answers": number}, "reply": {"tool_calls": [{"name": "click", "arguments": {"element": number + 1}}]}}
    for number in range(4)
]
OTHERWISE = {"reply": {"tool_calls": [{"name": "wait", "arguments": {"seconds": 0.1}}]}}


def _browsers() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "--remote-debugging-pipe" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


async def _kill_now_and_then(chance: random.Random) -> int:
    """Until cancelled, when 2 to 5 seconds have gone by: a browser or, one time in three, one of its processes."""
    killed = 0
    try:
        while True:
            await asyncio.sleep(chance.uniform(2, 5))
            if victims := _browsers():
                victim = chance.choice(victims)
                with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                    below = victim.children(recursive=True)
                    target = chance.choice(below) if below and chance.random() < 1 / 3 else victim
                    os.kill(target.pid, signal.SIGKILL)
                    killed += 1
    except asyncio.CancelledError:
        return killed


async def test_killed_browsers_under_load_lose_no_episode_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("miniwob", reason="needs the extra rollout-engine[suites]")
    monkeypatch.chdir(tmp_path)
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    async with StubServer({"rules": [*RULES, OTHERWISE]}) as stub:
        config = {
            "models": {"agent": {"api_base": stub.url}},
            "browsers": {"max_contexts": EPISODES, "contexts_per_browser": 8, "max_served": 20, "max_active": 6},
            "datasets": {
                "stress": {
                    "suite": "miniwob",
                    "suite_params": {"tasks": KINDS, "seeds": EPISODES // len(KINDS)},
                    "output_path": "out.jsonl",
                    "agent": "agent",
                    "max_steps_per_turn": 8,
                }
            },
        }
        killing = asyncio.create_task(_kill_now_and_then(random.Random(7)))
        async with open_run(Config.model_validate(config), Path("run"), resume=True) as opened:
            async with asyncio.timeout(600):
                await opened.engine.run()
        killing.cancel()
        assert await killing >= 1
    lines = read_lines(Path("out.jsonl")) + read_lines(Path("run/failed.jsonl"))
    ids = [line["id"] for line in lines]
    assert len(set(ids)) == len(ids) == EPISODES, "every attempt is accounted for, once"
    for line in lines:
        metadata = line["metadata"]
        assert metadata["status"] in ("completed", "truncated", "failed")
        if metadata["status"] == "failed":
            # The browser may be lost once too often; nothing else may go wrong.
            assert metadata["error"]["kind"] == "world"
            assert not metadata["scored"], "what broke is no score"
    assert sum(line["metadata"]["status"] != "failed" for line in lines) >= EPISODES // 2
    async with asyncio.timeout(300):
        while left := {process.pid for process in psutil.Process().children(recursive=True)} - before:
            if all(not psutil.pid_exists(pid) for pid in left):
                break
            await asyncio.sleep(0.05)
