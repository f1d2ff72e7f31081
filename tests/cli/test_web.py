"""`rollout web` where no browser is needed: help, configurations, refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from rollout.config.compose import compose_tree, compose_web
from rollout.pipelines.web_iterations import choose_iteration, draw_sample
from tests.cli.in_process import rollout
from tests.conftest import write_tasks

pytest.importorskip("hydra", reason="needs the extra rollout-engine[web]")

ROOT = Path(__file__).parents[2]
GIVEN = ["save_path=exp", "data_path=data", "policy_config.base_model=builtin/oracle"]


def web_row(number: int) -> dict[str, object]:
    return {
        "task_id": f"t{number}",
        "task_name": f"Task {number}",
        "website": "https://example.test",
        "domain": "D",
        "subdomain": "S",
        "difficulty": 1,
        "evaluator_reference": ["fact"],
        "definite_answer": "",
        "actions": [],
    }


def test_help_explains_with_examples_and_lists_every_key() -> None:
    said = rollout("web", "--help").stdout
    assert "rollout web --config-name rollout_test save_path=exp" in said
    tree = compose_tree([])
    keys = [key for group in ("env_config", "policy_config", "openai_config") for key in tree[group]]
    assert [key for key in [*tree, *keys] if key not in said] == []


def test_configuration_can_be_looked_at_and_nothing_is_made() -> None:
    done = rollout("web", "--cfg", "job", *GIVEN, "env_config.server_size=3", "+web.hosts=[a.com]")
    assert done.returncode == 0, done.stderr
    tree = yaml.safe_load(done.stdout)
    assert (tree["env_config"]["server_size"], tree["web"]) == (3, {"hosts": ["a.com"]})
    assert os.listdir() == []


def test_what_looks_like_a_key_is_shown_to_nobody() -> None:
    done = rollout("web", "--cfg", "job", *GIVEN, "openai_config.base_url=http://me:secret-word@judge/v1")
    assert done.returncode == 0, done.stderr
    assert "secret-word" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "save_path: it has to be given"),
        ([*GIVEN, "env_config.server_sice=3"], "did you mean 'env_config.server_size'?"),
        ([*GIVEN, "--config-name", "nothing"], "--config-name: there is no 'nothing'; there are: default, rollout"),
        ([*GIVEN], "data/train.jsonl: cannot read the tasks"),
        ([*GIVEN, "+env_config.multinode_total_workers=2"], "one by one"),
    ],
)
def test_mistake_ends_with_code_2_and_says_what_to_do(arguments: list[str], words: str) -> None:
    done = rollout("web", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("outputs").exists()


def test_values_without_effect_are_told_in_a_line_each() -> None:
    Path("data").mkdir()
    write_tasks(Path("data/train.jsonl"))
    done = rollout("web", *GIVEN, "env_config.http_pools.navigate=3", "env_config.save_every_percent=10")
    assert "env_config.http_pools has no effect here: browsers run in this process" in done.stderr
    assert "env_config.save_every_percent has no effect here" in done.stderr
    assert done.returncode == 2, "there are no tasks"


def test_script_of_webgym_is_the_same_command() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "rollout.py"), "--cfg", "job", *GIVEN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["save_path"] == "exp"


def test_refused_command_leaves_no_sample_behind() -> None:
    Path("data").mkdir()
    write_tasks(Path("data/train.jsonl"), *[web_row(number) for number in range(3)])
    refused = rollout("web", *GIVEN, "policy_config.base_model=null", "env_config.train_tasks_rollout_size=1")
    assert refused.returncode == 2
    assert "which model acts" in refused.stderr
    assert not Path("exp/train_trajectories").exists()


@pytest.mark.parametrize(
    ("override", "words"),
    [("sites=[nowhere]", "there is no site 'nowhere'"), ("browsers.executable=/none", "/none: not found")],
)
def test_command_that_cannot_be_made_ready_leaves_no_sample_behind(override: str, words: str) -> None:
    Path("data").mkdir()
    write_tasks(Path("data/train.jsonl"), *[web_row(number) for number in range(3)])
    refused = rollout("web", *GIVEN, override, "env_config.train_tasks_rollout_size=1")
    assert refused.returncode == 2
    assert words in refused.stderr
    corrected = rollout("web", *GIVEN, "env_config.train_tasks_rollout_size=2", "--dry-run")
    assert "2 tasks of data/train.jsonl" in corrected.stdout


def test_folder_that_cannot_be_written_is_told() -> None:
    Path("data").mkdir()
    write_tasks(Path("data/train.jsonl"), web_row(0))
    refused = rollout("web", *GIVEN, "save_path=/proc/exp")
    assert refused.returncode == 2
    assert "save_path: /proc/exp cannot be used: No such file or directory" in refused.stderr


def test_going_on_says_what_the_sample_does_not_follow() -> None:
    Path("data").mkdir()
    write_tasks(Path("data/train.jsonl"), *[web_row(number) for number in range(3)])
    web = compose_web([*GIVEN, "env_config.train_tasks_rollout_size=1"])[0].config
    iteration, _ = choose_iteration(web)
    iteration.begin(draw_sample(web, iteration, datetime.now(UTC)))
    size = "env_config.train_tasks_rollout_size"
    same = rollout("web", *GIVEN, f"{size}=1", "--dry-run")
    assert "stays as it is" not in same.stderr
    other = rollout("web", *GIVEN, f"{size}=3", "samples=2", "seed=1", "--dry-run")
    assert f"{size}: the sample of iteration 0 was drawn with 1 and stays as it is; 3 counts from" in other.stderr
    assert "seed: the sample of iteration 0 was drawn with 0" in other.stderr
    assert "samples: iteration 0 was begun with 1, now it is 2" in other.stderr
