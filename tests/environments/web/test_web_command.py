"""`rollout web` as a person uses it: real processes, real browsers, real iterations."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollout.config.compose import compose_web
from rollout.config.web_run import translate
from rollout.pipelines.web_iterations import choose_iteration, draw_sample
from rollout.testing import StubServer
from tests.conftest import read_lines, roll_out, write_tasks

pytest.importorskip("hydra", reason="needs the extra rollout-engine[web]")

ROOT = Path(__file__).parents[3]
ROLLOUT = [sys.executable, "-c", "from rollout.cli import main; main()", "web"]
SLOW = "sites=['tests.environments.web.slow_site:make_app']"


def row(number: int, website: str = "http://slow-site.test/", **more: Any) -> dict[str, Any]:
    return {
        "task_id": f"t{number}",
        "task_name": f"Open page {number}.",
        "website": f"{website}{number}",
        "domain": "D",
        "subdomain": "S",
        "difficulty": 1 + number % 8,
        "evaluator_reference": ["It says that it is open"],
        "definite_answer": "",
        "answer": {"equals": "open"},
        "actions": [{"name": "answer", "arguments": {"text": "open"}}],
    } | more


def arguments(*overrides: str) -> list[str]:
    own = ["save_path=exp", "data_path=data", "policy_config.base_model=builtin/oracle", SLOW]
    return [*own, "env_config.server_size=2", "--no-colors", *overrides]


def start(*overrides: str, program: list[str] = ROLLOUT) -> subprocess.Popen[str]:
    env = {**os.environ, "COLUMNS": "160", "PYTHONPATH": str(ROOT)}
    env.pop("GEMINI_API_KEY", None)
    return subprocess.Popen(
        [*program, *arguments(*overrides)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


def rollout_web(*overrides: str, code: int = 0, program: list[str] = ROLLOUT) -> str:
    child = start(*overrides, program=program)
    said, complained = child.communicate(timeout=600)
    assert child.returncode == code, said + complained
    return said + complained


def write_data(count: int, split: str = "train") -> None:
    Path("data").mkdir(exist_ok=True)
    write_tasks(Path(f"data/{split}.jsonl"), *[row(number) for number in range(count)])


def outputs(split: str = "train") -> list[Path]:
    return sorted(Path(f"exp/{split}_trajectories").glob("*.jsonl"))


def test_iterations_continue_and_are_kept_apart_by_split() -> None:
    write_data(6)
    write_data(3, "test")
    said = rollout_web("env_config.train_tasks_rollout_size=3")
    assert "iteration 0 of train" in said
    assert said.count("GEMINI_API_KEY is not set") == 1
    rollout_web("env_config.train_tasks_rollout_size=3")
    rollout_web("--config-name", "rollout_test", "env_config.test_tasks_repeat_times=2")
    assert [path.name for path in outputs()] == [f"train_trajectories.iteration{n}.jsonl" for n in (0, 1)]
    first = read_lines(outputs()[0])
    assert len(first) == 3
    assert {line["metadata"]["status"] for line in first} == {"completed"}
    assert [line["id"] for line in read_lines(outputs("test")[0])].count("t1~1") == 1
    documents = list(yaml.safe_load_all(Path("exp/hyperparameters.yaml").read_text()))
    assert [document["env_config"]["split"] for document in documents] == ["train", "train", "test"]
    assert not Path("outputs").exists()


def test_sweep_makes_an_iteration_of_each_value() -> None:
    write_data(3)
    said = rollout_web("-m", "policy_config.temperature=0.7,1.0", "env_config.train_tasks_rollout_size=2")
    assert "run 2 of 2" in said
    assert len(outputs()) == 2
    documents = list(yaml.safe_load_all(Path("exp/hyperparameters.yaml").read_text()))
    assert [document["policy_config"]["temperature"] for document in documents] == [0.7, 1.0]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_stopped_iteration_is_gone_on_with_over_the_same_sample(number: signal.Signals) -> None:
    write_data(40)
    size = "env_config.train_tasks_rollout_size=12"
    child = start(size, "env_config.server_size=1")
    output = Path("exp/train_trajectories/train_trajectories.iteration0.jsonl")
    while child.poll() is None and not (output.is_file() and output.read_bytes().count(b"\n") >= 2):
        # Nothing to wait for but the child's own progress.
        time.sleep(0.01)
    child.send_signal(number)
    child.communicate(timeout=600)
    assert child.returncode == (-number if number == signal.SIGKILL else 128 + number)
    drawn = [line["id"] for line in read_lines(Path("exp/train_trajectories/iteration0/tasks.jsonl"))]
    before = output.read_bytes().count(b"\n")
    assert 2 <= before < 12
    # A changed file changes nothing: the sample was drawn.
    write_data(2)
    said = rollout_web(size, "env_config.server_size=1")
    assert "going on with iteration 0" in said
    lines = [line["id"] for line in read_lines(output)]
    assert sorted(lines) == sorted(drawn)
    assert len(outputs()) == 1
    assert "iteration 1 of train" in rollout_web("env_config.train_tasks_rollout_size=1")


def test_site_that_lets_nobody_in_is_learnt_from_its_pages_and_left_out() -> None:
    Path("data").mkdir()
    rows = [row(n) for n in range(2)] + [row(n, "http://refusing-site.test/") for n in range(2, 4)]
    write_tasks(Path("data/train.jsonl"), *rows)
    sites = "sites=['tests.environments.web.slow_site:make_app','tests.environments.web.refusing_site:make_app']"
    said = rollout_web(sites)
    assert "blocked sites" in said
    entry = json.loads(Path("exp/blocklist.jsonl").read_text().splitlines()[0])
    assert entry["domain"] == "refusing-site.test"
    assert (Path("exp") / entry["screenshot_path"]).is_file()
    again = rollout_web(sites)
    assert "2 tasks are left out: their sites are on the block list" in again
    assert sorted(line["task_id"] for line in read_lines(outputs()[1])) == ["t0", "t1"]
    third = rollout_web(sites, "blocklist_hours=0")
    assert "block list" not in third, "and it is tried again when the time is over"
    assert len(read_lines(outputs()[2])) == 4


def test_saved_steps_say_what_the_model_was_sent() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra rollout-engine[train]")
    write_data(2)
    rollout_web()
    found = torch.load(Path("exp/train_trajectories/train_trajectories.pt.iteration0"), weights_only=True)
    assert found["metadata"]["solution_model"] == "builtin/oracle"
    assert found["metadata"]["judge_model"] is None, "there was no key for one"
    (step,) = found["trajectories"][0]
    system, *said = json.loads(step["response"]["raw_prompt"])
    assert "tool_call" in system["content"], "WebGym's default models are told their tools in the system prompt"
    assert "Open page" in json.dumps(said)


def test_commands_of_the_page_run(tmp_path: Path) -> None:
    (tmp_path / "rollout").symlink_to(ROOT / "rollout")
    for block in re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/how-to/web.md").read_text(), re.MULTILINE | re.DOTALL):
        for command in block.splitlines():
            program, name, *words = command.split()
            assert (program, name) == ("rollout", "web")
            done = subprocess.run([*ROLLOUT, *words], capture_output=True, text=True, timeout=600, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "(100%)" in done.stdout, "the oracle solves what is shipped"


def test_script_of_webgym_is_the_same_command() -> None:
    write_data(2)
    said = rollout_web(
        "env_config.train_tasks_rollout_size=2", program=[sys.executable, str(ROOT / "scripts/rollout.py")]
    )
    assert "iteration 0 of train" in said
    assert len(read_lines(outputs()[0])) == 2


def test_dry_run_writes_nothing() -> None:
    write_data(5)
    said = rollout_web("--dry-run", "env_config.train_tasks_rollout_size=4")
    assert "4 trajectories; no problems found" in said
    assert not Path("exp").exists()


def test_site_that_is_not_there_is_noted_and_fails_its_tasks_only() -> None:
    Path("data").mkdir()
    gone = row(9, "http://127.0.0.1:9/", private_hosts=["127.0.0.1:9"])
    write_tasks(Path("data/train.jsonl"), row(1), gone)
    said = rollout_web("env_config.max_retries=0", code=1)
    assert "could not be shown: http://127.0.0.1:9" in said
    assert Path("exp/navigation_error_websites.txt").read_text() == "http://127.0.0.1:9\n"
    assert [line["task_id"] for line in read_lines(outputs()[0])] == ["t1"]
    assert "resume_checkpoint_path=iteration0" in said, "the command that tries the failed ones again"


async def test_webgyms_model_is_sent_screenshots_and_every_sampling_key_and_writes_its_calls() -> None:
    write_data(1)
    reply = 'Action: answer\n<tool_call>{"name": "answer", "arguments": {"text": "open"}}</tool_call>'
    async with StubServer({"rules": [{"reply": {"content": reply}}]}, keep_requests=True) as stub:
        given = ["save_path=exp", "data_path=data", SLOW, "policy_config.base_model=Qwen/Qwen3-VL-8B-Instruct"]
        web = compose_web([*given, f"env_config.vllm_server_url={stub.url}"])[0].config
        iteration, _ = choose_iteration(web)
        iteration.begin(draw_sample(web, iteration, datetime.now(UTC)))
        await roll_out(translate(web, 0, iteration.paths, {}).config, iteration.paths.run_dir)
        (request,) = stub.requests
    keys = ("model", "temperature", "top_p", "top_k", "min_p", "max_tokens")
    assert [request[key] for key in keys] == ["Qwen/Qwen3-VL-8B-Instruct", 1, 0.99, 2, 0, 3072]
    assert "tools" not in request, "they stand in the system prompt"
    assert "data:image/png;base64," in json.dumps(request["messages"])
    (line,) = read_lines(iteration.paths.output)
    assert (line["success"], line["metadata"]["stop_reason"]) == (True, "answered")
