"""`module:Name` in a config: found in the working directory and beside the config, by the installed command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rollout.config.load import load_config
from rollout.core import plugins
from rollout.core.errors import ConfigError
from rollout.core.plugins import find_plugin
from tests.conftest import read_lines, write_tasks, write_yaml

# As the installed script runs: `python -c` would put the working directory into sys.path by itself.
ROLLOUT = [sys.executable, "-P", "-c", "from rollout.cli import main; main()"]
SCORER = """
from rollout.trajectories.score import Score

class Fine:
    name = "fine"
    async def score(self, task, trajectory, world):
        return Score("fine", 1.0)
"""


def rollout(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*ROLLOUT, *arguments], capture_output=True, text=True, timeout=600, check=False)


def test_a_run_and_its_rescoring_find_modules_here_and_beside_the_config() -> None:
    Path("here_tools.py").write_text('def search(text: str) -> str:\n    """Find it."""\n    return text\n')
    Path("configs").mkdir()
    Path("configs/beside_scorer.py").write_text(SCORER)
    actions = [{"name": "search", "arguments": {"text": "x"}}]
    task = {"id": "t", "messages": [{"role": "user", "content": "?"}], "task_info": {"actions": actions}}
    dataset: dict[str, Any] = {
        "path": str(write_tasks(Path("tasks.jsonl"), task)),
        "tools": ["here_tools:search"],
        "agent": "builtin/oracle",
        "scoring": {"custom": ["beside_scorer:Fine"], "decide": ["fine"]},
    }
    config = write_yaml(Path("configs/own.yml"), {"datasets": {"own": dataset}})
    done = rollout("run", str(config), "--no-colors")
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = read_lines(Path("outputs/own.jsonl"))
    assert [message["content"] for message in line["messages"] if message["role"] == "tool"] == ["x"]
    assert line["metadata"]["scores"][-1]["name"] == "fine"
    assert json.loads(Path("runs/own/run.json").read_text())["modules"] == [str(Path("configs").resolve())]
    scored = rollout("score", "runs/own", "--no-colors")
    assert scored.returncode == 0, scored.stdout + scored.stderr


@pytest.fixture
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(plugins, "_folders", [])


@pytest.mark.usefixtures("_own_path")
def test_a_module_beside_the_config_never_hides_an_installed_one() -> None:
    Path("configs").mkdir()
    Path("configs/colorsys.py").write_text("raise RuntimeError('hidden')")
    Path("configs/own_beside.py").write_text("thing = 7")
    load_config(write_yaml(Path("configs/c.yml"), {}))
    assert find_plugin("rollout.worlds", "own_beside:thing") == 7
    assert callable(find_plugin("rollout.worlds", "colorsys:rgb_to_hsv"))


@pytest.mark.usefixtures("_own_path")
@pytest.mark.parametrize(
    ("code", "reference", "told"),
    [
        (None, "own_missing:search", "neither an installed package nor in "),
        ("import own_other_missing", "own_needs:search", "No module named 'own_other_missing'"),
        ("def search(): pass", "own_spelt:serach", "has no 'serach'; did you mean 'search'?"),
        ("def search(:", "own_syntax:search", "SyntaxError"),
        ("1 / 0", "own_raises:search", "ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_wrong_with_a_module_is_said_in_words(code: str | None, reference: str, told: str) -> None:
    if code is not None:
        Path(f"{reference.partition(':')[0]}.py").write_text(code)
    with pytest.raises(ConfigError) as raised:
        find_plugin("rollout.worlds", reference)
    assert told in str(raised.value)
