"""The package alone, without any extra: the core works, and everything else names the extra that it needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.install.conftest import Run

OWN_ENVIRONMENT = """
import rollout

class Cart(rollout.World):
    def __init__(self) -> None:
        self.items: list[str] = []

    @rollout.tool
    def add(self, item: str) -> str:
        "Put an item into the cart."
        self.items.append(item)
        return item

@rollout.scorer
def filled(task: rollout.Task, trajectory: rollout.Trajectory, world: Cart) -> float:
    return float(world.items == ["mug"])

task = rollout.Task("t1", "A mug, please.", actions=[rollout.call("add", item="mug")])
shop = rollout.Environment(tasks=[task], world=Cart, scorers=[filled])
print(rollout.run(shop, model="builtin/oracle", run_dir="shop", progress=False).solved)
"""


@pytest.fixture(scope="module")
def finished(bare: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The directory of a run that the package made by itself."""
    folder = tmp_path_factory.mktemp("finished")
    done = bare("run", "default", "-d", "HotelReservations", "--no-colors", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return str(folder / "runs" / "default")


def test_a_run_of_the_core_is_scored_filtered_and_exported(bare: Run, finished: str) -> None:
    for words in (
        ["score", finished],
        ["filter", finished],
        ["label", finished, "-o", "labelled.jsonl"],
        ["export", finished, "--format", "trl", "-o", "training.jsonl"],
    ):
        done = bare(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(Path("training.jsonl").read_text().splitlines()[0])["messages"]


def test_an_environment_in_python_runs(bare: Run) -> None:
    done = bare("-c", OWN_ENVIRONMENT, program="python")
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("web --config-name rollout_train save_path=exp data_path=tasks", "web"),
        ("run web --dry-run", "web"),
        ("run web", "web"),
        ("run miniwob", "suites"),
        ("run bfcl --dry-run", "suites"),
        ("run local", "local"),
        ("run default --cluster local", "ray"),
        ("run default -d HotelReservations --cluster local --dry-run", "ray"),
        ("export {run} --format parquet -o rows.parquet", "train"),
        ("train-data {run} -o rows", "train"),
        ("train-data {run} -o rows --text --advantage none", "train"),
        ("serve-domain HotelReservations", "mcp"),
        (
            "single --domains HotelReservations --agent-model anthropic/claude-sonnet --user-model builtin/user",
            "litellm",
        ),
    ],
)
def test_a_missing_extra_is_one_line_that_names_it(bare: Run, finished: str, command: str, extra: str) -> None:
    done = bare(*command.format(run=finished).split())
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "pip install" in line]
    assert len(lines) == 1, done.stdout + done.stderr
    assert f"pip install 'rollout-engine[{extra}]'" in lines[0]
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == 2
