"""The kill test: a run that is killed again and again and resumed each time must equal an undisturbed one."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from rollout.models.stub import StubProcess
from rollout.trajectories.line import comparable
from tests.conftest import write_tasks

# `rollout run` with no colours, in a process that can be killed.
COMMAND = [sys.executable, "-c", "from rollout.cli import main; main()", "run"]


class Killed:
    """A run in a folder of its own, started, killed and resumed."""

    def __init__(self, folder: Path, url: str, conversations: int, live: int) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        tasks = [f"Conversation number {number}: look it up, please." for number in range(conversations)]
        write_tasks(folder / "tasks.jsonl", *tasks)
        config = {
            "max_workers": live,
            "enable_monitor": False,
            "run_dir": "run",
            "models": {"agent": {"api_base": url}, "user-model": {"api_base": url}},
            "datasets": {
                "kill": {
                    "path": "tasks.jsonl",
                    "output_path": "out.jsonl",
                    "mcp_domain": "StudentAcademicPortal",
                    "agent": {"model": "agent"},
                    "user": {"model": "user-model"},
                    "max_turns": 5,
                }
            },
        }
        (folder / "config.yml").write_text(yaml.safe_dump(config))

    def start(self, *, resume: bool = True) -> subprocess.Popen[bytes]:
        command = [*COMMAND, "config.yml", "--resume" if resume else "--no-resume", "--no-colors"]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def finish(self) -> None:
        child = self.start()
        _, complaints = child.communicate(timeout=600)
        assert child.returncode == 0, complaints.decode()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "out.jsonl").read_bytes().splitlines()]


def run_kill_test(
    folder: Path, *, conversations: int, kills: int, live: int, latency: float, seed: int
) -> dict[str, int]:
    """Run undisturbed, then with kills; assert that both are equal. Returns what was counted."""
    chance = random.Random(seed)
    with StubProcess({"latency": latency}) as stub:
        calm = Killed(folder / "calm", stub.url, conversations, live)
        calm.finish()
        # Requests, not answers: one that was under way when its client died is paid for as well.
        needed = stub.stats().requests
        stub.reset()
        torn = Killed(folder / "torn", stub.url, conversations, live)
        in_flight = done = 0
        while done < kills:
            child = torn.start()
            before = stub.stats().requests
            # On average half of the run is over at the last kill, so there is always something left to kill.
            target = before + chance.randint(1, max(2, needed // kills))
            while child.poll() is None and stub.stats().requests < target:
                # Nothing to wait for but the child's own progress, as its server sees it.
                time.sleep(0.002)
            if child.poll() is not None:
                break
            child.send_signal(signal.SIGKILL)
            child.communicate()
            in_flight += live
            done += 1
        torn.finish()
        paid = stub.stats().requests
    assert done == kills, f"the run ended after {done} kills"
    calm_lines = {line["id"]: comparable(line) for line in calm.lines()}
    torn_lines = torn.lines()
    assert len(torn_lines) == conversations, "lines lost or doubled"
    assert {line["id"]: comparable(line) for line in torn_lines} == calm_lines
    assert paid - needed <= in_flight, f"{paid - needed} generations paid twice, {in_flight} could be in flight"
    return {"kills": done, "needed": needed, "paid_again": paid - needed, "could_be_in_flight": in_flight}
