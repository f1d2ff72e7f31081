"""Filters of other packages: named as `module:Name` or by an entry point, with parameters that are checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rollout.config.filters import BUILT_IN, find_filter
from rollout.config.load import load_config, remember_secrets
from rollout.config.schema import Config
from rollout.core.errors import ConfigError
from rollout.core.secrets import redact
from rollout.pipelines.wiring.active_filters import FiltersByDataset
from rollout.trajectories.filters.filter import Filter
from tests.conftest import read_lines, write_yaml
from tests.trajectories.filters.attempts import ASK, attempt, filter_all, say
from tests.trajectories.lines import labelled, line, write

ROOT = Path(__file__).parents[3]
MODULE = '''
from pydantic import Field

from rollout.trajectories.filters.filter import ComparingFilter, GroupFilter, TurnFilter
from rollout.trajectories.filters.marks import Found
from rollout.trajectories.filters.traces import Sketch, Trace


class Short(TurnFilter):
    """Answers of few words."""

    words: int = Field(3, ge=1)
    """The fewest words of an answer."""
    except_for: list[str] = []
    """Answers that may be short."""

    def find(self, trajectory, turns):
        for turn in turns:
            content = trajectory.messages[turn.message].content or ""
            if content not in self.except_for and len(trajectory.spoken(turn.message)) < self.words:
                yield Found(f"fewer than {self.words} words", content, turn.turn)


class Poor(GroupFilter):
    """Groups that nobody solved."""

    def judge(self, rewards):
        return None if any(rewards) else Found("nobody solved it")


class Twins(ComparingFilter):
    """Trajectories with the very messages of another."""

    but: list[str] = []
    """Ids that are left alone."""

    def trace(self, trajectory, digests):
        key = (trajectory.dataset, trajectory.group, 0, trajectory.id)
        return Sketch(key, 0, b""), Trace(b"", (), tuple(digests), 0, 0)

    def compare(self, sketches, load):
        seen = set()
        for place, sketch in enumerate(sketches):
            digests = load(place).digests
            if digests in seen and sketch.key[3] not in self.but:
                yield place, Found("a twin")
            seen.add(digests)


class Nothing:
    pass
'''


@pytest.fixture(autouse=True)
def _module(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own_filters.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.delitem(sys.modules, "own_filters", raising=False)


def rollout(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), str(ROOT)]), "COLUMNS": "160"}
    command = [sys.executable, "-c", "from rollout.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)


def found(*arguments: str) -> list[tuple[str, str, int]]:
    """The filters that looked at a file, each with its policy and what it marked."""
    done = rollout("filter", "in.jsonl", "--json", "-o", "marks.jsonl", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return [(entry["filter"], entry["policy"], entry["trajectories"]) for entry in json.loads(done.stdout)["filters"]]


def test_filter_of_a_module_looks_as_the_configuration_says() -> None:
    write(Path("in.jsonl"), labelled(line("a"), line("b")))
    config = write_yaml(
        Path("own.yml"), {"filters": {"own_filters:Short": {"words": 1000, "policy": "mask_turn"}, "overlong": False}}
    )
    listed = found("--config", str(config))
    assert [name for name, _, _ in listed] == [*(name for name in BUILT_IN if name != "overlong"), "own_filters:Short"]
    assert listed[-1] == ("own_filters:Short", "mask_turn", 2)
    (mark, *_) = [mark for mark in read_lines(Path("marks.jsonl"))[0]["marks"] if mark["filter"] == "own_filters:Short"]
    assert (mark["policy"], mark["reason"], mark["turn"]) == ("mask_turn", "fewer than 1000 words", 0)


def test_filter_of_a_module_is_chosen_and_set_on_the_command_line() -> None:
    write(Path("in.jsonl"), labelled(line("a")))
    options = ["--filter", "own_filters:Short=keep", "--set", "own_filters:Short.words=1000"]
    assert found(*options) == [("own_filters:Short", "keep", 1)]
    config = write_yaml(Path("own.yml"), {"filters": {"own_filters:Short": {"words": 1000}}})
    assert found("--config", str(config), "--filter", "overlong") == [("overlong", "drop_trajectory", 0)]


def test_filter_of_an_installed_package_is_named_as_its_entry_point() -> None:
    write(Path("own_filters-1.0.dist-info/METADATA"), b"Metadata-Version: 2.1\nName: own-filters\nVersion: 1.0\n")
    write(Path("own_filters-1.0.dist-info/entry_points.txt"), b"[rollout.filters]\nshort = own_filters:Short\n")
    write(Path("in.jsonl"), labelled(line("a")))
    config = write_yaml(Path("own.yml"), {"filters": {"short": {"words": 1000}}})
    assert found("--config", str(config))[-1] == ("short", "drop_trajectory", 1)
    assert "short" not in {name for name, _, _ in found()}, "it is on where it is named"
    assert [name for name, _, _ in found("--filter", "short")] == ["short"]
    done = rollout("filter", "in.jsonl", "--filter", "shorts", "--dry-run")
    assert "there is no filter 'shorts'; there are void_turns" in done.stderr
    assert "accuracy_band, short" in done.stderr
    config = write_yaml(Path("own.yml"), {"filters": {"shorts": {}}})
    done = rollout("filter", "in.jsonl", "--config", str(config))
    assert "filters.shorts: there is no such key; did you mean 'short'?" in done.stderr


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ({"own_filters:Short": {"word": 3}}, "own_filters:Short.word: there is no such key; did you mean 'words'?"),
        (
            {"own_filters:Short": {"xyzzy": 3}},
            "own_filters:Short.xyzzy: there is no such key; known keys: enabled, except_for, policy, words",
        ),
        (
            {"own_filters:Short": {"words": 0}},
            "own_filters:Short.words: input should be greater than or equal to 1, got 0",
        ),
        ({"own_filters:Poor": "mask_turn"}, "own_filters:Poor.policy: input should be 'drop_trajectory' or 'keep'"),
        ({"own_filters:Poor": {"reward": "wins"}}, "own_filters:Poor.reward: there is no rule 'wins'"),
        (
            {"own_filters:Shor": {}},
            "own_filters:Shor: 'own_filters:Shor' cannot be imported: own_filters has no 'Shor'",
        ),
        ({"own_filters:Nothing": {}}, "own_filters:Nothing: is no filter; expected a subclass"),
        ({"repetitoin": {}}, "repetitoin: there is no such key; did you mean 'repetition'?"),
    ],
)
def test_parameters_are_checked_when_the_file_is_read_and_when_filters_are_made(
    filters: dict[str, Any], told: str
) -> None:
    for document, key in (({"filters": filters}, "filters"), ({"datasets": {"d": {"filters": filters}}}, "datasets.d")):
        with pytest.raises(ConfigError) as raised:
            load_config(write_yaml(Path("own.yml"), document))
        prefix = "filters" if key == "filters" else f"{key}.filters"
        assert f"own.yml: {prefix}.{told}" in str(raised.value)
        with pytest.raises(ConfigError) as raised:
            FiltersByDataset(Config.model_validate(document))
        assert f"filters.{told}" in str(raised.value)


def test_a_saved_configuration_is_read_where_its_filter_is_gone() -> None:
    saved = Config.model_validate({"filters": {"long_gone:Filter": {"words": 3}, "repetition": "keep"}})
    assert Config.model_validate(saved.model_dump(mode="json")) == saved
    with pytest.raises(ConfigError, match=r"filters\.long_gone:Filter: .* cannot be imported"):
        FiltersByDataset(saved)


def test_keys_of_own_filters_are_secrets_where_they_sound_like_one() -> None:
    remember_secrets(Config.model_validate({"filters": {"own_filters:Short": {"api_key": "filters-own-c0ffee"}}}))
    assert "c0ffee" not in redact("sent filters-own-c0ffee")


def test_own_filters_look_in_the_pass_of_their_base_class() -> None:
    poor = [attempt(id=name, task="t", success=False) for name in ("a", "b")]
    records = filter_all(
        *poor,
        attempt(ASK, say("Hm"), id="c", task="u", success=True),
        **{"own_filters:Poor": "drop_trajectory", "own_filters:Twins": {"but": ["x"]}, "own_filters:Short": True},
    )
    marked = {name: {mark.filter for mark in record.marks} for name, record in records.items()}
    own = {name: {filter for filter in filters if filter.startswith("own_")} for name, filters in marked.items()}
    assert own == {
        "a": {"own_filters:Poor"},
        "b": {"own_filters:Poor", "own_filters:Twins"},
        "c": {"own_filters:Short"},
    }
    assert records["a"].verdict == records["b"].verdict == "drop"


def test_every_built_in_filter_keeps_the_contract() -> None:
    for name in BUILT_IN:
        section = find_filter(name)
        assert issubclass(section, Filter)
        assert section.__doc__
        assert all(field.description for field in section.model_fields.values()), name
