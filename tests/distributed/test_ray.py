"""The same run on a real Ray cluster of three nodes, which are killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml

import rollout
from rollout.core.errors import ConfigError
from rollout.environments.web.chromium import find_chromium
from rollout.testing import StubProcess
from rollout.trajectories.line import comparable
from rollout.trajectories.pt import read_pt
from tests.conftest import read_lines, skip_without, write_tasks, write_yaml

skip_without("ray", "needs the extra rollout-engine[ray]")
if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

COMMAND = [sys.executable, "-c", "from rollout.cli import main; main()", "run", "config.yml", "--no-colors"]
SHIPPED = Path(rollout.__file__).parent / "examples/web"
TASKS = 16
DEADLINE = 600


def add_node(cluster: Cluster) -> Any:
    """A further node. Ray gives one up after 30 s, which it may take on a machine that is busy with other tests."""
    for _ in range(10):
        with contextlib.suppress(Exception):
            return cluster.add_node(num_cpus=1)
    return cluster.add_node(num_cpus=1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes, which notice each other's death within seconds, but hold no slow machine for a dead one."""
    from ray.cluster_utils import Cluster

    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "_system_config": quick},
    )
    for _ in range(2):
        add_node(made)
    made.wait_for_nodes()
    yield made
    made.shutdown()


@pytest.fixture
def stub() -> Iterator[StubProcess]:
    with StubProcess({"latency": 0.05}) as server:
        yield server


def write_config(url: str, address: str | None, folder: Path = Path(), **changes: Any) -> None:
    tasks = [f"Conversation number {number}: look it up, please." for number in range(TASKS)]
    write_tasks(folder / "tasks.jsonl", *tasks)
    config = {
        "max_workers": 8,
        "seed": 5,
        "enable_monitor": False,
        "run_dir": "run",
        "models": {"agent": {"api_base": url}, "user-model": {"api_base": url}},
        "datasets": {
            "data": {
                "path": "tasks.jsonl",
                "output_path": "out.jsonl",
                "mcp_domain": "StudentAcademicPortal",
                "agent": {"model": "agent"},
                "user": {"model": "user-model"},
                "max_turns": 4,
            }
        },
        **changes,
    }
    if address is not None:
        config["cluster"] = {"address": address, "start_timeout": DEADLINE, **config.get("cluster", {})}
    write_yaml(folder / "config.yml", config)


@contextlib.contextmanager
def driver(folder: Path = Path()) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(COMMAND, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def finish(child: subprocess.Popen[bytes]) -> None:
    said, _ = child.communicate(timeout=DEADLINE)
    assert child.returncode == 0, said.decode()


def lines(folder: Path = Path()) -> dict[str, Any]:
    found = read_lines(folder / "out.jsonl")
    assert len(found) == len({line["id"] for line in found}) == TASKS, "nothing is lost, nothing is doubled"
    return {line["id"]: comparable(line) for line in found}


def ranks() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path("run/metrics.json").read_text())["ranks"]
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], int]:
    """What the same run gives on one machine, and the requests that it takes."""
    folder = tmp_path_factory.mktemp("alone")
    with StubProcess({"latency": 0.05}) as server:
        write_config(server.url, None, folder)
        with driver(folder) as child:
            finish(child)
        return lines(folder), server.stats().requests


def wait_until(is_so: Callable[[], bool], child: subprocess.Popen[bytes] | None = None) -> None:
    """Nothing tells another process's progress but its server and its processes."""
    end = time.monotonic() + DEADLINE
    while not is_so():
        if child is not None and child.poll() is not None:
            raise AssertionError(f"the driver has ended: {child.communicate()[0].decode()}")
        assert time.monotonic() < end, "nothing came of it"
        time.sleep(0.01)


def actors(cluster: Cluster) -> list[psutil.Process]:
    """The processes of our workers. Other tests, and other people, may have some on this machine, too."""
    found = []
    for node in cluster.list_all_nodes():
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(node.all_processes["raylet"][0].process.pid).children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if process.name().startswith("ray::_Actor"):
                        found.append(process)
    return found


def test_shares_are_exact_and_ids_those_of_one_machine(
    cluster: Cluster, stub: StubProcess, alone: tuple[dict[str, Any], int]
) -> None:
    expected, needed = alone
    write_config(stub.url, cluster.address, max_workers=16, cluster={"rank_weights": "2,1,1"})
    with driver() as child:
        finish(child)
    assert lines() == expected
    assert stub.stats().requests == needed
    assert [(rank["slots"], rank["done"], rank["stolen"]) for rank in ranks()] == [(8, 8, 0), (4, 4, 0), (4, 4, 0)]


