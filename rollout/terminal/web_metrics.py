"""Web rates and refused hosts at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from rollout.core.messages import JSON

_RATES = (
    ("solved, of those scored", "success_rate"),
    ("failed (infrastructure)", "crashed_rate"),
    ("blocked by the site", "blocked_rate"),
    ("truncated (a limit was hit)", "truncated_rate"),
    ("cut (the slowest)", "cut_rate"),
    ("answered", "answered_rate"),
    ("invalid steps", "invalid_step_rate"),
    ("goback steps", "goback_rate"),
    ("steps", "avg_steps"),
    ("characters a reply", "avg_chars_per_response"),
    ("trajectories", "trajectories"),
    ("scored", "scored"),
)
_WEBGYM = (
    ("success", "success_rate", "solved, of those that neither crashed nor were blocked"),
    ("crashed", "crashed_rate", "no start page, an empty reply, or no answer within 10 steps"),
    ("blocked", "blocked_rate", "of those that did not crash"),
    ("goback", "goback_rate", "of all steps of those in the first line"),
    ("steps", "avg_steps", ""),
    ("characters a reply", "avg_chars_per_response", ""),
)
_DIFFERENCES = {
    "crashed_without_failure": "{} crashed by these rules without a failure",
    "failed_without_crash": "{} failed but not crashed by these rules",
    "unscored_as_unsolved": "{} without a verdict, here not solved",
    "blocked_left_out": "{} blocked by the site, here left out of the success",
}
MAX_HOSTS = 10
_COUNTED = ("avg_steps", "avg_chars_per_response", "trajectories", "scored")


def show_web_metrics(console: Console, metrics: JSON, dataset: str = "") -> None:
    """Print one dataset's section `web` of metrics.json.

    The rates by status come first. Below them are the WebGym-compatible ones, where WebGym's rules apply: episodes end
    with an answer, and something was scored. (pass@k is in the summary of every run.)
    """
    name = dataset or "web rollouts"
    columns: Mapping[str, JSON] = {"all": metrics["by_status"]}
    columns = {**columns, **metrics["by_difficulty"]} if len(metrics["by_difficulty"]) > 1 else columns
    table = _table(f"{name}, rates in per cent", *columns)
    for label, key in _RATES:
        table.add_row(label, *(_cell(key, column.get(key)) for column in columns.values()))
    console.print(table)
    if "webgym" in metrics and metrics["by_status"]["scored"]:
        _show_webgym(console, metrics["webgym"], metrics.get("webgym_differences") or {}, name)


def show_refused_hosts(console: Console, metrics: JSON, dataset: str = "") -> None:
    """Print the hosts that pages could not reach, with the number of observations in which each was refused."""
    if not metrics:
        return
    shown = ", ".join(f"{host} ({count})" for host, count in list(metrics.items())[:MAX_HOSTS])
    more = f" and {len(metrics) - MAX_HOSTS} more" if len(metrics) > MAX_HOSTS else ""
    name = f"{dataset}: " if dataset else ""
    console.print(
        f"{name}hosts that pages could not reach (observations): {shown}{more}; allow public ones by web.hosts or "
        "web.assets, private ones by web.private_hosts",
        markup=False,
        soft_wrap=True,
    )


def _show_webgym(console: Console, rates: JSON, differences: JSON, name: str) -> None:
    table = _table(f"{name}, the same by WebGym's rules, to compare with its figures", "")
    table.add_column("what it means")
    for label, key, meaning in _WEBGYM:
        table.add_row(label, _cell(key, rates[key]), meaning)
    console.print(table)
    told = [text.format(count) for key, text in _DIFFERENCES.items() if (count := differences.get(key))]
    if told:
        console.print(f"Where the two differ: {'; '.join(told)}.", soft_wrap=True)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _cell(key: str, value: Any) -> str:
    if value is None:
        return "–"
    if key in _COUNTED:
        return str(value) if isinstance(value, int) else f"{value:.1f}"
    return f"{100 * value:.1f}"
