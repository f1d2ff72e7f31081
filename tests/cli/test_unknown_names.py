"""A name in a configuration, a task or a command that matches nothing is an error that names the nearest one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollout.cli.batch import perform
from rollout.cli.check import DatasetCheck, check_config
from rollout.config.filters import Filters
from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.pipelines.wiring.active_filters import make_filters
from rollout.pipelines.wiring.discover import with_discovered
from tests.conftest import Command, roll_out, write_tasks, write_yaml

PORTAL: dict[str, Any] = {"mcp_domain": "StudentAcademicPortal", "agent": "builtin/oracle", "limit": 1}


def check(**dataset: Any) -> DatasetCheck:
    config = {"mock_servers": {"isolation": "none"}, "datasets": {"d": {**PORTAL, **dataset}}}
    (report,) = check_config(Config.model_validate(config), ["d"])
    return report


MISTAKES: list[tuple[dict[str, Any], str]] = [
    (
        {"mcp_domain": "StudentAcademicPortl", "tools": ["student_academic_portal_mcp"], "path": "tasks.jsonl"},
        "mcp_domain 'StudentAcademicPortl' names no known servers; did you mean 'StudentAcademicPortal'?",
    ),
    (
        {"mcp_domain": "StudentAcademicPortl_StudentFinancialService"},
        "did you mean 'StudentAcademicPortal_StudentFinancialServices'?",
    ),
    ({"tools": ["student_academic_portl_mcp"]}, "no server for tools entry 'student_academic_portl_mcp'"),
    ({"mcp_domain": None, "path": "tasks.jsonl", "policy": "p.md"}, "policy: belongs to a domain"),
    ({"policy": "nowhere.md"}, "nowhere.md: cannot read the policy"),
    ({"scoring": {"decide": ["stat"]}}, "there is no scorer 'stat'; did you mean 'state'?"),
    ({"strategy": "chian"}, "there is no 'chian'; did you mean 'chain'?"),
    ({"agent": "builtin/user"}, "builtin/user is only a user"),
    ({"agent": {"model": "builtin/oracle", "params": {"wrong_arguments": 0.1}}}, "did you mean 'wrong_argument'?"),
]


@pytest.mark.parametrize(("dataset", "told"), MISTAKES)
async def test_neither_a_dry_run_nor_a_run_passes_over_a_name_that_matches_nothing(
    dataset: dict[str, Any], told: str
) -> None:
    write_tasks(Path("tasks.jsonl"), {"id": "t", "messages": [{"role": "user", "content": "?"}], "task_info": {}})
    config = {"mock_servers": {"isolation": "none"}, "datasets": {"d": {**PORTAL, **dataset}}}
    with pytest.raises(ConfigError) as raised:
        await roll_out(config)
    assert told in str(raised.value)
    assert not Path("run").exists()


@pytest.mark.parametrize(("dataset", "told"), MISTAKES)
def test_a_dry_run_names_each_of_them(dataset: dict[str, Any], told: str) -> None:
    write_tasks(Path("tasks.jsonl"), {"id": "t", "messages": [{"role": "user", "content": "?"}], "task_info": {}})
    assert any(told in problem for problem in check(**dataset).problems)


async def test_an_irreversible_tool_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no tool enrol_course; did you mean 'enroll_course'"):
        await roll_out({"datasets": {"d": {**PORTAL, "irreversible": ["enrol_course"]}}})


def test_a_dry_run_names_scorers_and_tools_that_only_tasks_name() -> None:
    def task(identifier: str, **info: Any) -> dict[str, Any]:
        return {"id": identifier, "messages": [{"role": "user", "content": "?"}], "task_info": info}

    path = write_tasks(
        Path("tasks.jsonl"),
        task("a", actions=[{"name": "enrol_course", "arguments": {}}]),
        task("b", actions=[], scoring={"decide": ["colour"]}),
        task("c", actions=[{"name": "enroll_course", "arguments": {}}]),
    )
    report = check(path=str(path))
    assert any("task b: task_info.scoring.decide: there is no scorer colour" in problem for problem in report.problems)
    (warning,) = [text for text in report.warnings if "task_info.actions" in text]
    assert "tools that are not offered: 1, such as 'enrol_course' in task 'a'; did you mean 'enroll_course'?" in warning


def test_filters_know_their_stop_reasons() -> None:
    wrong = Filters.model_validate({"overlong": {"stop_reasons": ["max_turn"]}})
    with pytest.raises(ConfigError, match="there is no stop reason 'max_turn'; did you mean 'max_turns'"):
        make_filters(wrong)
    assert any("did you mean 'max_turns'?" in problem for problem in check(filters=wrong.model_dump()).problems)


@pytest.mark.parametrize("key", ["filter_domains", "exclude_domains"])
def test_discovery_knows_the_domains_that_it_filters_by(key: str) -> None:
    config = Config.model_validate({"auto_discover": {key: ["HotelReservation"]}})
    with pytest.raises(ConfigError, match=f"auto_discover.{key}: .*did you mean 'HotelReservations'"):
        with_discovered(config)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"models_config": Path("modles.yml")}, "--models-config: modles.yml is not a file"),
        ({"query_dir": Path("querys")}, "--query-dir: querys is not a folder"),
        ({"policy_dir": Path("polices")}, "--policy-dir: polices is not a folder"),
    ],
)
def test_batch_options_name_files_that_exist(
    option: dict[str, Path], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"query_dir": None, "policy_dir": None, "models_config": Path("configs/models.yml")}
    code = perform(
        "single", all_=False, list_=True, generate_configs=False, domains=None, base_path=None, output_dir=Path("out"),
        config_output_dir=Path("configs"), resume=True, quiet=True, verbose=False, dry_run=False,
        **{**settings, **option},
    )  # fmt: skip
    assert code == 2
    assert told in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("strategy", [{"name": "mcts"}, {"name": "chain", "params": {"n": 3}}], ids=["mcts", "chain"])
def test_samples_that_the_strategy_would_ignore_are_refused(strategy: dict[str, Any], rollout: Command) -> None:
    dataset = {"mcp_domain": "StudentAcademicPortal", "agent": "builtin/oracle", "samples": 2, "strategy": strategy}
    config = write_yaml(Path("c.yml"), {"datasets": {"portal": dataset}})
    done = rollout("run", str(config), "--dry-run")
    assert done.code == 2
    assert f"datasets.portal.samples: would be ignored beside {strategy['name']}" in done.out
    assert rollout("run", str(config), "--dry-run", "--strategy", "random_tree").code == 0, "an option replaces both"
