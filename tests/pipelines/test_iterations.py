"""Iterations on disk: numbers that continue, samples drawn once, a block list that works."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rollout.config.compose import compose_web
from rollout.config.models import AgentConfig
from rollout.config.schema import Config, Scoring
from rollout.config.web import WebConfig
from rollout.config.web_run import translate
from rollout.core.errors import ConfigError, NavigationError
from rollout.core.task import Task
from rollout.core.world import World
from rollout.pipelines.web_iterations import (
    Iteration,
    blocklist_of,
    choose_iteration,
    draw_sample,
    learn,
    list_iterations,
    sites_unreachable,
)
from rollout.trajectories.score import Score
from rollout.trajectories.trajectory import Trajectory
from tests.conftest import read_lines, roll_out, write_tasks

pytest.importorskip("hydra", reason="needs the extra rollout-engine[web]")

NOW = datetime.now(UTC)


class KeptOut:
    """Says `blocked` of the tasks whose site has the word in its name, as the web's own scorer says it of pages."""

    name = "blocked"
    is_advisory = True

    async def score(self, task: Task, trajectory: Trajectory, world: World) -> Score:
        return Score("blocked", 1.0 if "blocked" in task.info["website"] else 0.0)


def row(number: int, website: str = "https://free.com", difficulty: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "task_id": f"t{number}",
        "task_name": f"Task {number}",
        "website": website,
        "domain": "D",
        "subdomain": "S",
        "difficulty": difficulty,
        "evaluator_reference": ["fact"],
        "definite_answer": "",
        "actions": [],
    } | more


def experiment(*overrides: str, split: str = "train") -> WebConfig:
    given = ["save_path=exp", "data_path=.", "policy_config.base_model=builtin/oracle", *overrides]
    return compose_web(given, config_name=f"rollout_{split}")[0].config


def without_browser(web: WebConfig, iteration: Iteration) -> Config:
    """The iteration's run with no tools in place of browsers, which takes any site."""
    config = translate(web, iteration.number, iteration.paths, {}).config
    scoring = Scoring(custom=["tests.pipelines.test_iterations:KeptOut"])
    changed = {"web": None, "scoring": scoring, "agent": AgentConfig(model="builtin/oracle")}
    dataset = config.datasets[web.split].model_copy(update=changed)
    return config.model_copy(update={"datasets": {web.split: dataset}})


async def roll_iteration(web: WebConfig, now: datetime = NOW) -> Iteration:
    """What `rollout web` does for one iteration."""
    learn(web, now)
    iteration, is_begun = choose_iteration(web)
    if not is_begun:
        iteration.begin(draw_sample(web, iteration, now))
    await roll_out(without_browser(web, iteration), iteration.paths.run_dir)
    iteration.finish(web)
    return iteration


def sampled(iteration: Iteration) -> list[str]:
    return [line["id"] for line in read_lines(iteration.paths.tasks)]


async def test_site_found_blocked_is_not_sampled_again_until_it_expires() -> None:
    rows = [row(n, "https://www.blocked.com/page") for n in range(4)] + [row(n, "free.com") for n in range(4, 8)]
    write_tasks(Path("train.jsonl"), *rows)
    web = experiment("env_config.train_tasks_rollout_size=8")
    first = await roll_iteration(web)
    assert len(sampled(first)) == 8
    second = await roll_iteration(web, datetime.now(UTC))
    assert sorted(sampled(second)) == ["t4", "t5", "t6", "t7"]
    mark = second.mark()
    assert mark is not None
    assert any("block list" in note for note in mark.notes)
    entries = [json.loads(line) for line in Path("exp/blocklist.jsonl").read_text().splitlines()]
    assert {entry["domain"] for entry in entries} == {"blocked.com"}
    assert {entry["task_id"] for entry in entries} == {"t0", "t1", "t2", "t3"}
    later = datetime.now(UTC) + timedelta(hours=12, minutes=1)
    third = await roll_iteration(web, later)
    assert len(sampled(third)) == 8, "twelve hours later it is tried again"
    assert [one.number for one in (first, second, third)] == [0, 1, 2]


async def test_test_tasks_of_a_blocked_site_are_rolled_out_and_teach_training() -> None:
    rows = [row(0, "https://blocked.com"), row(1)]
    write_tasks(Path("train.jsonl"), *rows)
    write_tasks(Path("test.jsonl"), *rows)
    for _ in range(2):
        assert len(sampled(await roll_iteration(experiment(split="test")))) == 2
    assert sampled(await roll_iteration(experiment("env_config.train_tasks_rollout_size=2"))) == ["t1"]


