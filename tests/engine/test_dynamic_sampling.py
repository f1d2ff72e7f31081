"""Dynamic sampling: tasks are opened until enough groups are useful."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rollout.config.exploring import Dynamic
from rollout.core.errors import ConfigError
from rollout.engine.admission import DynamicSampling
from rollout.store.reading.reader import open_reader
from rollout.terminal.summary import show_summary
from tests.conftest import read_lines, roll_out

OUT = Path("out.jsonl")


def config(strategy: dict[str, Any], **dynamic: Any) -> dict[str, Any]:
    portal = {
        "mcp_domain": "StudentAcademicPortal",
        "output_path": OUT,
        "agent": {"model": "builtin/oracle", "params": {"stop_early": 0.15}},
        "user": "builtin/user",
        "max_turns": 20,
        "max_steps_per_turn": 15,
        "strategy": strategy,
    }
    return {
        "seed": 5,
        "max_workers": 8,
        "mock_servers": {"isolation": "none"},
        "dynamic": dynamic,
        "datasets": {"portal": portal},
    }


CHAIN = {"name": "chain", "params": {"n": 4}}
TREE = {"name": "random_tree", "params": {"trees": 2, "expansions": 1}}


def groups() -> dict[str, Any]:
    with open_reader(Path("run")) as reader:
        return reader.groups_by_task("portal")


@pytest.mark.parametrize("strategy", [CHAIN, TREE], ids=["chain", "tree"])
async def test_tasks_are_opened_until_enough_groups_are_useful(strategy: dict[str, Any]) -> None:
    opened = await roll_out(config(strategy, groups=4))
    assert opened.summary is not None
    total, found = opened.summary.total, groups()
    assert 4 <= total.useful_groups == sum(group.is_mixed for group in found.values())
    assert len(found) < 45, "not every task was needed"
    assert all(group.attempts == 4 for group in found.values()), "what was opened is finished"
    assert (total.planned, total.unfinished) == (45 * 4, 0)
    assert total.not_needed == total.planned - total.finished == (45 - len(found)) * 4
    metrics = json.loads(Path("run/metrics.json").read_text())["total"]
    assert (metrics["useful_groups"], metrics["groups"]) == (total.useful_groups, len(found))


@pytest.mark.parametrize(
    ("limits", "tasks", "told"),
    [
        ({"max_tasks": 6}, 6, "after 6 tasks (dynamic.max_tasks); raise it"),
        ({}, 45, "after 45 tasks (all there are); add tasks"),
    ],
)
async def test_ending_short_of_the_wanted_groups_is_said_and_shown(
    limits: dict[str, int],
    tasks: int,
    told: str,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    opened = await roll_out(config(CHAIN, groups=46, oversample=1, **limits))
    assert opened.summary is not None
    assert len(groups()) == tasks
    total = opened.summary.total
    assert total.unfinished == 0
    assert f"only {total.useful_groups} of the 46 wanted groups are useful {told}" in caplog.text
    metrics = json.loads(Path("run/metrics.json").read_text())["dynamic"]
    assert metrics == {"wanted_groups": 46, "useful_groups": total.useful_groups, "opened_tasks": tasks}
    show_summary(Console(width=100), opened, "again", None)
    rows = {line.split("│")[1].strip(): line.split("│")[2].strip() for line in shown_rows(capsys)}
    assert rows["useful groups"] == f"{total.useful_groups} of {tasks}"
    assert rows["wanted groups"] == "46"


def shown_rows(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]


async def test_enough_groups_and_a_paused_run_are_no_reason_to_warn(caplog: pytest.LogCaptureFixture) -> None:
    await roll_out(config(CHAIN, groups=4), pause_when=lambda progress: progress.generations >= 5)
    await roll_out(config(CHAIN, groups=4))
    assert "wanted groups" not in caplog.text


@pytest.mark.parametrize("strategy", [CHAIN, TREE], ids=["chain", "tree"])
async def test_a_stopped_run_opens_no_more_than_it_needs(strategy: dict[str, Any]) -> None:
    for step in (5, 15, 30):
        await roll_out(config(strategy, groups=3), pause_when=lambda progress, step=step: progress.generations >= step)
    opened = await roll_out(config(strategy, groups=3))
    found = groups()
    assert opened.summary is not None
    assert opened.summary.total.unfinished == 0
    assert all(group.attempts == 4 for group in found.values())
    before = [line["id"] for line in read_lines(OUT)]
    assert len(before) == len(set(before))
    useful = sum(group.is_mixed for group in found.values())
    assert useful >= 3
    await roll_out(config(strategy, groups=3))
    assert groups() == found, "there are enough"
    more = await roll_out(config(strategy, groups=useful + 2))
    assert more.summary is not None
    assert more.summary.total.useful_groups >= useful + 2


async def test_single_attempts_are_refused_because_no_group_of_them_is_useful() -> None:
    with pytest.raises(ConfigError, match=r"datasets\.portal\.strategy: dynamic .* each has one attempt"):
        await roll_out(config({"name": "chain", "params": {"n": 1}}, groups=4))


def test_so_many_tasks_are_open_as_groups_are_missing() -> None:
    rule = DynamicSampling(Dynamic(groups=3, oversample=1.5), begun=set(), useful=1)
    opened = []
    for number in range(9):
        if rule.may_open(("d", f"t{number}")):
            rule.open(("d", f"t{number}"))
            opened.append(number)
    assert opened == [0, 1, 2], "two are missing, three are open"
    rule.close(("d", "t0"), True)
    assert not rule.may_open(("d", "t7")), "one is missing, and two are open"
    rule.close(("d", "t1"), False)
    assert rule.may_open(("d", "t7"))
    rule.close(("d", "t2"), True)
    assert rule.is_over
    assert not rule.may_open(("d", "t8"))
    assert rule.may_open(("d", "t2")), "what was opened is always finished"
