"""`rollout doctor`: what is missing is named with the command that gets it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import get_args

import pytest

from rollout.core.extras import Extra
from rollout.pipelines.checks.doctor import EXTRAS, MachineFinding, examine, is_sound
from tests.conftest import Command


def test_every_extra_is_looked_for() -> None:
    assert EXTRAS.keys() == set(get_args(Extra))
    names = {finding.name for finding in examine()}
    assert {f"extra {extra}" for extra in EXTRAS} <= names
    assert {"python", "disk space", "chromium", "bubblewrap", "sandbox seccomp", "sandbox landlock"} <= names


def test_what_is_missing_has_the_command_that_gets_it(rollout: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", "/nowhere")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else find_spec(name))
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
    assert is_sound([MachineFinding("x", "missing", ""), MachineFinding("y", "missing", "", "protection")])
    assert not is_sound([MachineFinding("disk space", "missing", "", "required")])


def test_nothing_is_left_behind() -> None:
    examine()
    assert list(Path().iterdir()) == []
