"""What the settings of a dataset in browsers change."""

from __future__ import annotations

import pytest

from rollout.config.browsing import WebSettings
from rollout.core.errors import ConfigError
from rollout.environments.web.actions import ACTIONS, toolset_of
from rollout.environments.web.prompts import web_prompt


def test_only_the_named_actions_are_offered_and_always_an_answer() -> None:
    offered = toolset_of(WebSettings(mode="text", actions=("click", "scroll")))
    assert [spec.name for spec in offered.specs] == ["click", "scroll", "answer"]
    assert {spec.name for spec in toolset_of(WebSettings(mode="text")).specs} == ACTIONS


def test_the_prompt_names_no_action_that_is_not_offered() -> None:
    assert "full_text" in web_prompt("plain", WebSettings(mode="text"), "native")
    assert "full_text" not in web_prompt("plain", WebSettings(mode="text", actions=("click",)), "native")


def test_an_unknown_action_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="actions: there is no 'clik' in the mode text; did you mean 'click'"):
        toolset_of(WebSettings(mode="text", actions=("clik",)))
