"""The table of web rates at the end of a run."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from rollout.core.messages import JSON

_NAMES = (
    ("success", "success_rate"),
    ("crashed", "crashed_rate"),
    ("blocked", "blocked_rate"),
    ("steps", "avg_steps"),
    ("characters a reply", "avg_chars_per_response"),
    ("goback", "goback_rate"),
)
_OWN = (
    ("truncated", "truncated_rate"),
    ("cut", "cut_rate"),
    ("answered", "answered_rate"),
    ("invalid steps", "invalid_step_rate"),
    ("trajectories", "trajectories"),
    ("scored", "scored"),
)
_COUNTED = ("avg_steps", "avg_chars_per_response", "trajectories", "scored")


def show_web_metrics(console: Console, metrics: JSON, dataset: str = "") -> None:
    """Print what stands under `web` in metrics.json for one dataset: the seed's rates beside those from statuses.
    (pass@k stands in the summary of every run.)"""
    columns = {"by the seed's rules": metrics["seed"], "by status": metrics["by_status"]}
    columns |= dict(metrics["by_difficulty"]) if len(metrics["by_difficulty"]) > 1 else {}
    title = f"{dataset or 'web rollouts'}, rates in per cent"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    for label, key in (*_NAMES, *_OWN):
        table.add_row(label, *(_cell(key, _value(column, key)) for column in columns.values()))
    console.print(table)


def _value(column: JSON, key: str) -> Any:
    return column["total_trajectories"] if key == "trajectories" and key not in column else column.get(key)


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    if key in _COUNTED:
        return str(value) if isinstance(value, int) else f"{value:.1f}"
    return f"{100 * value:.1f}"
