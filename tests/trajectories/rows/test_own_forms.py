"""Forms of training data of other packages: named as `module:Name` or by an entry point, with checked parameters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rollout.core.errors import ConfigError
from rollout.pipelines.training.row_forms import make_form
from rollout.trajectories.rows import BUILT_IN
from rollout.trajectories.rows.form import TokenChoice, find_form
from tests.conftest import read_lines
from tests.trajectories.lines import labelled, line, write

ROOT = Path(__file__).parents[3]
MODULE = '''
from pydantic import Field

from rollout.trajectories.rows.form import RowForm


class Openings(RowForm):
    """What each task begins with, and how many attempted it."""

    compares = True
    columns = {"task_id": "text", "prompt": "text", "attempts": "int"}
    longest: int = Field(1000, ge=1)
    """Characters of a prompt at most."""
    empty: bool = True
    """Also tasks that begin with nothing."""

    def records(self, group, account):
        first = group[0]
        said = " ".join(message.content or "" for message in first.messages[: first.opening])
        if not said and not self.empty:
            for _ in group:
                account.drop("begins with nothing")
            return
        account.note("openings written")
        yield {"task_id": first.head.task_id, "prompt": said[: self.longest], "attempts": len(group)}


class Nothing:
    pass
'''


@pytest.fixture(autouse=True)
def _module(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own_forms.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.delitem(sys.modules, "own_forms", raising=False)
    write(Path("in.jsonl"), labelled(line("a"), line("b")))


def train_data(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), str(ROOT)]), "COLUMNS": "200"}
    command = [sys.executable, "-c", "from rollout.cli import main; main()", "train-data", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)


def test_form_of_a_module_is_written_with_its_parameters() -> None:
    done = train_data(
        "in.jsonl", "-o", "data", "--format", "jsonl", "--format", "pt", "--format", "parquet",
        "--form", "own_forms:Openings", "--set", "longest=7",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    records = read_lines(Path("data/openings.jsonl"))
    assert sum(record["attempts"] for record in records) == 2
    assert all(0 < len(record["prompt"]) <= 7 for record in records)
    about = json.loads(Path("data/openings.about.json").read_text())
    assert about["columns"] == {"task_id": "text", "prompt": "text", "attempts": "int"}
    assert about["notes"] == {"openings written": len(records)}
    assert {path.name for path in Path("data").iterdir()} == {
        "openings.jsonl", "openings.pt", "openings.parquet", "openings.about.json"
    }  # fmt: skip


def test_form_of_an_installed_package_is_named_as_its_entry_point() -> None:
    write(Path("own_forms-1.0.dist-info/METADATA"), b"Metadata-Version: 2.1\nName: own-forms\nVersion: 1.0\n")
    write(Path("own_forms-1.0.dist-info/entry_points.txt"), b"[rollout.row_forms]\nopen = own_forms:Openings\n")
    done = train_data("in.jsonl", "-o", "data", "--format", "jsonl", "--form", "open")
    assert done.returncode == 0, done.stdout + done.stderr
    assert read_lines(Path("data/open.jsonl"))
    done = train_data("in.jsonl", "-o", "data", "--form", "opened")
    assert done.returncode == 2
    assert "--form: there is no 'opened'; there are prefix_merge, per_step" in done.stderr
    assert "verl_steps, open, or your own as module:Name" in done.stderr


@pytest.mark.parametrize(
    ("form", "params", "told"),
    [
        ("own_forms:Openings", {"longst": 3}, "longst: there is no such key; did you mean 'longest'?"),
        ("own_forms:Openings", {"xyzzy": 3}, "xyzzy: there is no such key; known keys: empty, longest"),
        ("own_forms:Openings", {"longest": 0}, "longest: input should be greater than or equal to 1, got 0"),
        ("own_forms:Opening", {}, "own_forms has no 'Opening'; did you mean 'Openings'?"),
        ("own_forms:Nothing", {}, "is no form; expected a subclass"),
        ("preferences", {"margin": -1}, "margin: input should be greater than or equal to 0, got -1"),
        ("sft", {"best": "two"}, "best: input should be 'one' or 'all', got 'two'"),
        ("memory", {"memory": "nobody"}, "memory: 'nobody' is no memory builder"),
    ],
)
def test_parameters_of_a_form_are_checked(form: str, params: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make_form(form, params, {})
    assert told in str(raised.value)
    assert str(raised.value).startswith("--form") or "cannot be imported" in str(raised.value)


def test_options_go_to_the_form_that_has_them() -> None:
    options = {"best": "all", "last": None, "margin": 0.5}
    assert make_form("sft", {}, options).model_dump() == {"best": "all"}
    assert make_form("preferences", {"pairs": "all"}, options).model_dump() == {"pairs": "all", "margin": 0.5}
    assert make_form("verl", {}, options).model_dump() == {}


def test_help_names_every_form() -> None:
    shown = " ".join(train_data("--help").stdout.replace("│", " ").split())
    assert f"{', '.join(BUILT_IN)}, or your own as module:Name" in shown


def test_every_built_in_form_keeps_the_contract() -> None:
    for name in BUILT_IN:
        form = find_form(name)
        assert form.__doc__
        assert all(field.description for field in form.model_fields.values()), name
        assert form().maker(TokenChoice()).columns, name