async def test_what_a_killed_run_found_is_learnt_by_the_next_command_once() -> None:
    write_tasks(Path("train.jsonl"), *[row(n, f"https://blocked{n}.com") for n in range(6)])
    web = experiment("env_config.train_tasks_rollout_size=6", "env_config.server_size=1")
    iteration, _ = choose_iteration(web)
    iteration.begin(draw_sample(web, iteration, NOW))
    config = without_browser(web, iteration)
    await roll_out(config, iteration.paths.run_dir, pause_when=lambda progress: progress.done == 2)
    found = learn(web, datetime.now(UTC))
    assert 0 < len(found) < 6
    assert learn(web, datetime.now(UTC)) == []
    before = Path("exp/blocklist.jsonl").read_bytes()
    again, is_begun = choose_iteration(web)
    assert (again, is_begun) == (iteration, True)
    await roll_out(config, iteration.paths.run_dir)
    learn(web, datetime.now(UTC))
    after = Path("exp/blocklist.jsonl").read_bytes()
    assert after.startswith(before)
    assert len(after.splitlines()) == 6
    assert set(blocklist_of(web).blocked(datetime.now(UTC))) == {f"blocked{n}.com" for n in range(6)}


async def test_unfinished_iteration_is_gone_on_with_over_its_own_sample() -> None:
    write_tasks(Path("train.jsonl"), *[row(n) for n in range(20)])
    web = experiment("env_config.train_tasks_rollout_size=5")
    iteration, _ = choose_iteration(web)
    iteration.begin(draw_sample(web, iteration, NOW))
    drawn = sampled(iteration)
    write_tasks(Path("train.jsonl"), *[row(n) for n in range(100, 120)])
    again, is_begun = choose_iteration(web)
    assert is_begun
    await roll_out(without_browser(web, again), again.paths.run_dir)
    assert {line["task_id"] for line in read_lines(again.paths.output)} == set(drawn)


async def test_numbers_continue_and_resume_false_begins_the_next() -> None:
    write_tasks(Path("train.jsonl"), *[row(n) for n in range(20)])
    web = experiment("env_config.train_tasks_rollout_size=5")
    assert [(await roll_iteration(web)).number for _ in range(3)] == [0, 1, 2]
    unfinished, _ = choose_iteration(web)
    unfinished.begin(draw_sample(web, unfinished, NOW))
    assert choose_iteration(web) == (Iteration(Path("exp"), "train", 3), True)
    fresh = experiment("env_config.train_tasks_rollout_size=5", "resume=false")
    assert choose_iteration(fresh) == (Iteration(Path("exp"), "train", 4), False)
    assert choose_iteration(experiment(split="test")) == (Iteration(Path("exp"), "test", 0), False)


def test_files_of_another_tool_count_as_iterations() -> None:
    folder = Path("exp/train_trajectories")
    folder.mkdir(parents=True)
    (folder / "train_trajectories.pt.iteration6").touch()
    (folder / "train_trajectories.iteration2.jsonl").touch()
    (folder / "train_trajectories.pt.iteration9.checkpoint").touch()
    assert [one.number for one in list_iterations(Path("exp"), "train")] == [2, 6]
    assert choose_iteration(experiment("resume=false"))[0].number == 7


def test_files_of_trajectories_alone_are_never_gone_on_with() -> None:
    folder = Path("exp/train_trajectories")
    folder.mkdir(parents=True)
    (folder / "train_trajectories.pt.iteration3").touch()
    assert choose_iteration(experiment()) == (Iteration(Path("exp"), "train", 4), False)


async def test_iteration_whose_mark_cannot_be_read_is_finished_once() -> None:
    write_tasks(Path("train.jsonl"), *[row(n) for n in range(3)])
    web = experiment("env_config.train_tasks_rollout_size=3")
    iteration, _ = choose_iteration(web)
    iteration.begin(draw_sample(web, iteration, NOW))
    (iteration.paths.run_dir / "iteration.json").write_text('{"iterat')
    assert (await roll_iteration(web)) == iteration
    mark = iteration.mark()
    assert mark is not None
    assert (mark.iteration, mark.tasks) == (0, 3)
    assert choose_iteration(web) == (Iteration(Path("exp"), "train", 1), False)


async def test_finished_iteration_can_be_named_to_go_on_with_it() -> None:
    write_tasks(Path("train.jsonl"), row(0))
    iteration = await roll_iteration(experiment())
    for name in ("iteration0", "exp/train_trajectories/iteration0/", "train_trajectories.pt.iteration0"):
        assert choose_iteration(experiment(f"env_config.resume_checkpoint_path={name}")) == (iteration, True)
    with pytest.raises(ConfigError, match="names no iteration"):
        choose_iteration(experiment("env_config.resume_checkpoint_path=iteration7"))