def test_a_killed_worker_is_started_again_and_its_episodes_go_on(
    cluster: Cluster, stub: StubProcess, alone: tuple[dict[str, Any], int]
) -> None:
    expected, needed = alone
    write_config(stub.url, cluster.address)
    with driver() as child:
        wait_until(lambda: stub.stats().requests > needed // 4, child)
        killed = actors(cluster)[0]
        killed.send_signal(signal.SIGKILL)
        finish(child)
    assert lines() == expected
    assert stub.stats().requests - needed <= 8, "at most what was in flight is paid for again"
    assert sum(rank["restarts"] for rank in ranks()) <= 1
    assert sum(rank["done"] for rank in ranks()) == TASKS


def test_a_killed_driver_leaves_nothing_behind_and_is_resumed(
    cluster: Cluster, stub: StubProcess, alone: tuple[dict[str, Any], int]
) -> None:
    expected, needed = alone
    write_config(stub.url, cluster.address)
    with driver() as child:
        wait_until(lambda: stub.stats().requests > needed // 2, child)
        child.send_signal(signal.SIGKILL)
        child.wait()
    wait_until(lambda: not actors(cluster))
    with driver() as child:
        finish(child)
    assert lines() == expected
    assert stub.stats().requests - needed <= 8


def test_a_killed_node_is_missed_by_nobody_and_one_may_join(
    cluster: Cluster, stub: StubProcess, alone: tuple[dict[str, Any], int]
) -> None:
    expected, needed = alone
    write_config(stub.url, cluster.address, max_workers=3)
    node = add_node(cluster)
    cluster.wait_for_nodes()
    with driver() as child:
        wait_until(lambda: stub.stats().requests > needed // 4, child)
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        victims = [raylet, *raylet.children(recursive=True)]
        for process in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                os.kill(process.pid, signal.SIGKILL)
        joined = add_node(cluster)
        finish(child)
    cluster.remove_node(joined)
    assert lines() == expected
    assert stub.stats().requests - needed <= 3
    assert len(ranks()) >= 4
    assert sum(rank["done"] for rank in ranks()) == TASKS


def test_plugins_are_found_where_the_driver_finds_them(
    cluster: Cluster, stub: StubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("plugins").mkdir()
    Path("plugins/own_scorer.py").write_text(
        "class Whim:\n    name = 'whim'\n    async def score(self, task, trajectory, world):\n        return None\n"
    )
    monkeypatch.setenv("PYTHONPATH", "plugins")
    write_config(stub.url, cluster.address, cluster={"max_restarts": 0})
    config = yaml.safe_load(Path("config.yml").read_text())
    config["datasets"]["data"]["scoring"] = {"custom": ["own_scorer:Whim"]}
    write_yaml(Path("config.yml"), config)
    with driver() as child:
        finish(child)
    assert len(lines()) == TASKS


@pytest.mark.web
def test_an_iteration_of_web_tasks_has_the_files_of_its_ranks(cluster: Cluster) -> None:
    pytest.importorskip("hydra")
    try:
        find_chromium()
    except ConfigError as error:
        pytest.skip(str(error))
    command = [*COMMAND[:3], "web", "--cluster", cluster.address, "rank_weights=2,1,1", "save_path=exp", "--no-colors"]
    command += [f"data_path={SHIPPED / 'tasks'}", "env_config.train_tasks=shop.jsonl", "sites=[shop]"]
    command += ["policy_config.base_model=builtin/oracle", "context_config.interaction_mode=set_of_marks"]
    command += ["env_config.train_tasks_rollout_size=4", "env_config.server_size=4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stdout + done.stderr
    whole = Path("exp/train_trajectories/train_trajectories.pt.iteration0")
    parts = [whole.with_name(f"{whole.name}_rank_{rank}") for rank in range(3)]
    counts = [len(list(read_pt(part))) for part in parts]
    assert counts == [2, 1, 1]
    everything = [steps for part in parts for steps in read_pt(part)]
    assert sorted(map(str, read_pt(whole))) == sorted(map(str, everything))
    before = [path.read_bytes() for path in (whole, *parts)]
    again = subprocess.run([*command, "env_config.resume_checkpoint_path=iteration0"], timeout=DEADLINE)
    assert again.returncode == 0
    assert [path.read_bytes() for path in (whole, *parts)] == before, "the same run makes the same files"
