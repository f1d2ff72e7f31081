"""`WebAgent` and `AsyncWebGym`: the iterations of `rollout web` from Python, in real browsers."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rollout import ConfigError, Trajectory
from rollout.compat.web import AsyncWebGym, WebAgent
from rollout.testing import StubServer
from tests.conftest import read_lines
from tests.environments.web.test_web_command import rollout_web, row, write_data

ROOT = Path(__file__).parents[3]
OmegaConf = pytest.importorskip("omegaconf", reason="needs the extra rollout-engine[web]").OmegaConf

SITES = ["tests.environments.web.slow_site:make_app"]
ORACLE = {"base_model": "builtin/oracle"}


def rows(count: int) -> list[dict[str, Any]]:
    return [row(number) for number in range(count)]


def gym(**more: Any) -> AsyncWebGym:
    return AsyncWebGym(**{"env_config": {"server_size": 2}, "sites": SITES, **more})


def test_rows_are_rolled_out_and_each_trajectory_is_given_once_when_it_has_ended() -> None:
    given: list[list[str]] = []
    agent = WebAgent(ORACLE, {"interaction_mode": "set_of_marks"}, save_path="exp")
    collected = gym().collect(
        agent, rows(5), on_checkpoint=lambda new: given.append([one.id for one in new]), progress=False
    )
    assert sorted(name for names in given for name in names) == sorted(collected.trajectories.ids)
    assert len(collected.trajectories) == 5
    assert len(given) > 1, "they do not wait for the end"
    assert collected.is_finished
    assert collected.pt_file.name == "train_trajectories.pt.iteration0"
    assert collected.metrics()["success_rate"] == 1
    assert [line["task_id"] for line in read_lines(collected.output_file)]


def test_a_sample_is_drawn_with_the_configs_of_the_hydra_files() -> None:
    write_data(6)
    config = OmegaConf.create(
        {
            "name": "builtin/oracle",
            "policy_config": {"base_model": "${name}", "temperature": 0.5},
            "env_config": {"train_tasks_rollout_size": 3, "server_size": 2},
        }
    )
    agent = WebAgent(policy_config=config.policy_config, save_path=Path("exp"))
    collected = gym(env_config=config.env_config, data_path=Path("data")).collect(agent, progress=False)
    assert len(collected.trajectories) == 3
    assert "temperature: 0.5" in Path("exp/hyperparameters.yaml").read_text()
    assert "iteration 1 of train" in rollout_web("env_config.train_tasks_rollout_size=1"), "the command goes on"


class StopEarly(Exception):
    pass


async def test_an_iteration_that_was_stopped_is_resumed_with_the_same_tasks() -> None:
    agent = WebAgent(ORACLE, save_path="exp")
    first: list[str] = []
    second: list[str] = []

    def stop(new: list[Trajectory]) -> None:
        first.extend(one.id for one in new)
        raise StopEarly

    slow = gym(env_config={"server_size": 1})
    with pytest.raises(StopEarly):
        await slow.acollect(agent, rows(8), on_checkpoint=stop, progress=False)
    assert 1 <= len(first) < 8
    with pytest.raises(ConfigError, match="tasks: iteration 0 of train in exp is not finished and has other tasks"):
        await slow.acollect(agent, rows(2), progress=False)

    async def keep(new: list[Trajectory]) -> None:
        second.extend(one.id for one in new)

    collected = await slow.acollect(agent, rows(8), on_checkpoint=keep, progress=False)
    assert collected.number == 0
    assert sorted(second) == sorted(collected.trajectories.ids), "the first call has those of the earlier run"
    assert len(set(second)) == 8
    assert (await slow.acollect(agent, rows(1), progress=False)).number == 1


async def test_it_works_where_a_loop_is_running_and_calls_back_from_another_thread() -> None:
    threads: set[int] = set()
    collected = gym().collect(
        WebAgent(ORACLE, save_path="exp"),
        rows(2),
        on_checkpoint=lambda new: threads.add(threading.get_ident()),
        progress=False,
    )
    assert len(collected.trajectories) == 2
    assert threading.get_ident() not in threads


async def test_the_model_of_a_server_acts() -> None:
    reply = 'Action: answer\n<tool_call>{"name": "answer", "arguments": {"text": "open"}}</tool_call>'
    async with StubServer({"rules": [{"reply": {"content": reply}}]}, keep_requests=True) as stub:
        agent = WebAgent(
            policy_config={"base_model": "Qwen/Qwen3-VL-8B-Instruct"},
            context_config={"interaction_mode": "text"},
            model_config={"model_type": "qwen3-instruct", "prompt_version": "vanilla"},
            save_path="exp",
            vllm_server_url=stub.url,
            openai_config={"openai_api_key_env_var": None, "base_url": stub.url},
        )
        collected = await gym(split="test").acollect(agent, rows(2), progress=False)
        models = {request["model"] for request in stub.requests}
    assert collected.split == "test"
    assert "Qwen/Qwen3-VL-8B-Instruct" in models
    assert {one.stop_reason for one in collected.trajectories} == {"answered"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"env_config": {"server_sice": 3}}, "env_config.server_sice"),
        ({"sitez": []}, "sitez"),
        ({}, "data_path: it has to be given"),
        ({"split": "dev"}, "split: expected train or test, got 'dev'"),
    ],
)
def test_mistakes_are_named_by_their_key(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        AsyncWebGym(**more).collect(WebAgent(ORACLE, save_path="exp"))


def test_keys_without_effect_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        gym(env_config={"save_every_percent": 10}).collect(WebAgent(ORACLE, save_path="exp"), rows(1), progress=False)
    assert "env_config.save_every_percent has no effect here" in caplog.text


def test_example_of_the_page_runs(tmp_path: Path) -> None:
    (tmp_path / "rollout").symlink_to(ROOT / "rollout")
    (code,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs/how-to/web-experiments.md").read_text(), re.MULTILINE | re.DOTALL
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "1.0 exp/train_trajectories/train_trajectories.pt.iteration0" in done.stdout
