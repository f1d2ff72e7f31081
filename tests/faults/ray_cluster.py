"""Workers, machines and drivers of a Ray cluster that are killed and stopped.

A cluster of three nodes on this machine runs one run after the other, each of which is struck in turn by every kind of
fault. After each strike the run has to go on: the next one is due when the model server has seen new requests. An
answer that was under way is asked for again and is the same, so every line must be that of the calm run, which needs no
cluster.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from rollout.testing import StubProcess
from tests.faults.accounting import Ledger, find_secrets
from tests.faults.processes import Missed, below, is_live, is_stopped, strike, wait_until
from tests.faults.runs import DEADLINE, ROOT, SECRETS, Run, agent_script, end_of, make_conversations

PART = "Ray"
STRIKES = 21
"""Of each kind."""
CONVERSATIONS = 1000
ROUNDS = 12
"""Runs, at most, until there were enough strikes."""
ECHO = {"name": "echo", "arguments": {"text": "{opening} Step {step}."}}
CALLS = (ECHO, ECHO, ECHO)
KINDS = ("worker SIGKILL", "worker SIGSTOP", "node SIGKILL", "node SIGSTOP", "driver SIGKILL", "driver SIGSTOP")
LATENCY = 0.8
"""Seconds: slow enough that a run on the cluster lasts for many strikes."""
STOPPED = 1.0
"""Seconds for which a driver stands still before it goes on."""
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 4,
}
"""Ray's settings: a node that stands still is given up after some seconds, not after most of a minute."""


