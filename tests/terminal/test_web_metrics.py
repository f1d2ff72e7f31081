"""The tables of web rates: what was recorded first, WebGym's rules below, and only where they apply."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from rollout.environments.web.rates import WebRates
from rollout.terminal.web_metrics import show_web_metrics
from rollout.trajectories.saved import SavedLine
from tests.trajectories.web_lines import answered, page, says, web_line

SHORT = {"status": "truncated", "stop_reason": "max_steps"}


def show(*lines: SavedLine, **options: Any) -> str:
    rates = WebRates(**options)
    for line in lines:
        rates.take(line, None)
    shown = io.StringIO()
    show_web_metrics(Console(file=shown, width=120), rates.result(), "shop")
    return shown.getvalue()


def clicked(**changes: Any) -> SavedLine:
    return web_line(says("click", "a", element=1), page("", call="a"), **changes)


def test_rates_by_status_come_first_and_what_differs_is_explained() -> None:
    shown = show(
        *(answered(True, id=f"t{number}") for number in range(21)),
        answered(False, id="wrong"),
        answered(False, id="unjudged", scored=False),
        clicked(id="short", **SHORT),
    )
    plain, _, compatible = shown.partition("by WebGym's rules")
    assert "solved, of those scored" in plain
    assert "91.3" in plain, "21 of 23"
    assert "failed (infrastructure)" in plain
    assert "crashed" not in plain
    assert "91.3" in compatible, "21 of 23: one that crashed is left out, one that nobody judged counts"
    assert "no answer within 10 steps" in compatible
    told = " ".join(compatible.split())
    assert (
        "Where the two differ: 1 crashed by these rules without a failure; 1 without a verdict, here not solved."
        in told
    )


def test_where_episodes_end_without_an_answer_nothing_is_said_to_have_crashed() -> None:
    shown = show(clicked(success=True, stop_reason="world_done"), ends_with_answer=False)
    assert "100.0" in shown
    assert "WebGym" not in shown
    assert "crashed" not in shown


def test_where_nothing_was_scored_there_is_nothing_to_compare() -> None:
    shown = show(answered(False, scored=False))
    assert "WebGym" not in shown
    assert "–" in shown
