"""The kill test: a run that is killed again and again and resumed each time must equal an undisturbed one."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from rollout.testing import StubProcess
from tests.faults.runs import Run, make_conversations


def make_run(folder: Path, url: str, conversations: int, live: int, seed: int) -> Run:
    """Conversations of several turns with a user, on a shipped domain."""
    return Run(
        folder,
        make_conversations(["look it up"] * conversations, seed),
        url,
        dataset={"mcp_domain": "StudentAcademicPortal", "user": {"model": "user-model"}, "max_turns": 5},
        models={"agent": {"api_base": url}, "user-model": {"api_base": url}},
        max_workers=live,
    )


def finish(run: Run) -> None:
    """Resume a run to its end."""
    assert run.start().wait(600) == 0, run.said()


def run_kill_test(
    folder: Path, *, conversations: int, kills: int, live: int, latency: float, seed: int
) -> dict[str, int]:
    """Run undisturbed, then with kills; assert that both are equal. Returns what was counted."""
    chance = random.Random(seed)
    with StubProcess({"latency": latency}) as stub:
        calm = make_run(folder / "calm", stub.url, conversations, live, seed)
        finish(calm)
        # Requests, not answers: one that was under way when its client died is paid for as well.
        needed = stub.stats().requests
        stub.reset()
        torn = make_run(folder / "torn", stub.url, conversations, live, seed)
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
            child.wait()
            in_flight += live
            done += 1
        finish(torn)
        paid = stub.stats().requests
    assert done == kills, f"the run ended after {done} kills"
    assert len(torn.lines()) == conversations, "lines lost or doubled"
    assert torn.by_id() == calm.by_id()
    assert paid - needed <= in_flight, f"{paid - needed} generations paid twice, {in_flight} could be in flight"
    return {"kills": done, "needed": needed, "paid_again": paid - needed, "could_be_in_flight": in_flight}