class Campaign:
    """Runs on a cluster, and the strikes that are still due."""

    def __init__(self, cluster: Any, stub: StubProcess, ledger: Ledger, scale: float, seed: int) -> None:
        self.cluster, self.stub, self.ledger = cluster, stub, ledger
        self.chance = random.Random(seed)
        self.seed = seed
        self.count = max(60, round(CONVERSATIONS * scale))
        self.due = [kind for kind in KINDS for _ in range(max(1, round(STRIKES * scale)))]
        self.chance.shuffle(self.due)
        self.nodes = [cluster.add_node(**node_options()) for _ in range(2)]
        cluster.wait_for_nodes()

    def play(self, folder: Path, number: int) -> None:
        """One run, struck until it is over or nothing more is due."""
        conversations = make_conversations(["ray"] * self.count, self.seed * 100 + number)
        dataset = {"tools": ["tests.tools:echo"]}
        calm = Run(folder / "calm", conversations, self.stub.url, dataset=dataset, max_workers=200)
        calm.finish(self.ledger, KINDS[0])
        self.stub.reset()
        cluster = {"address": self.cluster.address, "silence": 4, "max_restarts": 1000, "start_timeout": 60}
        self.run = Run(folder / "ray", conversations, self.stub.url, dataset=dataset, max_workers=12, cluster=cluster)
        self.needed = (len(CALLS) + 1) * len(conversations)
        child = self.run.start()
        while self.due and child.poll() is None:
            child = self._strike_next(child)
        if child.poll() is None:
            # Nothing more is due. The rest is quicker without the cluster, where a run may go on as well.
            child.terminate()
        # An episode whose worker died five times is left for a resume.
        if end_of(child, self.ledger, KINDS[0], DEADLINE) not in (0, 3, 143, None):
            self.ledger.blame(KINDS[0], "unfit", f"a run ended badly: {self.run.said()[-500:]}")
        self.run.configure(cluster=None, max_workers=200)
        self.run.finish(self.ledger, KINDS[0])
        self.run.audit(self.ledger, lambda one: KINDS[0], calm=calm.by_id())
        for kind in KINDS[1:]:
            self.ledger.expose(kind, len(conversations))

    def _strike_next(self, child: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Wait until the run goes on, strike, and return the driver, which may be a new one."""
        kind = self.due[-1]
        before = self.stub.stats().distinct
        target = before + self.chance.randint(4, 12)
        self._wait(lambda: child.poll() is not None or self.stub.stats().distinct >= target, kind)
        self._wait(lambda: child.poll() is not None or bool(actors()), kind)
        if child.poll() is not None or self.stub.stats().distinct >= self.needed:
            return child
        what, _, name = kind.partition(" ")
        number = signal.Signals[name]
        if what == "driver":
            has_struck = strike(psutil.Process(child.pid), number)
            child = self._strike_driver(child, number)
        elif what == "node":
            has_struck = self._strike_node(number)
        else:
            victims = [process for process in actors() if not is_stopped(process)]
            has_struck = bool(victims) and strike(self.chance.choice(victims), number)
        if has_struck:
            self.ledger.inject(kind)
            self.due.pop()
        return child

    def _strike_driver(self, child: subprocess.Popen[bytes], number: signal.Signals) -> subprocess.Popen[bytes]:
        if number == signal.SIGSTOP:
            # How long it stands still is the fault.
            time.sleep(STOPPED)
            child.send_signal(signal.SIGCONT)
            return child
        child.wait()
        self._wait(lambda: not actors(), "driver SIGKILL")
        return self.run.start()

    def _strike_node(self, number: signal.Signals) -> bool:
        """A node and everything on it; another one joins."""
        node = self.nodes.pop(self.chance.randrange(len(self.nodes)))
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        victims = [raylet, *below(raylet.pid)]
        has_struck = strike(raylet, number)
        for process in victims[1:]:
            strike(process, number)
        self.nodes.append(self.cluster.add_node(**node_options()))
        if number == signal.SIGSTOP:
            # Only after the cluster has given it up: a stopped machine does not come back.
            self._wait(lambda: not self._is_known_alive(node), "node SIGSTOP")
        for process in victims:
            strike(process, signal.SIGKILL)
        self.cluster.remove_node(node, allow_graceful=False)
        return has_struck

    def _is_known_alive(self, node: Any) -> bool:
        states = self.cluster.global_state.node_table()
        return any(state["NodeID"] == node.node_id and state["Alive"] for state in states)

    def _wait(self, is_so: Callable[[], bool], kind: str) -> None:
        try:
            wait_until(is_so, DEADLINE, kind)
        except Missed as missed:
            self.ledger.blame(kind, "hung", str(missed))


def node_options() -> dict[str, Any]:
    return {"num_cpus": 1, "object_store_memory": 80 << 20}


def actors() -> list[psutil.Process]:
    """The processes of our workers."""
    found = []
    for process in below():
        try:
            if process.name().startswith("ray::_Actor") and is_live(process):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def run_part(folder: Path, scale: float, seed: int) -> Ledger:
    """Runs on one cluster until there were enough strikes of each kind."""
    # Ray's processes import the package that we are part of, and the tools beside it.
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    ledger = Ledger(PART)
    # A folder of its own, with a short name for its sockets: the Ray of somebody else stays what it is.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as temporary:
        os.environ["RAY_TMPDIR"] = temporary
        try:
            _run_on(Cluster, Path(temporary), folder, scale, seed, ledger)
        finally:
            del os.environ["RAY_TMPDIR"]
    return ledger


def _run_on(make_cluster: Any, logs: Path, folder: Path, scale: float, seed: int, ledger: Ledger) -> None:
    head = {**node_options(), "include_dashboard": False, "_system_config": QUICK}
    cluster = make_cluster(initialize_head=True, head_node_args=head)
    try:
        with StubProcess(agent_script(*CALLS, latency=LATENCY)) as stub:
            campaign = Campaign(cluster, stub, ledger, scale, seed)
            for number in range(ROUNDS):
                if campaign.due:
                    campaign.play(folder / str(number), number)
        for text in find_secrets((path for path in logs.rglob("*") if path.is_file()), SECRETS):
            ledger.blame(KINDS[0], "secrets", f"Ray's {text}")
    finally:
        cluster.shutdown()
