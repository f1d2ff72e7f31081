"""A run on several machines equals the run on one, whatever happens to the machines."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.core.messages import Message
from rollout.distributed.wire import Version, encode, join_numbered
from rollout.distributed.worker import Setup, Worker
from rollout.pipelines.run import open_run
from rollout.pipelines.wiring.datasets import open_plans
from rollout.store.reading.reader import open_reader
from rollout.testing import StubServer
from rollout.trajectories.line import Head, comparable
from rollout.trajectories.tree import NodeBody
from tests.conftest import read_lines, roll_out, stub_config, write_tasks
from tests.distributed.near import NearMachines

OUT = Path("out.jsonl")


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollout.distributed.ranks.LOOK_EVERY", 0.01)


class When:
    """Does something once, as soon as so many nodes were added."""

    def __init__(self, nodes: int, do: Callable[[], None]) -> None:
        self._left = nodes
        self._do = do

    def episode_began(self, dataset: str, trajectory: str, opening: Sequence[Message], is_resumed: bool) -> None:
        pass

    def node_added(self, dataset: str, trajectory: str, body: NodeBody) -> None:
        self._left -= 1
        if self._left == 0:
            self._do()

    def episode_ended(self, dataset: str, trajectory: str, head: Head | None) -> None:
        pass


def portal(**strategy: Any) -> dict[str, Any]:
    return {
        "seed": 3,
        "max_workers": 6,
        "datasets": {
            "portal": {
                "mcp_domain": "StudentAcademicPortal",
                "output_path": OUT,
                "agent": {"model": "builtin/oracle", "params": {"wrong_argument": 0.2, "stop_early": 0.1}},
                "user": "builtin/user",
                "max_turns": 20,
                "max_steps_per_turn": 15,
                "limit": 8,
                **({"strategy": strategy} if strategy else {"samples": 2}),
            }
        },
    }


def comparable_lines(path: Path = OUT) -> dict[str, Any]:
    lines = read_lines(path)
    assert len({line["id"] for line in lines}) == len(lines), "nothing is doubled"
    return {line["id"]: comparable(line) for line in lines}


async def alone(config: dict[str, Any]) -> dict[str, Any]:
    """What the same run gives on one machine."""
    await roll_out(config, Path("alone"))
    lines = comparable_lines()
    OUT.rename("alone.jsonl")
    return lines


def metrics() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("run/metrics.json").read_text())
    return found


TREE = {"name": "random_tree", "params": {"trees": 2, "expansions": 2, "rounds": 2}}


@pytest.mark.parametrize("strategy", [{}, TREE], ids=["chain", "tree"])
@pytest.mark.parametrize("shares", [True, False], ids=["shared", "apart"])
async def test_lines_are_those_of_one_machine(strategy: dict[str, Any], shares: bool) -> None:
    expected = await alone(portal(**strategy))
    opened = await roll_out({**portal(**strategy), "cluster": "auto"}, machines=NearMachines(2, 2, 2, shares=shares))
    assert comparable_lines() == expected
    ranks = metrics()["ranks"]
    assert [rank["slots"] for rank in ranks] == [2, 2, 2]
    assert sum(rank["done"] for rank in ranks) == len(expected)
    assert all(rank["done"] > 0 for rank in ranks), "everybody has worked"
    assert opened.engine.replay_mismatches == 0


def with_own_tools(url: str) -> dict[str, Any]:
    """A run whose workers send the driver a prompt for each task."""
    tool = {"name": "fly", "description": "Fly.", "parameters": {"type": "object", "properties": {}}}
    tasks = [
        {"id": f"t{number}", "messages": [{"role": "user", "content": "Hi"}], "task_info": {}, "tools": [tool]}
        for number in range(2)
    ]
    path = write_tasks(Path("tasks.jsonl"), *tasks)
    return stub_config(url, path, mode="wrong_tool", tools=[], mcp_domain="StudentAcademicPortal")


async def test_a_disk_that_is_full_at_the_driver_pauses_the_run_and_costs_no_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(run_dir: Path, name: str, data: bytes, *, is_synced: bool) -> None:
        if b"fly" in data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(run_dir / name))

    machines = NearMachines(1, 1, shares=False)
    async with StubServer() as stub:
        config = {**with_own_tools(stub.url), "cluster": "auto"}
        with monkeypatch.context() as full:
            full.setattr("rollout.store.journal.write_named", refuse)
            opened = await roll_out(config, machines=machines)
        control = opened.engine.control
        assert control.reason == "the run directory cannot be written"
        assert "No space left on device" in (control.cause or "")
        assert len(machines.links) == 2, "no worker was started again"
        await roll_out(config, machines=NearMachines(1, 1, shares=False))
    assert {line["id"] for line in read_lines(OUT)} == {"t0", "t1"}


async def test_prompts_of_tasks_with_tools_of_their_own_come_to_the_run_directory() -> None:
    async with StubServer() as stub:
        config = with_own_tools(stub.url)
        await roll_out({**config, "cluster": "auto"}, machines=NearMachines(1, 1, shares=False))
    named = {line["metadata"]["prompt"] for line in read_lines(OUT)}
    for name in named:
        assert (Path("run/blobs") / f"{name}.json").is_file()


async def test_a_worker_that_dies_costs_nothing_but_its_step() -> None:
    path = write_tasks(Path("tasks.jsonl"), *[f"Number {number}: look it up." for number in range(12)])
    async with StubServer({"latency": 0.01}) as stub:
        config = {
            **stub_config(stub.url, path, user={"model": "user"}, max_turns=4),
            "max_workers": 6,
            "cluster": "auto",
        }
        expected = await alone({key: value for key, value in config.items() if key != "cluster"})
        needed = stub.stats.requests
        machines = NearMachines(1, 1, 1)
        killing = When(20, lambda: machines.links[1].kill())
        await roll_out(config, observers=[killing], machines=machines)
        paid = stub.stats.requests - needed
    assert machines.links[1].is_dead
    assert comparable_lines() == expected
    assert 0 <= paid - needed <= 2, "at most what the dead worker had in flight is paid for again"
    assert metrics()["ranks"][1]["restarts"] == 1


async def test_a_machine_that_dies_is_missed_by_nobody_and_one_that_joins_gets_work() -> None:
    expected = await alone(portal())
    machines = NearMachines(1, 1)

    def change() -> None:
        machines.lose(0)
        machines.join(1)

    await roll_out({**portal(), "cluster": "auto"}, observers=[When(30, change)], machines=machines)
    assert comparable_lines() == expected
    assert {link.machine.id for link in machines.links} == {"m0", "m1", "m2"}
    assert sum(rank["done"] for rank in metrics()["ranks"]) == len(expected)


async def test_a_machine_that_joins_gets_its_part_of_the_places() -> None:
    path = write_tasks(Path("tasks.jsonl"), *[f"Number {number}" for number in range(60)])
    async with StubServer({"latency": 0.01}) as stub:
        config = {**stub_config(stub.url, path), "max_workers": 8, "cluster": "auto"}
        machines = NearMachines(1)
        await roll_out(config, observers=[When(10, lambda: machines.join(3))], machines=machines)
    ranks = metrics()["ranks"]
    assert [rank["slots"] for rank in ranks] == [2, 6], "by their CPUs"
    assert ranks[1]["done"] > 0
    assert len(read_lines(OUT)) == 60


async def test_shares_by_weight_are_exact() -> None:
    path = write_tasks(Path("tasks.jsonl"), *[f"Number {number}" for number in range(64)])
    async with StubServer({"latency": 0.3}) as stub:
        config = {
            **stub_config(stub.url, path),
            "max_workers": 64,
            "cluster": {"rank_weights": "2,1,1"},
        }
        await roll_out(config, machines=NearMachines(1, 1, 1))
    ranks = metrics()["ranks"]
    assert [rank["slots"] for rank in ranks] == [32, 16, 16]
    assert [rank["share"] for rank in ranks] == [0.5, 0.25, 0.25]
    assert [(rank["done"], rank["stolen"]) for rank in ranks] == [(32, 0), (16, 0), (16, 0)]
    with open_reader(Path("run")) as reader:
        placed = list(reader.ranks("data").values())
    assert [placed.count(rank) for rank in range(3)] == [32, 16, 16]


async def test_a_rank_goes_beyond_its_share_only_where_others_are_behind() -> None:
    path = write_tasks(Path("tasks.jsonl"), *[f"Number {number}" for number in range(12)])
    async with StubServer() as stub:
        config = {
            **stub_config(stub.url, path),
            "max_workers": 3,
            "cluster": {"rank_weights": [1, 1, 1], "max_restarts": 0},
        }
        machines = NearMachines(1, 1, 1)
        await roll_out(config, observers=[When(3, lambda: machines.lose(2))], machines=machines)
    ranks = metrics()["ranks"]
    assert len(read_lines(OUT)) == 12
    assert sum(rank["done"] for rank in ranks) == 12
    assert sum(rank["stolen"] for rank in ranks[:2]) >= 12 - 8 - 2
    assert all(rank["taken"] - rank["stolen"] <= 4 for rank in ranks)


async def test_limits_of_a_model_are_the_clusters() -> None:
    path = write_tasks(Path("tasks.jsonl"), *[f"Number {number}" for number in range(30)])
    async with StubServer({"latency": 0.005}) as stub:
        config = {**stub_config(stub.url, path), "max_workers": 30, "cluster": "auto"}
        config["models"]["agent"]["max_concurrency"] = 4
        await roll_out(config, machines=NearMachines(1, 1, 1))
        assert stub.stats.max_in_flight == 4
    assert len(read_lines(OUT)) == 30


async def test_places_that_a_dead_worker_held_are_given_back() -> None:
    path = write_tasks(Path("tasks.jsonl"), *[f"Number {number}" for number in range(8)])
    async with StubServer({"latency": 0.02}) as stub:
        config = {**stub_config(stub.url, path), "max_workers": 8, "cluster": "auto"}
        config["models"]["agent"]["max_concurrency"] = 1
        machines = NearMachines(1, 1)
        await roll_out(config, observers=[When(1, lambda: machines.links[0].kill())], machines=machines)
    assert len(read_lines(OUT)) == 8


async def test_the_budget_is_the_clusters_and_a_resume_goes_on() -> None:
    path = write_tasks(Path("tasks.jsonl"), *[f"Number {number}" for number in range(20)])
    async with StubServer() as stub:
        config = {**stub_config(stub.url, path), "max_workers": 4, "max_cost": 10.0, "cluster": "auto"}
        config["models"]["agent"]["output_cost_per_token"] = 0.1
        expected = await alone({**{k: v for k, v in config.items() if k != "cluster"}, "max_cost": None})
        opened = await roll_out(config, machines=NearMachines(1, 1))
        assert opened.engine.control.reason == "max_cost"
        assert len(read_lines(OUT)) < 20
        await roll_out({**config, "max_cost": None}, machines=NearMachines(1, 1, 1))
    assert comparable_lines() == expected


async def test_a_paused_run_goes_on_with_one_machine_or_several() -> None:
    expected = await alone(portal())
    await roll_out(
        {**portal(), "cluster": "auto"}, machines=NearMachines(1, 1), pause_when=lambda progress: progress.done >= 5
    )
    assert 0 < len(read_lines(OUT)) < len(expected)
    await roll_out(portal(), pause_when=lambda progress: progress.done >= 5)
    await roll_out({**portal(), "cluster": "auto"}, machines=NearMachines(1, 1))
    assert comparable_lines() == expected


async def test_what_one_machine_lacks_is_told_and_the_others_work(caplog: pytest.LogCaptureFixture) -> None:
    config = {**portal(), "cluster": "auto"}
    refused = {"m1": "there is no Chromium"}
    with pytest.raises(ConfigError, match="rank 0 on host0: there is no Chromium"):
        await roll_out(config, machines=NearMachines(1, refuses={"m0": "there is no Chromium"}))
    await roll_out({**config, "cluster": {"max_restarts": 0}}, machines=NearMachines(1, 1, refuses=refused))
    assert "rank 1 on host1: there is no Chromium" in caplog.text
    assert len(read_lines(OUT)) == 16
    assert [rank["done"] for rank in metrics()["ranks"]] == [16, 0]


async def test_an_episode_that_kills_its_workers_is_left_and_the_others_are_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = write_tasks(Path("tasks.jsonl"), *[f"Number {number}" for number in range(4)], "deadly")
    machines = NearMachines(1)

    async with StubServer({"latency": 0.01}) as stub:
        config = {**stub_config(stub.url, path), "max_workers": 1, "cluster": "auto"}
        checked = Config.model_validate(config)
        async with open_run(checked, Path("run"), resume=True, machines=machines) as opened:
            running = asyncio.create_task(opened.engine.run())
            while not running.done():
                await asyncio.sleep(0.001)
                ranks = opened.ranks.counts() if opened.ranks is not None else []
                if len(read_lines(OUT)) == 4 and any(rank.running for rank in ranks):
                    machines.links[-1].kill()
            await running
    assert "5 workers died while they had it" in caplog.text
    assert opened.engine.control.reason is None, "it is not for want of workers that it was left"
    assert opened.summary is not None
    assert (opened.summary.total.finished, opened.summary.total.unfinished) == (4, 1)
    assert not [record for record in caplog.records if record.exc_info], "machines that die are worth no traceback"


async def test_the_version_of_the_weights_reaches_the_workers() -> None:
    path = write_tasks(Path("tasks.jsonl"), *[f"Number {number}" for number in range(6)])
    async with StubServer() as stub:
        config = Config.model_validate({**stub_config(stub.url, path), "max_workers": 1, "cluster": "auto"})
        versions = []
        async with open_run(config, Path("run"), resume=True, machines=NearMachines(1, 1)) as opened:
            opened.engine.control.weight_version = "0"
            async for group in opened.engine.stream(ahead=1):
                body = group.leaves[0].node.body
                assert body.generation is not None
                versions.append(body.generation.weight_version)
                opened.engine.control.weight_version = str(len(versions))
    assert versions[0] == "0"
    assert versions == sorted(versions)
    assert versions[-1] != "0"


async def test_a_message_that_overtook_another_waits_for_it() -> None:
    setup = Setup(
        Config(), open_plans, [], 0, run_dir=".", token="", folder=".", module_path=[], environment={}, secrets=[]
    )
    worker = Worker(setup)
    await worker.tell(join_numbered(1, [encode(Version("1"))]))
    assert worker._control.weight_version is None
    await worker.tell(join_numbered(0, [encode(Version("0"))]))
    assert worker._control.weight_version == "1"


async def test_stragglers_are_cut_on_their_workers() -> None:
    path = write_tasks(Path("tasks.jsonl"), *[f"Number {number}" for number in range(9)], "slow")
    slow = {"kind": "slow", "delay": 60, "times": "always"}
    rules = [{"when": {"contains": "slow"}, "fault": slow}, {"reply": {"content": "ok"}}]
    async with StubServer({"rules": rules}) as stub:
        config = {
            **stub_config(stub.url, path),
            "max_workers": 10,
            "tail": {"threshold": 0.9, "grace": 0.05},
            "cluster": "auto",
        }
        await roll_out(config, machines=NearMachines(1, 1))
    by_reason = {line["id"]: line["metadata"]["stop_reason"] for line in read_lines(OUT)}
    assert len(by_reason) == 10
    assert by_reason.pop("task9") == "cut"
    assert set(by_reason.values()) == {"agent_done"}


async def test_a_worker_that_says_nothing_is_taken_for_dead() -> None:
    expected = await alone(portal())
    machines = NearMachines(1, 1)

    def silence() -> None:
        machines.links[0].is_mute = True

    config = {**portal(), "cluster": {"silence": 0.3}}
    await roll_out(config, observers=[When(10, silence)], machines=machines)
    assert comparable_lines() == expected
    assert machines.links[0].is_dead


async def test_a_rank_without_places_works_where_those_that_had_them_are_gone() -> None:
    machines = NearMachines(1, 1)
    config = {**portal(), "max_workers": 1, "cluster": {"rank_weights": "1,1", "max_restarts": 0}}
    async with asyncio.timeout(300):
        await roll_out(config, observers=[When(10, lambda: machines.lose(0))], machines=machines)
    assert len(comparable_lines()) == 16
    assert metrics()["ranks"][1]["done"] > 0


async def test_ranks_go_where_cpus_are_left_for_them() -> None:
    machines = NearMachines(1, 3)
    await roll_out({**portal(), "cluster": {"workers": 4}}, machines=machines)
    assert [link.machine.id for link in machines.links] == ["m0", "m1", "m1", "m1"]


async def test_what_a_killed_driver_left_to_know_its_folder_by_is_removed() -> None:
    config = {**portal(), "cluster": "auto"}
    await roll_out(config, machines=NearMachines(1))
    Path("run/.shared.0123456789abcdef").touch()
    await roll_out(config, machines=NearMachines(1))
    assert not list(Path("run").glob(".shared.*"))


async def test_no_file_of_the_folder_stands_in_the_way_of_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path.cwd())
    await roll_out({**portal(), "cluster": "auto"}, machines=NearMachines(1))
    assert sys.path[0] != str(Path.cwd())
    assert sys.path[-1] == str(Path.cwd()), "plugins are found there all the same, as the driver finds them"


async def test_a_run_that_is_over_does_not_wait_for_workers_that_are_not_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rollout.distributed.ranks.CLOSE_TIMEOUT", 1000)
    machines = NearMachines(1, 1)

    def fill() -> None:
        machines.full.add("m1")
        machines.links[1].kill()

    async with asyncio.timeout(300):
        await roll_out({**portal(), "cluster": "auto"}, observers=[When(10, fill)], machines=machines)
    assert metrics()["ranks"][1]["restarts"] == 1
    assert [rank["slots"] for rank in metrics()["ranks"]] == [6, 0], "what is shown adds up"
    assert len(comparable_lines()) == 16


async def test_a_run_pauses_where_no_worker_is_left() -> None:
    machines = NearMachines(1)
    config = {**portal(), "cluster": {"start_timeout": 3}}
    opened = await roll_out(config, observers=[When(10, lambda: machines.lose(0))], machines=machines)
    assert opened.engine.control.reason == "no worker is left"
    assert opened.summary is not None
    assert opened.summary.total.unfinished > 0
    await roll_out({**portal(), "cluster": "auto"}, machines=NearMachines(1))
    assert len(comparable_lines()) == 16


async def test_a_person_cannot_be_asked_on_a_cluster() -> None:
    config = {**portal(), "cluster": "auto"}
    config["datasets"]["portal"]["user"] = {"model": "person", "kind": "person"}
    with pytest.raises(ConfigError, match=r"datasets\.portal\.user: a person cannot be asked on a cluster"):
        await roll_out(config, machines=NearMachines(1))
