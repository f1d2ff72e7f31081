"""`rollout doctor`: what is missing is named with the command that gets it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import get_args

import pytest

from rollout.core.extras import Extra
from rollout.pipelines.doctor import EXTRAS, Finding, examine, is_sound
from tests.conftest import Command


def test_every_extra_is_looked_for() -> None:
    assert EXTRAS.keys() == set(get_args(Extra))
    names = {finding.name for finding in examine()}
    assert {f"extra {extra}" for extra in EXTRAS} <= names
    assert {"python", "disk space", "chromium", "bubblewrap", "sandbox seccomp", "sandbox landlock"} <= names


def test_what_is_missing_has_the_command_that_gets_it(rollout: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", "/nowhere")
    monkeypatch.setattr(sys, "meta_path", [Without("ray"), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    done = rollout("doctor", "--no-colors")
    assert done.code == 0, "what is optional is no fault"
    assert "extra ray: pip install 'rollout-engine[ray]'" in done.out
    assert "chromium: apt-get install chromium-headless-shell" in done.out
    assert "bubblewrap: apt-get install bubblewrap" in done.out


def test_json_has_all_findings(rollout: Command) -> None:
    done = rollout("doctor", "--json")
    found = json.loads(done.out)
    assert found["ok"] is True
    assert {"name", "state", "found", "need", "remedy"} == set(found["findings"][0])


def test_only_what_is_required_makes_a_machine_unfit() -> None:
    assert is_sound([Finding("x", "missing", ""), Finding("y", "missing", "", "protection")])
    assert not is_sound([Finding("disk space", "missing", "", "required")])


def test_nothing_is_left_behind() -> None:
    examine()
    assert list(Path().iterdir()) == []


class Without:
    """A finder in which a package is not installed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == self.name:
            raise ModuleNotFoundError(name)