async def test_iterations_share_no_task_where_that_is_asked_for() -> None:
    write_tasks(Path("train.jsonl"), *[row(n, "free.com") for n in range(10)])
    web = experiment("env_config.train_tasks_rollout_size=4", "env_config.deduplicate_across_iterations=true")
    had = [sampled(await roll_iteration(web)) for _ in range(3)]
    assert list(map(len, had)) == [4, 4, 2]
    assert len({task for one in had for task in one}) == 10


async def test_same_seed_draws_the_same_samples_in_another_experiment() -> None:
    write_tasks(Path("train.jsonl"), *[row(n) for n in range(50)])
    web = experiment("env_config.train_tasks_rollout_size=5")
    here = [sampled(await roll_iteration(web)) for _ in range(2)]
    other = experiment("env_config.train_tasks_rollout_size=5", "save_path=other")
    assert [sampled(await roll_iteration(other)) for _ in range(2)] == here
    assert here[0] != here[1]


def test_sample_has_the_steps_of_its_difficulty_and_the_hardest_first() -> None:
    write_tasks(
        Path("train.jsonl"), row(1, difficulty=2), row(2, difficulty=5), row(3, difficulty=9), row(4, max_steps=3)
    )
    web = experiment("env_config.train_difficulty_max_steps.hard=33")
    sample = draw_sample(web, Iteration(web.save_path, "train", 0), NOW)
    tasks = [json.loads(line) for line in sample.lines.splitlines()]
    assert [task["task_info"]["max_steps"] for task in tasks[:2]] == [33, 20]
    assert {task["id"]: task["task_info"]["max_steps"] for task in tasks[2:]} == {"t1": 10, "t4": 3}


def test_task_that_sets_no_steps_of_its_own_has_those_of_its_difficulty() -> None:
    write_tasks(Path("train.jsonl"), row(1, max_steps=None))
    web = experiment()
    (line,) = draw_sample(web, Iteration(web.save_path, "train", 0), NOW).lines.splitlines()
    assert json.loads(line)["task_info"]["max_steps"] == 10


def test_ratio_without_weights_is_uniform_and_said() -> None:
    write_tasks(Path("train.jsonl"), row(1))
    web = experiment("env_config.train_tasks_sampler=ratio", "env_config.train_tasks_rollout_size=1")
    sample = draw_sample(web, Iteration(web.save_path, "train", 0), NOW)
    assert any("uniform" in note for note in sample.mark.notes)


@pytest.mark.parametrize("size", [0, -1])
def test_training_needs_a_size(size: int) -> None:
    write_tasks(Path("train.jsonl"), row(1))
    web = experiment(f"env_config.train_tasks_rollout_size={size}")
    with pytest.raises(ConfigError, match="train_tasks_rollout_size"):
        draw_sample(web, Iteration(web.save_path, "train", 0), NOW)


def test_file_without_any_task_is_told_with_its_first_mistake() -> None:
    Path("train.jsonl").write_text('{"task_name": "x"}\n')
    web = experiment()
    with pytest.raises(ConfigError, match=r"(?s)train\.jsonl: there is no task.*train\.jsonl:1: .*website"):
        draw_sample(web, Iteration(web.save_path, "train", 0), NOW)


async def test_sites_whose_start_page_failed_are_noted_and_tried_again() -> None:
    write_tasks(Path("train.jsonl"), row(0, "https://down.example/start"), row(1, "https://down.example/other"))
    web = experiment("env_config.train_tasks_rollout_size=2")
    iteration, _ = choose_iteration(web)
    iteration.begin(draw_sample(web, iteration, NOW))
    config = without_browser(web, iteration)
    agent = AgentConfig(model="tests.pipelines.test_iterations:Unreachable")
    broken = config.datasets["train"].model_copy(update={"agent": agent})
    await roll_out(config.model_copy(update={"datasets": {"train": broken}}), iteration.paths.run_dir)
    for _ in range(2):
        learn(web, datetime.now(UTC))
    assert Path("exp/navigation_error_websites.txt").read_text() == "https://down.example\n"
    assert sites_unreachable(iteration) == ["https://down.example"]
    iteration.finish(web)
    assert len(sampled(await roll_iteration(web))) == 2


class Unreachable:
    """An agent in whose place the page cannot be shown."""

    name = "unreachable"
    capabilities: frozenset[Any] = frozenset()

    async def generate(self, request: Any) -> Any:
        raise NavigationError("the start page cannot be shown")

    async def close(self) -> None:
        pass
