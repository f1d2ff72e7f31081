"""The suite miniwob without a browser: which tasks there are, and what its parameters refuse."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest

from rollout.config.schema import Dataset
from rollout.core.errors import ConfigError
from rollout.environments.find import find_environment
from rollout.environments.suites.miniwob import package
from rollout.environments.suites.miniwob.environment import Miniwob
from rollout.environments.suites.miniwob.package import EXCLUDED, MiniwobPackage

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("miniwob") is None, reason="needs the extra rollout-engine[suites]"
)


def load(**params: Any) -> Miniwob:
    suite = find_environment("pages", Dataset(suite="miniwob", suite_params=params, agent="builtin/oracle"))
    assert isinstance(suite, Miniwob)
    return suite


def test_more_than_a_hundred_kinds_are_there_and_what_is_left_out_has_a_reason() -> None:
    suite = load()
    kinds = {task_id.rpartition("/")[0] for task_id in suite.tasks.ids}
    assert len(kinds) >= 120
    assert len(suite.tasks) == 5 * len(kinds)
    held = {page.stem for page in (MiniwobPackage().folder / "miniwob").glob("*.html")}
    assert held - kinds == set(EXCLUDED)
    assert all(EXCLUDED.values())


def test_nothing_of_the_package_is_imported() -> None:
    load()
    assert not {"miniwob", "selenium", "gymnasium"} & set(sys.modules)


def test_tasks_are_kinds_and_seeds() -> None:
    suite = load(tasks=["login-user", "click-test"], seeds=2, first_seed=7)
    assert suite.tasks.ids == ["click-test/7", "click-test/8", "login-user/7", "login-user/8"]
    task = suite.tasks.read(3)
    assert task.info["website"] == "http://miniwob.test/miniwob/login-user.html"
    assert task.info["miniwob"] == {"task_type": "login-user", "seed": 8}


def test_what_changes_the_tasks_or_their_look_changes_the_identity() -> None:
    ways: list[dict[str, Any]] = [
        {},
        {"seeds": 3},
        {"first_seed": 1},
        {"mode": "text"},
        {"web": {"coordinate_range": 1000}},
        {"data_mode": "test"},
        {"tasks": ["click-test"]},
    ]
    identities = [load(**params).identity for params in ways]
    assert load().identity == identities[0]
    assert all(identity not in identities[:place] for place, identity in enumerate(identities))


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        (
            {"tasks": ["click-tset"]},
            "datasets.pages: miniwob: suite_params.tasks: there is no 'click-tset'; there are: ",
        ),
        ({"tasks": ["simon-says"]}, "suite_params.tasks: simon-says cannot be played: the order to repeat is flashed"),
        ({"tasks": []}, "suite_params.tasks: is empty"),
        ({"seeds": 0}, "suite_params.seeds"),
        ({"colour": "blue"}, "suite_params.colour"),
        ({"web": {"widht": 300}}, "suite_params.web.widht"),
        ({"web": {"mode": "text"}}, "suite_params.web: mode: leave out"),
    ],
)
def test_wrong_parameters_are_named(params: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(**params)
    assert problem in str(caught.value)


def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'rollout-engine\[suites\]'"):
        load()
