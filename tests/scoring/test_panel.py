"""From scores to a verdict: what decides, what is left open, and what is nobody's pass."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from rollout.core.errors import ConfigError
from rollout.core.messages import NO_TOOLS
from rollout.core.task import Task
from rollout.core.world import World
from rollout.environments.empty import EmptyWorld
from rollout.scoring.panel import Panel, Verdict
from rollout.tasks.jsonl import parse_task
from rollout.testing import StubServer
from rollout.trajectories.score import Score
from rollout.trajectories.stop import Status
from rollout.trajectories.trajectory import Trajectory
from tests.conftest import read_lines, roll_out, stub_config, write_tasks
from tests.scoring.desk import Calls, Desk, write_library
from tests.trajectories.lines import trajectory

TRAJECTORY = trajectory()
RENEW: Calls = [("renew_loan", {"loan_id": "L1", "confirm": True})]


class Says:
    """A scorer that says this."""

    def __init__(self, name: str, value: float | Exception | None, waits: float = 0.0) -> None:
        self.name = name
        self._value = value
        self._waits = waits

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        await asyncio.sleep(self._waits)
        if isinstance(self._value, Exception):
            raise self._value
        return Score(self.name, self._value, f"{self.name} says so")


class Politeness:
    """A scorer of somebody else's: counts thanks."""

    name = "politeness"

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score | None:
        said = [message.content or "" for message in trajectory.messages if message.role == "assistant"]
        return Score(self.name, float(any("please" in text for text in said)), "looked for please")


async def verdict_of(*scorers: Says, decide: list[str] | None = None, **info: Any) -> Verdict:
    task = parse_task({"id": "t", "messages": [], "task_info": info})
    return await Panel(scorers, decide=decide, timeout=0.2).judge(task, TRAJECTORY, EmptyWorld(NO_TOOLS))


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


async def test_a_scorer_whose_exception_cannot_be_put_into_words_leaves_it_unscored() -> None:
    verdict = await verdict_of(Says("state", Silent()))
    assert verdict.scores[0].reason == "could not be scored: Silent: <no text: its __str__ raises>"


@pytest.mark.parametrize("values", list(itertools.product((1.0, 0.0, 0.9, None), repeat=2)))
async def test_a_failed_score_decides_and_an_open_one_leaves_it_open(values: tuple[float | None, float | None]) -> None:
    verdict = await verdict_of(Says("state", values[0]), Says("communicate", values[1]))
    if any(value is not None and value < 1 for value in values):
        assert verdict.solved is False
    elif None in values:
        assert verdict.solved is None
        assert "says so" in (verdict.unscored or "")
        assert not verdict.is_success(Status.COMPLETED, ended_properly=True), "never a pass"
    else:
        assert verdict.solved is True


async def test_nothing_checked_is_a_verdict_of_its_own() -> None:
    verdict = await verdict_of()
    assert (verdict.solved, verdict.scored) == (None, False)
    assert "nothing was checked" in (verdict.unscored or "")
    assert verdict.is_success(Status.COMPLETED, ended_properly=True), "there was nothing to check: it ended properly"
    assert not verdict.is_success(Status.TRUNCATED, ended_properly=True)
    beside = await verdict_of(Says("state", 1.0), decide=[])
    assert beside.solved is None, "a score that decides nothing is no check"


async def test_dataset_chooses_who_decides_before_the_task_does() -> None:
    scorers = (Says("state", 1.0), Says("actions", 0.0), Says("mine", 0.0))
    assert (await verdict_of(*scorers)).solved is False, "custom scorers decide, actions beside a state do not"
    assert (await verdict_of(scorers[0], scorers[1])).solved is True
    assert (await verdict_of(scorers[1])).solved is False, "without a state, actions decide"
    assert (await verdict_of(*scorers, scoring={"decide": ["state"]})).solved is True
    assert (await verdict_of(*scorers, decide=["actions"], scoring={"decide": ["state"]})).solved is False


@pytest.mark.parametrize("scoring", [{"decide": ["states"]}, {"decides": ["state"]}, {"decide": "state"}])
async def test_choice_of_a_task_that_cannot_be_followed_leaves_it_unscored(scoring: dict[str, Any]) -> None:
    verdict = await verdict_of(Says("state", 1.0), scoring=scoring)
    assert verdict.solved is None
    assert "task_info.scoring.decide" in (verdict.unscored or "")
    assert not verdict.is_success(Status.COMPLETED, ended_properly=True)


async def test_scorer_that_breaks_or_hangs_leaves_its_part_unscored() -> None:
    broken = await verdict_of(Says("state", RuntimeError("no")), Says("communicate", 1.0))
    assert broken.solved is None
    assert "RuntimeError: no" in (broken.unscored or "")
    hanging = await verdict_of(Says("state", 1.0, waits=60.0))
    assert hanging.solved is None
    assert "timeouts.scoring" in (hanging.unscored or "")


