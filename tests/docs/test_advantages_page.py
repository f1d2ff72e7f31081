"""What docs/how-to/advantages.md says is so: its example runs, its tables are whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rollout.trajectories.advantages import ESTIMATORS
from rollout.trajectories.rewards import RULES, reward_rule
from tests.conftest import roll_out
from tests.docs.test_docs import ROOT, blocks
from tests.engine.test_trees import tree_config
from tests.trajectories.lines import trajectory


async def test_its_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    config = tree_config()
    config["datasets"] = {"StudentAcademicPortal": config["datasets"]["portal"]}
    await roll_out(config, Path("runs/default"))
    example, rule = (body for page, body in blocks("python") if page == "docs/how-to/advantages.md")
    exec(compile(example, "docs/how-to/advantages.md", "exec"), {})
    assert len([line for line in capsys.readouterr().out.splitlines() if "[" in line]) == 40
    Path("my_rewards.py").write_text(rule)
    worth = reward_rule("my_rewards:brief")
    assert worth(trajectory(success=True, scored=True)) == 1.0
    assert worth(trajectory(scored=False)) is None


def test_every_estimator_and_rule_is_in_it() -> None:
    page = (ROOT / "docs" / "how-to" / "advantages.md").read_text()
    assert all(f"\n| `{name}` |" in page for name in ESTIMATORS)
    assert all(f"`{rule}`" in page for rule in RULES)


def test_without_numpy_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['numpy'] = None; import rollout.trajectories.advantages"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "computing advantages needs the extra: pip install 'rollout-engine[train]'" in done.stderr
