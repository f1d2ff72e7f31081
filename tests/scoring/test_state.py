"""Scoring by state: what was missed, what was done wrong, what was done besides."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rollout.messages import ToolCall
from rollout.scoring.scorer import Score, Trajectory
from rollout.scoring.state import StateScorer
from rollout.tasks.jsonl import TaskFile
from rollout.tasks.task import Action, Task
from rollout.trajectories.stop import Status, StopReason
from rollout.worlds.calls import CallReader
from rollout.worlds.tools.domain import SHIPPED, load_domain
from rollout.worlds.tools.mock import MockServers, MockWorld
from rollout.worlds.world import Invocation

BASE = SHIPPED / "single_domain"
DOMAIN = load_domain(BASE, "StudentAcademicPortal", [])
SERVERS = MockServers(DOMAIN)
READER = CallReader(DOMAIN.toolset)
TRAJECTORY = Trajectory("t", [], Status.COMPLETED, StopReason.USER_STOP, True)
TASKS = {task.id: task for task in TaskFile(BASE / "queries" / "StudentAcademicPortal.jsonl")}


def scorer() -> StateScorer:
    return StateScorer(lambda: MockWorld(SERVERS), lambda task: 1)


async def play(task: Task, actions: list[tuple[str, dict[str, Any]]]) -> Score:
    world = MockWorld(SERVERS)
    await world.open(task, 1)
    for name, arguments in actions:
        read = READER.read(ToolCall("c", name, json.dumps(arguments)))
        assert isinstance(read, Invocation), read
        await world.call([read])
    score = await scorer().score(task, TRAJECTORY, world)
    assert score is not None
    return score


def with_kind(kind: str) -> Task:
    return next(task for task in TASKS.values() if task.info.get("kind") == kind)


def reference(task: Task) -> list[tuple[str, dict[str, Any]]]:
    return [(action.name, action.arguments) for action in task.actions or ()]


@pytest.mark.parametrize("kind", ["update", "insert", "delete"])
async def test_reference_passes_and_an_idle_agent_does_not(kind: str) -> None:
    task = with_kind(kind)
    assert (await play(task, reference(task))).value == 1.0
    idle = await play(task, [])
    assert idle.value == 0.0
    assert idle.evidence["tables"], "and says which rows differ"


async def test_extra_write_is_damage_even_when_the_task_is_done() -> None:
    task = with_kind("insert")
    damage = [*reference(task), ("update_contact_details", {"phone": "555-111-2222", "confirm": True})]
    score = await play(task, damage)
    assert score.value == 0.0
    assert "Student" in score.evidence["tables"]


async def test_reads_in_any_number_and_order_change_nothing() -> None:
    task = with_kind("update")
    actions = reference(task)
    score = await play(
        task, [actions[0], ("get_profile", {}), ("list_enrollments", {}), *actions[1:], ("get_profile", {})]
    )
    assert score.value == 1.0


async def test_reference_that_does_not_run_leaves_the_task_unscored() -> None:
    task = Task(id="bad", actions=(Action("drop_course", {"section_id": "NOPE", "confirm": True}),))
    score = await play(task, [])
    assert score.value is None
    assert not score.is_pass
    assert "reference action 0 (drop_course) failed" in score.reason


async def test_task_without_reference_is_not_scored_at_all() -> None:
    world = MockWorld(SERVERS)
    await world.open(Task(id="x"), 1)
    assert await scorer().score(Task(id="x"), TRAJECTORY, world) is None