async def test_custom_scorer_is_found_by_reference_and_decides(tmp_path: Path) -> None:
    base = write_library(tmp_path)
    desk = Desk(base, custom=["tests.scoring.test_panel:Politeness"])
    task = desk.task(RENEW)
    assert (await desk.verdict(task, RENEW, "Done, please come again.")).solved is True
    assert (await desk.verdict(task, RENEW, "Done.")).solved is False
    aside = Desk(base, custom=["tests.scoring.test_panel:Politeness"], decide=["state"])
    assert (await aside.verdict(aside.task(RENEW), RENEW, "Done.")).solved is True


async def test_custom_scorer_is_found_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = tmp_path / "site"
    (plugin / "polite-1.0.dist-info").mkdir(parents=True)
    (plugin / "polite-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: polite\nVersion: 1.0\n")
    points = "[rollout.scorers]\npolite = tests.scoring.test_panel:Politeness\n"
    (plugin / "polite-1.0.dist-info" / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(plugin))
    desk = Desk(write_library(tmp_path / "data"), custom=["polite"])
    assert "politeness" in desk.panel.names


@pytest.mark.parametrize(
    ("scoring", "said"),
    [
        ({"decide": ["states"]}, "did you mean 'state'"),
        ({"decide": ["nl_assertions"]}, "scoring.judge"),
        ({"custom": ["nobody"]}, "no scorer 'nobody'"),
        ({"custom": ["tests.scoring.test_panel:RENEW"]}, "has no method score"),
        ({"custom": ["tests.scoring.test_panel:Nothing"]}, "cannot be imported"),
    ],
)
def test_settings_that_cannot_work_are_errors(tmp_path: Path, scoring: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Desk(write_library(tmp_path), **scoring)


async def test_run_counts_the_unscored_apart_and_never_as_solved(tmp_path: Path) -> None:
    queries: list[dict[str, Any]] = [
        {"id": "solved", "messages": [{"role": "user", "content": "Renew"}], "task_info": {"actions": [
            {"name": "renew_loan", "arguments": {"loan_id": "L1", "confirm": True}}]}},
        {"id": "broken", "messages": [{"role": "user", "content": "Renew"}], "task_info": {"actions": [
            {"name": "renew_loan", "arguments": {"loan_id": "L1", "confirm": True}},
            {"name": "renew_loan", "arguments": {"loan_id": "NOPE", "confirm": True}}]}},
    ]  # fmt: skip
    base = write_library(tmp_path / "data", queries)
    dataset = {
        "mcp_domain": "LibraryDesk", "base_path": base, "output_path": "out.jsonl", "agent": "builtin/oracle",
        "max_steps_per_turn": 5,
    }  # fmt: skip
    opened = await roll_out({"enable_monitor": False, "datasets": {"library": dataset}})
    lines = {line["id"]: line for line in read_lines(Path("out.jsonl"))}
    assert (lines["solved"]["success"], lines["solved"]["metadata"]["scored"]) == (True, True)
    assert lines["solved"]["metadata"]["unscored"] is None
    assert (lines["broken"]["success"], lines["broken"]["metadata"]["scored"]) == (False, False)
    assert "reference action 1" in lines["broken"]["metadata"]["unscored"]
    assert opened.summary is not None
    total = opened.summary.total
    assert (total.scored, total.solved, total.solved_rate, total.unscored) == (1, 1, 1.0, 1)


async def test_server_whose_state_cannot_be_read_is_scored_by_its_calls(tmp_path: Path) -> None:
    base = write_library(tmp_path)
    server = base / "mcp_servers" / "LibraryDesk.py"
    server.write_text(server.read_text().replace("_get_session", "_session_of"))
    desk = Desk(base)
    task = desk.task(RENEW)
    done, idle = await desk.verdict(task, RENEW), await desk.verdict(task, [])
    assert (done.solved, idle.solved) == (True, False)
    assert [(score.name, score.decides) for score in done.scores] == [("actions", True)]


async def test_functions_as_tools_are_scored_by_actions(tmp_path: Path) -> None:
    """No state to compare: then what was called decides, and the functions are not called again for it."""
    action = {"name": "echo", "arguments": {"text": "hello"}}
    tasks = [
        {"id": f"t{number}", "messages": [{"role": "user", "content": "x"}], "task_info": {"actions": actions}}
        for number, actions in enumerate(([action], [action, action]))
    ]
    rules = [{"when": {"step": 0}, "reply": {"tool_calls": [{"name": "echo", "arguments": {"text": "hello"}}]}},
             {"reply": {"content": "Done"}}]  # fmt: skip
    async with StubServer({"rules": rules}) as stub:
        await roll_out(stub_config(stub.url, write_tasks(tmp_path / "tasks.jsonl", *tasks)))
    lines = {line["id"]: line for line in read_lines(Path("out.jsonl"))}
    assert [(lines[name]["success"], lines[name]["metadata"]["scored"]) for name in ("t0", "t1")] == [
        (True, True), (False, True),
    ]  # fmt: skip
