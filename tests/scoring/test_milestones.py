"""States that must be reached on the way, and states that must not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollout.core.changes import Changes, TableChange
from rollout.core.errors import ConfigError
from rollout.core.messages import ToolResult
from rollout.core.task import Task
from rollout.core.world import Invocation, World
from rollout.scoring.conditions import Condition
from rollout.scoring.milestones import MilestoneScorer
from rollout.scoring.rules import NO_RULES, Rules
from tests.scoring.desk import Calls, Desk, write_library
from tests.trajectories.lines import make_nodes

OLD = {"loan_id": "L1", "status": "active", "fee": 5}
NEW = {**OLD, "status": "renewed", "fee": 7.5}
CHANGES: Changes = {
    "Loan": TableChange(
        (NEW, {"loan_id": "L9", "status": "pending", "fee": 0}), (OLD, {"loan_id": "L2", "status": "active", "fee": 1})
    )
}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(write_library(tmp_path))


@pytest.mark.parametrize(
    ("declared", "fits"),
    [
        ({"table": "Loan", "added": {}}, ["L9"]),
        ({"table": "Loan", "added": {"loan_id": "L1"}}, []),
        ({"table": "Loan", "removed": {}}, ["L2"]),
        ({"table": "Loan", "removed": {"loan_id": "L1"}}, []),
        ({"table": "Loan", "row": {}}, ["L1", "L9"]),
        ({"table": "Loan", "row": {"status": "renewed"}}, ["L1"]),
        ({"table": "Loan", "row": {"status": "active"}}, []),
        ({"table": "Loan", "row": {"fee": 7.5}}, ["L1"]),
        ({"table": "Loan", "row": {"fee": {"$min": 1}}}, ["L1"]),
        ({"table": "Loan", "row": {"fee": {"$min": 0, "$max": 1}}}, ["L9"]),
        ({"table": "Loan", "row": {"status": {"$in": ["renewed", "lost"]}}}, ["L1"]),
        ({"table": "Loan", "row": {"status": {"$not": "renewed"}}}, ["L9"]),
        ({"table": "Loan", "row": {"status": {"$not": {"$in": ["renewed", "pending"]}}}}, []),
        ({"table": "Loan", "row": {"status": {"$contains": "new"}}}, ["L1"]),
        ({"table": "Loan", "row": {"nothing": None}}, ["L1", "L9"]),
        ({"table": "Loan", "row": {}, "count": 2}, ["L1", "L9"]),
        ({"table": "Loan", "row": {}, "count": 3}, []),
        ({"table": "Fee", "row": {}}, []),
    ],
)
def test_condition_fits_the_rows_it_describes(declared: dict[str, Any], fits: list[str]) -> None:
    assert [row["loan_id"] for row in Condition(declared, NO_RULES).rows(CHANGES)] == fits


def test_key_of_a_table_may_be_declared() -> None:
    changes: Changes = {"Shelf": TableChange(({"spot": "a", "full": True},), ({"spot": "a", "full": False},))}
    condition = {"table": "Shelf", "added": {}}
    assert Condition(condition, NO_RULES).rows(changes), "without a key a changed row is a row gone and a row come"
    assert not Condition(condition, Rules(keys={"Shelf": "spot"})).rows(changes)


@pytest.mark.parametrize(
    "declared",
    [
        "Loan",
        {"table": "Loan"},
        {"row": {}},
        {"table": "Loan", "row": {}, "added": {}},
        {"table": "Loan", "row": []},
        {"table": "Loan", "row": {}, "count": 0},
        {"table": "Loan", "row": {}, "often": 1},
        {"table": "Loan", "row": {"fee": {"$more": 1}}},
        {"table": "Loan", "row": {"fee": {"$in": 1}}},
    ],
)
def test_condition_that_says_nothing_is_an_error(declared: Any) -> None:
    with pytest.raises(ConfigError):
        Condition(declared, NO_RULES)


BORROW: Calls = [("borrow", {"title": "Dune"})]
RENEW: Calls = [("renew_loan", {"loan_id": "L1", "confirm": True})]
GIVE_BACK: Calls = [("return_loan", {"loan_id": lambda results: results[0]["loan_id"]})]
BORROWED = {"table": "Loan", "added": {"title": "Dune"}, "name": "borrowed"}
RENEWED = {"table": "Loan", "row": {"loan_id": "L1", "status": "renewed"}, "name": "renewed"}


async def test_milestone_counts_although_it_is_left_again(desk: Desk) -> None:
    task = desk.task([("list_loans", {})], milestones=[BORROWED])
    verdict = await desk.verdict(task, [*BORROW, *GIVE_BACK])
    assert verdict.solved is True
    score = verdict.scores[-1]
    assert score.evidence["reached"] == [{"milestone": "borrowed", "message": 1, "call": "borrow"}]
    missed = await desk.verdict(task, [])
    assert missed.solved is False
    assert missed.scores[-1].evidence["missed"] == ["borrowed"]


async def test_order_of_milestones_matters_where_it_is_declared(desk: Desk) -> None:
    free = desk.task([*BORROW, *RENEW], milestones=[BORROWED, RENEWED])
    ordered = desk.task([*BORROW, *RENEW], milestones=[BORROWED, {**RENEWED, "ordered": True}])
    backwards = [*RENEW, *BORROW]
    assert (await desk.score("milestones", free, backwards)).value == 1.0
    score = await desk.score("milestones", ordered, backwards)
    assert (score.value, score.partial) == (0.0, 0.5)
    assert score.evidence["missed"] == ["renewed"]
    assert (await desk.score("milestones", ordered, [*BORROW, *RENEW])).value == 1.0


async def test_minefield_fails_although_it_is_left_again(desk: Desk) -> None:
    task = desk.task([("list_loans", {})], minefields=[{"table": "Loan", "removed": {}}, BORROWED])
    assert (await desk.verdict(task, [("list_loans", {})])).solved is True
    verdict = await desk.verdict(task, [*BORROW, *GIVE_BACK])
    assert verdict.solved is False
    state, minefields = (next(s for s in verdict.scores if s.name == name) for name in ("state", "minefields"))
    assert (state.value, minefields.value, minefields.partial) == (1.0, 0.0, 0.5), "only the way shows it"
    (entered,) = minefields.evidence["entered"]
    assert (entered["minefield"], entered["call"], entered["rows"][0]["title"]) == ("borrowed", "borrow", "Dune")


async def test_way_that_cannot_be_replayed_is_unscored(desk: Desk) -> None:
    task = desk.task([("list_loans", {})], minefields=[BORROWED])
    world = desk.environment.make_world(task)
    trajectory = await desk.converse(world, task, BORROW)
    forged = [
        msgspec.structs.replace(message, content='{"success": true}') if message.role == "tool" else message
        for message in trajectory.messages
    ]
    verdict = await desk.panel.judge(task, msgspec.structs.replace(trajectory, nodes=make_nodes(forged)), world)
    await world.close()
    (score,) = (score for score in verdict.scores if score.name == "minefields")
    assert score.value is None
    assert "answers differently from the record" in score.reason


async def test_no_irreversible_call_is_made_again_to_see_the_way(desk: Desk) -> None:
    task = desk.task([("list_loans", {})], milestones=[BORROWED])
    world = desk.environment.make_world(task)
    trajectory = await desk.converse(world, task, BORROW)
    made: list[str] = []

    def watched(task: Task) -> World:
        again = desk.environment.make_world(task)
        call = again.call

        async def note(invocations: Sequence[Invocation]) -> list[ToolResult]:
            made.extend(each.name for each in invocations)
            return await call(invocations)

        again.call = note  # type: ignore[method-assign]
        return again

    scorer = MilestoneScorer(watched, lambda task: 0, irreversible={"borrow"})
    score = await scorer.score(task, trajectory, world)
    await world.close()
    assert made == []
    assert score is not None
    assert score.value is None
    assert "irreversible" in score.reason


async def test_conditions_that_cannot_be_read_are_unscored(desk: Desk) -> None:
    verdict = await desk.verdict(desk.task(RENEW, milestones=[{"table": "Loan"}]), RENEW)
    assert verdict.solved is None
    assert "task_info.milestones" in (verdict.unscored or "")
