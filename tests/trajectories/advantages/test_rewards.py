"""Rewards read off records: what is unknown is None, never 0."""

from __future__ import annotations

from typing import Any

import pytest

from rollout.core.errors import ConfigError
from rollout.trajectories.line import Head
from rollout.trajectories.rewards import reward_rule

SCORES = [
    {"name": "state", "value": 0.0, "partial": 0.75, "decides": True},
    {"name": "communicate", "value": 1.0, "decides": True},
    {"name": "style", "value": 0.25},
]


def head(scores: list[dict[str, Any]] = SCORES, *, success: bool = True, **metadata: Any) -> Head:
    metadata = {"status": "completed", "scored": True, "scores": scores, **metadata}
    return Head("t", "t", success, metadata)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("success", 1.0),
        ("scores", (0.0 + 1.0) / 2),
        ("partial", (0.75 + 1.0) / 2),
        ("score:style", 0.25),
        ("score:state", 0.0),
        ("partial:state", 0.75),
        ("partial:style", 0.25),
        ("score:unheard_of", None),
    ],
)
def test_each_rule_reads_its_number(rule: str, expected: float | None) -> None:
    assert reward_rule(rule)(head()) == expected


@pytest.mark.parametrize("rule", ["success", "scores", "partial", "score:style", "partial:state"])
@pytest.mark.parametrize("status", ["failed", "cut"])
def test_what_broke_or_was_not_waited_for_has_no_reward(rule: str, status: str) -> None:
    assert reward_rule(rule)(head(status=status, success=False)) is None


def test_a_truncated_trajectory_is_a_failure_of_the_agent() -> None:
    assert reward_rule("success")(head(status="truncated", success=False)) == 0.0


def test_nothing_checked_is_no_reward_however_it_ended() -> None:
    assert reward_rule("success")(head([], scored=False)) is None
    assert reward_rule("scores")(head([], scored=False)) is None


def test_a_deciding_score_without_verdict_leaves_no_mean() -> None:
    unjudged = [*SCORES, {"name": "nl_assertions", "value": None, "decides": True}]
    assert reward_rule("scores")(head(unjudged)) is None
    assert reward_rule("score:nl_assertions")(head(unjudged)) is None
    assert reward_rule("score:state")(head(unjudged)) == 0.0


@pytest.mark.parametrize("rule", ["", "sucess", "score:", "partial:", "success:state"])
def test_an_unknown_rule_is_named(rule: str) -> None:
    with pytest.raises(
        ConfigError, match=r"expected one of recorded, success, scores, partial, score:NAME, partial:NAME"
    ):
        reward_rule(rule)
