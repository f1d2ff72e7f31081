"""Groups streamed to a trainer: as they finish, each whole, none lost when the trainer stops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rollout.config.schema import Config
from rollout.engine.groups import Group
from rollout.pipelines.run import open_run
from rollout.testing import StubServer
from tests.conftest import read_lines, stub_config, write_tasks

OUT = Path("out.jsonl")


def config(stub: StubServer, tasks: int = 6, **changes: Any) -> Config:
    path = write_tasks(Path("tasks.jsonl"), *(f"Question {number}" for number in range(tasks)))
    return Config.model_validate({**stub_config(stub.url, path, samples=3), "max_workers": 4, **changes})


async def take(checked: Config, most: int | None = None, ahead: int = 4) -> list[Group]:
    """The groups of a stream, all or the first so many."""
    taken: list[Group] = []
    async with open_run(checked, Path("run"), resume=True) as opened:
        stream = opened.engine.stream(ahead)
        async for group in stream:
            taken.append(group)
            if len(taken) == most:
                break
        await stream.aclose()
    return taken


async def test_every_group_comes_once_and_whole(stub: StubServer) -> None:
    groups = await take(config(stub))
    assert sorted(group.task.id for group in groups) == [f"task{number}" for number in range(6)]
    for group in groups:
        assert [leaf.number for leaf in group.leaves] == [0, 1, 2]
        assert [head.id for head in group.heads] == [group.task.id, f"{group.task.id}~1", f"{group.task.id}~2"]
        assert group.rewards == [None] * 3, "nothing to check: no reward, never a 0"
    assert len(read_lines(OUT)) == 18


async def test_work_goes_on_while_a_group_is_trained_on(stub: StubServer) -> None:
    async with open_run(config(stub, ahead := 5), Path("run"), resume=True) as opened:
        stream = opened.engine.stream(ahead)
        await anext(stream)
        while opened.engine.progress.done < 15:
            await stub_idle()
        assert len([group async for group in stream]) == 4


async def test_a_stream_that_could_not_begin_is_refused(stub: StubServer) -> None:
    with pytest.raises(ValueError, match=r"ahead is 0.*expected 1 or more"):
        await take(config(stub), ahead=0)


async def test_nothing_is_begun_while_enough_groups_wait(stub: StubServer) -> None:
    async with open_run(config(stub, 30, max_workers=1), Path("run"), resume=True) as opened:
        stream = opened.engine.stream(2)
        await anext(stream)
        for _ in range(200):
            await stub_idle()
        assert opened.engine.progress.done <= 3 * 3 + 1
        await stream.aclose()


@pytest.mark.parametrize("most", [1, 3])
async def test_what_nobody_took_comes_again_and_is_not_paid_for_again(stub: StubServer, most: int) -> None:
    first = await take(config(stub), most, ahead=2)
    second = await take(config(stub))
    # The group that the consumer left with may have been worked on or not: it comes again.
    done = {group.task.id for group in first[:-1]}
    assert {group.task.id for group in second} == {f"task{number}" for number in range(6)} - done
    assert all(len(group.leaves) == 3 for group in second)
    lines = read_lines(OUT)
    assert len({line["id"] for line in lines}) == len(lines) == 18
    assert stub.stats.requests == sum(line["metadata"]["generations"] for line in lines)
    assert await take(config(stub)) == []


async def test_one_failing_attempt_costs_only_itself(stub: StubServer) -> None:
    async with StubServer({"rules": [{"when": {"every": 8}, "fault": "error500"}]}) as faulty:
        groups = await take(config(faulty, 4, retries={"attempts": 1}))
    assert len(groups) == 4
    statuses = [leaf.status for group in groups for leaf in group.leaves]
    assert len(statuses) == 12
    assert statuses.count("failed") >= 1
    assert statuses.count("completed") >= 6


async def stub_idle() -> None:
    """Let everything that can go on do so."""
    await asyncio.sleep(0.002)
