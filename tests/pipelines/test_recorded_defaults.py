"""Defaults of a run: what they are, and that a run begun under other ones goes on as it began."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from rollout.config.schema import Config, Dataset
from rollout.core.errors import JournalError
from rollout.terminal.summary import show_summary
from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out, stub_config, write_tasks

OUT = Path("out.jsonl")


def airline(**settings: Any) -> dict[str, Any]:
    """A config as a user writes it, whose agent makes no mistake."""
    dataset = {
        "mcp_domain": "AirlineReservations",
        "output_path": OUT,
        "agent": "builtin/oracle",
        "user": "builtin/user",
        "max_steps_per_turn": 15,
    }
    return {"mock_servers": {"isolation": "none"}, "datasets": {"air": dataset}, **settings}


async def test_a_flawless_agent_solves_every_query_by_default() -> None:
    opened = await roll_out(airline())
    assert opened.summary is not None
    total = opened.summary.total
    assert (total.planned, total.solved, total.passed_but_truncated) == (51, 51, 0)


async def test_the_summary_counts_attempts_that_passed_but_were_truncated(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    opened = await roll_out(airline(monitor_max_no_tool_turns=2))
    metrics = json.loads(Path("run/metrics.json").read_text())
    for sums in (metrics["total"], metrics["datasets"]["air"]):
        assert (sums["solved"], sums["passed_but_truncated"], sums["statuses"]["truncated"]) == (41, 10, 10)
    show_summary(Console(width=100), opened, "again", None)
    shown = capsys.readouterr().out
    assert "passed but truncated │ 10" in shown
    assert "10 truncated attempts passed every scorer" in shown


async def test_a_truncated_attempt_that_failed_a_scorer_is_not_counted_as_passed(stub: StubServer) -> None:
    task = {
        "id": "t",
        "messages": [{"role": "user", "content": "What is it?"}],
        "task_info": {"communicate": ["forty-two"], "actions": []},
    }
    tasks = write_tasks(Path("tasks.jsonl"), task)
    opened = await roll_out(
        stub_config(stub.url, tasks, user={"kind": "scripted", "messages": ["And?"] * 9}, max_turns=2)
    )
    assert opened.summary is not None
    total = opened.summary.total
    assert (total.statuses, total.scored, total.passed_but_truncated) == ({"truncated": 1}, 1, 0)


def test_a_dataset_with_a_user_has_twenty_turns_and_one_without_has_one() -> None:
    assert Dataset.model_validate({"user": "builtin/user"}).max_turns == 20
    assert Dataset.model_validate({}).max_turns == 1
    assert Dataset.model_validate({"user": "builtin/user", "max_turns": 1}).max_turns == 1


async def test_a_configured_user_is_used_without_max_turns(stub: StubServer) -> None:
    tasks = write_tasks(Path("tasks.jsonl"), "Hello")
    await roll_out(stub_config(stub.url, tasks, user={"kind": "scripted", "messages": ["More?", "Thanks"]}))
    (line,) = read_lines(OUT)
    assert [message["content"] for message in line["messages"] if message["role"] == "user"] == [
        "Hello",
        "More?",
        "Thanks",
    ]
    assert line["metadata"]["stop_reason"] == "script_end"


async def begin_as_before(config: dict[str, Any], pause_after: int, **old: Any) -> None:
    """Leave a run directory as it was left while `old` were the defaults: then, too, the whole configuration stood in
    run.json and `max_turns` in the journal."""
    began = {**config, **{key: value for key, value in old.items() if key != "max_turns"}}
    if "max_turns" in old:
        name = next(iter(config["datasets"]))
        began["datasets"] = {name: {**config["datasets"][name], "max_turns": old["max_turns"]}}
    await roll_out(began, pause_when=lambda progress: progress.generations >= pause_after)
    recorded = json.loads(Path("run/run.json").read_text())["config"]
    assert old.items() <= {**recorded, **next(iter(recorded["datasets"].values()))}.items()


async def test_a_run_begun_without_its_user_resumes_without_it(
    stub: StubServer, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = write_tasks(Path("tasks.jsonl"), *(f"Question {number}" for number in range(6)))
    config = {**stub_config(stub.url, tasks, user="builtin/user"), "max_workers": 2}
    await begin_as_before(config, 2, max_turns=1)
    assert len(read_lines(OUT)) < 6
    with caplog.at_level(logging.WARNING, "rollout"):
        for _ in range(2):
            opened = await roll_out(config)
            assert opened.plans[0].max_turns == 1
    assert "was begun with datasets.data.max_turns: 1 and goes on with that" in caplog.text
    assert [line["metadata"]["total_turns"] for line in read_lines(OUT)] == [1] * 6
    assert {line["metadata"]["user_model"] for line in read_lines(OUT)} == {None}


async def test_max_turns_that_somebody_sets_otherwise_is_still_refused(stub: StubServer) -> None:
    tasks = write_tasks(Path("tasks.jsonl"), "Question")
    config = stub_config(stub.url, tasks, user="builtin/user")
    await begin_as_before(config, 9, max_turns=1)
    with pytest.raises(JournalError, match="max_turns was 1, is 20"):
        await roll_out(stub_config(stub.url, tasks, user="builtin/user", max_turns=20))
    await roll_out(config, resume=False)
    assert read_lines(OUT)[0]["metadata"]["user_model"] == "builtin/user", "started anew, it has its user"


async def test_a_run_begun_under_a_stricter_monitor_resumes_under_it() -> None:
    config = airline(max_workers=4)
    await begin_as_before(config, 60, monitor_max_no_tool_turns=2)
    for _ in range(2):
        opened = await roll_out(config)
        assert opened.summary is not None
        assert (opened.summary.total.solved, opened.summary.total.unfinished) == (41, 0)
    recorded = json.loads(Path("run/run.json").read_text())["config"]
    assert recorded["monitor_max_no_tool_turns"] == 2, "and the next command finds it, too"


async def test_a_monitor_setting_that_somebody_sets_holds_on_resume() -> None:
    config = airline(max_workers=4)
    await begin_as_before(config, 20, monitor_max_no_tool_turns=2)
    opened = await roll_out(airline(monitor_max_no_tool_turns=5))
    assert opened.plans[0].monitor is not None
    assert opened.plans[0].monitor.max_no_tool_turns == 5


def test_every_command_has_the_same_default_for_the_monitor() -> None:
    from rollout.compat.batch import Batch
    from rollout.environments.domains.domain import SHIPPED

    settings = {
        "agent_model": "builtin/oracle", "agent_temperature": 0.7, "no_thinking": False, "user_model": "builtin/user",
        "user_temperature": 1.0, "max_turns": 20, "max_steps_per_turn": 10, "samples": 1, "max_workers": 8, "seed": 0,
        "models_config": Path("configs/models.yml"),
    }  # fmt: skip
    batch = Batch("single", SHIPPED, Path("out"), query_dir=None, policy_dir=None, **settings)
    document = batch.config(batch.find())
    assert Config.model_validate(document).monitor_max_no_tool_turns == Config().monitor_max_no_tool_turns == 5
