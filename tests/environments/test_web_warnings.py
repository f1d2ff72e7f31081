"""What a run in browsers warns of before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout.config.browsing import WebMode, WebSettings
from rollout.config.models import AgentConfig
from rollout.environments.web.environment import WebEnvironment


@pytest.mark.parametrize(
    ("model", "mode", "count"),
    [("builtin/oracle", "coordinates", 1), ("builtin/oracle", "text", 0), ("openai/gpt", "coordinates", 0)],
)
def test_oracle_is_warned_of_a_mode_without_elements(model: str, mode: WebMode, count: int) -> None:
    environment = WebEnvironment("web", WebSettings(mode=mode), Path("tasks.jsonl"))
    found = environment.warnings(AgentConfig(model=model))
    assert len(found) == count
    assert all("use set_of_marks, text or accessibility_tree" in warning for warning in found)
