"""`run.sh` as a person uses it: whole experiments, stopped in every phase and resumed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import read_lines
from tests.environments.web.test_web_command import SLOW, write_data

pytest.importorskip("hydra", reason="needs the extra rollout-engine[web]")

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "run.sh"
ROLLOUT = Path(sys.executable).with_name("rollout")
REPLY = 'Action: answer\n<tool_call>{"name": "answer", "arguments": {"text": "open"}}</tool_call>'
OWN = ["--save-path", "my exp", "--data-path", "data", SLOW, "context_config.interaction_mode=text"]


def start(*words: str) -> subprocess.Popen[str]:
    env = {**os.environ, "COLUMNS": "120", "PYTHONPATH": str(ROOT), "ROLLOUT": str(ROLLOUT)}
    env.pop("GEMINI_API_KEY", None)
    return subprocess.Popen(
        [str(SCRIPT), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
        start_new_session=True,
    )


def run(*words: str, code: int = 0) -> str:
    child = start(*words)
    said, _ = child.communicate(timeout=600)
    assert child.returncode == code, said
    return said


def stop_when(child: subprocess.Popen[str], path: Path, lines: int, number: signal.Signals) -> str:
    """Stop the script alone, as soon as a file has so many lines."""
    while child.poll() is None and not (path.is_file() and path.read_bytes().count(b"\n") >= lines):
        # Nothing to wait for but the child's own progress.
        time.sleep(0.01)
    child.send_signal(number)
    said, _ = child.communicate(timeout=600)
    assert child.returncode == (-number if number == signal.SIGKILL else 128 + number), said
    return said


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_an_experiment_killed_in_a_rollout_and_stopped_in_an_update_ends_as_an_undisturbed_one() -> None:
    write_data(12)
    write_data(2, "test")
    Path("stub.json").write_text(json.dumps({"rules": [{"reply": {"content": REPLY}}]}))
    update = (
        'echo "$ROLLOUT_ITERATION ${ROLLOUT_PREVIOUS_CHECKPOINT##*/}" >>updates\n'
        'test -s "$ROLLOUT_TRAJECTORIES" -a -s "$ROLLOUT_TRAJECTORIES_JSONL" -a -d "$ROLLOUT_RUN_DIR" || exit 9\n'
        'test ! -e "$ROLLOUT_CHECKPOINT" || exit 8\n'
        'echo weights >"$ROLLOUT_CHECKPOINT"\n'
        "test -e stopped || { echo >stopped; exec sleep 1000; }\n"
    )
    served = (
        'echo "$ROLLOUT_SERVE_MODEL" >>served\n'
        f'exec {ROLLOUT} stub-server --script stub.json --host "$ROLLOUT_SERVE_HOST" --port "$ROLLOUT_SERVE_PORT"'
    )
    words = [*OWN, "--model", "Qwen/Qwen3-VL-8B-Instruct", "--serve-command", served, "--port", str(free_port())]
    words += ["--host", "127.0.0.1", "--iterations", "2", "--test-every", "2", "--update", update]
    words += ["--train", "env_config.train_tasks_rollout_size=6", "env_config.server_size=1"]
    exp = Path("my exp")
    output = exp / "train_trajectories/train_trajectories.iteration0.jsonl"
    stop_when(start(*words), output, 2, signal.SIGKILL)
    assert len(read_lines(output)) < 6
    stop_when(start(*words), Path("stopped"), 1, signal.SIGINT)
    said = run(*words)
    assert "iteration 0 of train" not in said, "that was over"
    for number in (0, 1):
        drawn = {line["id"] for line in read_lines(exp / f"train_trajectories/iteration{number}/tasks.jsonl")}
        output = exp / f"train_trajectories/train_trajectories.iteration{number}.jsonl"
        made = [line["id"] for line in read_lines(output)]
        assert sorted(made) == sorted(drawn)
    assert [path.name for path in exp.glob("*_trajectories/iteration*")].count("iteration0") == 2
    assert len(list(exp.glob("*_trajectories/iteration*"))) == 3, "two of training, one test"
    assert Path("updates").read_text().split("\n") == ["0 ", "0 ", "1 iteration0", ""]
    models = Path("served").read_text().splitlines()
    assert models[-1] == str(Path("my exp/checkpoints/iteration0").resolve())
    assert set(models[:-1]) == {"Qwen/Qwen3-VL-8B-Instruct"}
    assert sorted(path.name for path in (exp / "checkpoints").iterdir()) == ["iteration0", "iteration1"]
    assert "run.sh: done" in run(*words), "and there is nothing left to do"
    assert len(list(exp.glob("*_trajectories/iteration*"))) == 3


def test_two_nodes_are_two_ranks_with_files_of_their_own() -> None:
    pytest.importorskip("ray", reason="needs the extra rollout-engine[ray]")
    write_data(6)
    words = [*OWN, "--model", "builtin/oracle", "--num-nodes", "2", "--rank-weights", "2,1", "--cluster", "local"]
    run(*words, "--iterations", "1", "--test-every", "0", "env_config.server_size=3")
    folder = Path("my exp/train_trajectories")
    names = {path.name for path in folder.glob("*.pt.*")}
    whole = "train_trajectories.pt.iteration0"
    assert names == {whole, f"{whole}_rank_0", f"{whole}_rank_1"}
    ranks = json.loads((folder / "iteration0/metrics.json").read_text())["ranks"]
    assert len(ranks) == 2
    assert len(read_lines(folder / "train_trajectories.iteration0.jsonl")) == 6


def test_an_update_that_fails_ends_the_experiment_and_is_run_again() -> None:
    write_data(2)
    words = [*OWN, "--model", "builtin/oracle", "--iterations", "1", "--test-every", "0"]
    said = run(*words, "--update", "exit 7", code=7)
    assert "the update after iteration 0 ended with 7; the same command runs it again" in said
    said = run(*words, "--update", "echo learnt", "--rl-phase", "update")
    assert "learnt" in said
    assert "the model stays as it is" in said
    assert len(list(Path("my exp/train_trajectories").glob("iteration*"))) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "--save-path: missing; expected the folder"),
        (["--save-path", "exp"], "--data-path: expected the folder"),
        (["--what", "3"], "unknown option '--what'"),
        (["--save-path", "exp", "--what"], "unknown option '--what'"),
        (["what"], "unknown argument 'what'"),
        (["--iterations"], "--iterations: expected a value"),
        (["--iterations=some"], "--iterations: expected a whole number, got 'some'"),
        (["--rl-phase", "learn"], "--rl-phase: expected one of rollout update both, got 'learn'"),
        (["--worker", "1"], "one command runs all ranks"),
        ([*OWN, "--num-nodes", "3", "--rank-weights", "2,1"], "expected 3 weights, one for each node"),
        ([*OWN, "--serve-command", "x"], "--serve: which model?"),
        ([*OWN, "--model", "builtin/oracle", "--dry-run"], "cannot read the tasks"),
    ],
)
def test_a_mistake_ends_with_code_2_and_nothing_is_made(words: list[str], says: str) -> None:
    assert says in run(*words, code=2)
    assert not Path("my exp").exists()


def test_help_says_what_an_update_is_given() -> None:
    said = run("--help")
    script = SCRIPT.read_text()
    exported = {name for name in ("ITERATION", "RUN_DIR", "CHECKPOINT", "TRAJECTORIES") if f"ROLLOUT_{name}=" in script}
    assert len(exported) == 4
    assert all(f"ROLLOUT_{name} " in said for name in exported)


def test_the_script_is_clean() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("needs shellcheck: apt-get install shellcheck")
    done = subprocess.run(["shellcheck", str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
